/// @file
/// What the kernels of causal_product share: the arrays, and the walk over tiles of scores.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// One head's matrices, or those of the first head of all.
struct score_matrices {
  float* out;      ///< (T, T)
  const float* q;  ///< (T, HS)
  const float* k;  ///< (T, HS)
};

/// A square tile of one head's scores, from row `row` and column `column` on.
struct score_tile {
  score_matrices head;
  std::int64_t row;
  std::int64_t column;
};

/// Calls `body(tile)` for the tiles of this block, those above the diagonal too: there is nothing
/// to compute in them, but 0 to write. They lie between the others, so that their blocks write
/// while others compute.
template <int Size, class Body>
__device__ __forceinline__ void for_each_score_tile(score_matrices all, attention_shape shape,
                                                    Body body) {
  const std::int64_t T = shape.sequence;
  const std::int64_t in_row = (T + Size - 1) / Size;
  const std::int64_t in_head = in_row * in_row;
  const std::int64_t tiles = shape.batch * shape.heads * in_head;
  for (std::int64_t i = blockIdx.x; i < tiles; i += gridDim.x) {
    const std::int64_t h = i / in_head, within = i % in_head;
    const std::int64_t vectors = h * T * shape.head_size;
    body(score_tile{{all.out + h * T * T, all.q + vectors, all.k + vectors},
                    within / in_row * Size,
                    within % in_row * Size});
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
