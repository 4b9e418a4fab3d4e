/// @file
/// Launching the mma.sync kernel.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstddef>
#include <cstdint>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/matmul/context/resources.hpp>
#include <llmc/detail/matmul/epilogue.cuh>
#include <llmc/detail/matmul/exact_sums.cuh>
#include <llmc/detail/matmul/kernel_presence.hpp>
#include <llmc/detail/matmul/mma/kernel.cuh>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/namespace.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Whether an operand's lines can be copied 16 bytes at a time.
inline bool is_16_byte_operand(const products::operand& m, std::int64_t outers,
                               std::int64_t inner) {
  const std::int64_t line = m.order == products::layout::inner_first ? inner : outers;
  return line % 4 == 0 && is_16_byte_accessible(m.stride, m.data);
}

/// How many slices to cut sums into, so that results of few tiles fill the card: the number that
/// `at_once` blocks at a time finish in the fewest rounds. A slice costs a pass over its sums, and
/// it must have some length.
inline int slices_of(const products::product& p, std::int64_t tiles, int at_once) {
  constexpr int most_slices = 8;
  constexpr std::int64_t shortest = 1024;
  constexpr double cost_of_slice = 0.02;  // of a round
  int best = 1;
  double best_rounds = static_cast<double>(ceil_div(tiles, at_once));
  for (int slices = 2; slices <= most_slices; ++slices) {
    const double bytes = static_cast<double>(p.rows) * static_cast<double>(p.columns) *
                         static_cast<double>(sizeof(float)) * slices;
    if (p.inner / slices < shortest ||
        bytes > static_cast<double>(products::resources::workspace_bytes)) {
      break;
    }
    const double rounds = static_cast<double>(ceil_div(tiles * slices, at_once)) / slices;
    if (rounds + cost_of_slice * slices < best_rounds) {
      best_rounds = rounds + cost_of_slice * slices;
      best = slices;
    }
  }
  return best;
}

template <class Tiles>
mma_problem mma_problem_of(const products::product& p, int stages, int slices) {
  constexpr int depth = Tiles::tile_1::depth;
  const std::int64_t slice_inner = ceil_div(ceil_div(p.inner, slices), depth) * depth;
  const products::epilogue& e = p.then;
  const bool wide_out =
      p.columns % 4 == 0 && is_16_byte_accessible(p.out.stride, p.out.data, e.bias, e.before_gelu,
                                                  e.gelu_inp, e.residual);
  return {p.rows,
          p.columns,
          p.inner,
          ceil_div(p.rows, Tiles::rows),
          ceil_div(p.columns, Tiles::columns),
          0,
          chunks_per_sum(ceil_div(slice_inner, depth)),
          slice_inner,
          p.rows * p.columns,
          p.inp1,
          p.inp2,
          output_of(p),
          is_16_byte_operand(p.inp1, p.rows, p.inner),
          is_16_byte_operand(p.inp2, p.columns, p.inner),
          wide_out,
          stages};
}

/// The stages of the longest ring that lets a multiprocessor run as many blocks as its registers
/// allow, or at least one.
template <class Tiles>
int stages_for(const char* function, int device) {
  const auto attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    check_cuda(function, "cudaDeviceGetAttribute", cudaDeviceGetAttribute(&value, which, device));
    return value;
  };
  constexpr int stage_bytes = Tiles::stage_floats * static_cast<int>(sizeof(float));
  const int reserved = attribute(cudaDevAttrReservedSharedMemoryPerBlock);
  const int all = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  for (int blocks = Tiles::blocks_per_sm; blocks >= 1; --blocks) {
    const int stages = (all / blocks - reserved) / stage_bytes;
    if (stages >= Tiles::least_stages) {
      return stages < Tiles::most_stages ? stages : Tiles::most_stages;
    }
  }
  return Tiles::least_stages;
}

/// Whether this file has the kernel for the current device, number `device`.
template <class Tiles>
bool mma_is_there(int device) {
  static products::kernel_presence there;
  return there.on(device, reinterpret_cast<const void*>(&mma_kernel<Tiles>), Tiles::threads);
}

template <class Tiles>
void launch_mma(const char* function, const products::product& p, int slices,
                products::resources& on, cudaStream_t stream) {
  const int stages = stages_for<Tiles>(function, on.device());
  const auto shared_bytes = sizeof(float) * Tiles::stage_floats * static_cast<std::size_t>(stages);
  const mma_problem problem = mma_problem_of<Tiles>(p, stages, slices);
  const std::int64_t count = problem.row_tiles * problem.column_tiles * slices;
  constexpr std::int64_t most_blocks = std::int64_t{1} << 30;
  for (std::int64_t first = 0; first < count; first += most_blocks) {
    const std::int64_t blocks = count - first < most_blocks ? count - first : most_blocks;
    launch({function, blocks, Tiles::threads, shared_bytes, stream}, mma_kernel<Tiles>, problem,
           first);
  }
}

/// Computes a product (batch 1, factor 1) whose operands have the layouts of the tiles. One kernel
/// does it. Where tiles are few and sums long, it leaves slices of the sums in the context's
/// workspace, and a second kernel adds them up in order.
template <class Tiles>
void multiply_by_mma(const char* function, const products::product& p, products::resources& on,
                     cudaStream_t stream) {
  const std::int64_t count = ceil_div(p.rows, Tiles::rows) * ceil_div(p.columns, Tiles::columns);
  const int slices = slices_of(p, count, Tiles::blocks_per_sm * on.multiprocessors());
  if (slices == 1) {
    launch_mma<Tiles>(function, p, 1, on, stream);
    return;
  }
  products::product sliced = p;
  sliced.out = {static_cast<float*>(on.workspace()), p.columns};
  sliced.then = {};
  launch_mma<Tiles>(function, sliced, slices, on, stream);
  late_epilogue rest{output_of(p), sliced.out.data, p.columns, slices, p.rows * p.columns};
  launch_late_epilogue(function, rest, p.rows, p.columns, stream);
}

}  // namespace detail
LLMC_NAMESPACE_END
