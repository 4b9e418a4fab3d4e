/// @file
/// What all kernels of fused attention share: arrays, extents, which block does what, and how rows
/// of a head are read and written at any head size and alignment.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/namespace.hpp>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// How rows of a head lie in memory, from the best to the most general.
enum class row_access {
  whole,  ///< 16 bytes at a time, and exactly the features of the kernel's tiles
  wide,   ///< 16 bytes at a time; the head size is a multiple of 4, less than the tiles'
  narrow  ///< one float at a time
};

/// One launch: `head_count` heads (counted through the batch) from `first_head` on.
struct flash_problem {
  std::int64_t first_head;
  int head_count;
  int heads_together;  ///< heads whose blocks run at about the same time, see flash_block
  int positions;       ///< T
  int heads;           ///< NH
  int head_size;       ///< HS
  row_access access;
  float scale;  ///< 1 / sqrt(HS)
};

/// The arrays of attention_forward and attention_backward, by any variant, and their checks.
struct attention_forward_arrays {
  float* out;
  float* lse;
  const float* qkv;

  void require(const char* function) const {
    checks::require_pointer(function, "out", out);
    checks::require_pointer(function, "lse", lse);
    checks::require_pointer(function, "qkv", qkv);
  }
};

struct attention_backward_arrays {
  float* dqkv;
  const float* dout;
  const float* qkv;
  const float* out;
  const float* lse;
  float* delta = nullptr;      ///< (B, NH, T), in the scratch
  float* dqkv_sums = nullptr;  ///< (B, blocks of rows, 3, NH, HS), in the scratch: the sums of
                               ///< dqkv over the rows of each block; null: not wanted

  void require(const char* function) const {
    checks::require_pointer(function, "dqkv", dqkv);
    checks::require_pointer(function, "dout", dout);
    checks::require_pointer(function, "qkv", qkv);
    checks::require_pointer(function, "out", out);
    checks::require_pointer(function, "lse", lse);
  }
};

inline constexpr float log2_of_e = 1.4426950408889634f;
inline constexpr float log_of_2 = 0.6931471805599453f;

/// 2^x, with an error of about 2 ulp; 0 for -infinity.
__device__ __forceinline__ float exp2_fast(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// What a block of threads works on: `rows` consecutive positions, number `row_block`, of one head.
///
/// The causal mask makes later queries (or earlier keys) longer work. So all the longest blocks of
/// a group of heads are numbered first, then the next longest: the GPU fills its last gaps with
/// short ones. Groups keep the heads that run at once few enough for their vectors to stay in L2.
struct flash_block {
  int row_block;  ///< 0 is the longest
  std::int64_t head;

  __device__ __forceinline__ flash_block(const flash_problem& p, int blocks_per_head) {
    const int id = static_cast<int>(blockIdx.x);
    const int blocks_per_group = p.heads_together * blocks_per_head;
    const int group = id / blocks_per_group;
    const int first = group * p.heads_together;
    const int heads_here = (min)(p.heads_together, p.head_count - first);
    const int within = id - group * blocks_per_group;
    row_block = within / heads_here;
    head = p.first_head + first + (within - row_block * heads_here);
  }
};

/// The vectors of one head: where position 0 lies, and the floats from one position to the next.
struct flash_head {
  std::int64_t batch;
  int within;  ///< where the head's features begin in a row of q, k or v
  std::int64_t qkv;
  std::int64_t out;
  std::int64_t row_sums;  ///< in lse and delta
  int channels;           ///< from q to k and from k to v; between positions of out
  int qkv_stride;

  __device__ __forceinline__ flash_head(const flash_problem& p, std::int64_t head) {
    batch = head / p.heads;
    within = static_cast<int>(head - batch * p.heads) * p.head_size;
    channels = p.heads * p.head_size;
    qkv_stride = 3 * channels;
    qkv = batch * p.positions * qkv_stride + within;
    out = batch * p.positions * channels + within;
    row_sums = head * p.positions;
  }
};

/// A matrix of vectors: its position 0, and the floats from one position to the next.
struct vectors {
  const float* first;
  int stride;
};

/// Features `feature`..`feature + 3` of a row; 0 past the head size, and if not `valid`.
template <bool Wide>
__device__ __forceinline__ float4 load_features(const flash_problem& p, const float* row,
                                                int feature, bool valid = true) {
  if constexpr (Wide) {
    // One condition, not two in a row: a predicate instead of a branch.
    const bool inside = valid & (feature < p.head_size);
    return inside ? *reinterpret_cast<const float4*>(row + feature) : float4{};
  } else {
    const auto one = [&](int i) { return valid && i < p.head_size ? row[i] : 0.0f; };
    return {one(feature), one(feature + 1), one(feature + 2), one(feature + 3)};
  }
}

/// Stores those of these four features that are within the head size.
__device__ __forceinline__ void store_features(const flash_problem& p, float* row, int feature,
                                               float4 x) {
  if (p.access != row_access::narrow) {
    if (feature < p.head_size) *reinterpret_cast<float4*>(row + feature) = x;
    return;
  }
  const auto one = [&](int i, float value) {
    if (i < p.head_size) row[i] = value;
  };
  one(feature, x.x);
  one(feature + 1, x.y);
  one(feature + 2, x.z);
  one(feature + 3, x.w);
}

}  // namespace detail
LLMC_NAMESPACE_END
