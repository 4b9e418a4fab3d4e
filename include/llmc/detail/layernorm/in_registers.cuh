/// @file
/// The kernels of layer normalisation that keep a row in registers, with and without a residual.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/column_sum.cuh>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/dependent_launch.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/layernorm_registers.cuh>
#include <llmc/device/row/reduce.cuh>
#include <llmc/device/row/row_registers.cuh>
#include <llmc/error.hpp>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN
namespace checks {

/// Rows that a variant named by its user cannot keep in registers.
[[noreturn]] inline void refuse_row(const char* function, const char* variant,
                                    std::int64_t channels, std::int64_t most) {
  throw unsupported(std::string(function) + ": the variant " + variant + " takes at most " +
                    std::to_string(most) + " channels with this block size, got " +
                    std::to_string(channels));
}

}  // namespace checks
LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace detail {

// ---- forward ----

/// Where layernorm_forward's rows come from.
struct layernorm_input {
  const float* inp;

  template <class Registers>
  __device__ __forceinline__ void load(Registers& row, std::int64_t offset, int rank,
                                       int channels) const {
    row.load(inp + offset, rank, channels);
  }
};

/// The sum of two matrices, written as soon as it is known. `residual` may alias either.
struct residual_input {
  float* residual;
  const float* inp1;
  const float* inp2;

  template <class Registers>
  __device__ __forceinline__ void load(Registers& row, std::int64_t offset, int rank,
                                       int channels) const {
    Registers other;
    row.load(inp1 + offset, rank, channels);
    other.load(inp2 + offset, rank, channels);
    row.add(other);
    row.store(residual + offset, rank, channels);
  }
};

template <int Width, int Floats, int Threads, int BlockSize, class Input>
__global__ void __launch_bounds__(BlockSize)
    layernorm_forward_registers_kernel(float* out, float* mean, float* rstd, Input input,
                                       const float* weight, const float* bias, row_shape shape,
                                       float epsilon) {
  using row_group = device::row_group<Threads, BlockSize>;
  __shared__ typename row_group::storage storage;
  row_group group(storage);
  const int channels = static_cast<int>(shape.channels);
  row_group::for_each_row(shape.rows, [&](std::int64_t row) {
    const std::int64_t offset = row * shape.channels;
    device::row_registers<Width, Floats, Threads> x, w;
    input.load(x, offset, group.rank(), channels);
    w.load(weight, group.rank(), channels);  // while the row is on its way
    const device::row_statistics statistics =
        device::layernorm_statistics(group, x, channels, epsilon);
    device::layernorm_apply(x, w, bias, group.rank(), channels, statistics);
    x.store(out + offset, group.rank(), channels);
    if (group.rank() == 0) {
      if (mean != nullptr) mean[row] = statistics.mean;
      if (rstd != nullptr) rstd[row] = statistics.rstd;
    }
  });
}

template <int BlockSize, class Input>
void launch_layernorm_forward_registers(const char* function, float* out, float* mean, float* rstd,
                                        Input input, const float* weight, const float* bias,
                                        row_shape shape, float epsilon, bool wide,
                                        cudaStream_t stream) {
  with_row_registers<BlockSize>(wide, shape.channels, [&](auto width, auto floats, auto threads) {
    const std::int64_t blocks = ceil_div(shape.rows, BlockSize / threads());
    launch({function, blocks, BlockSize, 0, stream},
           layernorm_forward_registers_kernel<width(), floats(), threads(), BlockSize, Input>, out,
           mean, rstd, input, weight, bias, shape, epsilon);
  });
}

// ---- backward ----

/// Every array of layernorm_backward and residual_layernorm_backward.
struct layernorm_backward_arrays {
  float* dinp;
  float* dweight;
  float* dbias;
  void* workspace;
  const float* addend;  ///< of dinp; may be null
  const float* dout;
  const float* inp;
  const float* weight;
  const float* mean;
  const float* rstd;
  float* dinp_bias = nullptr;  ///< column sums of dinp; may be null
};

/// How many blocks share the rows of a backward pass. A function of shape and block size alone, so
/// that the bits do not depend on the card: what is resident at once on 132 multiprocessors, since
/// a second wave would double the time. Each warp of a usual block has a row at least.
constexpr std::int64_t layernorm_backward_blocks(row_shape shape, int block_size) {
  constexpr std::int64_t multiprocessors = 132;
  constexpr std::int64_t fewest_rows = 8;
  const bool by_warps = fits_row_registers(shape.channels, device::warp_size);
  const std::int64_t floats = ceil_div(shape.channels, by_warps ? device::warp_size : block_size);
  const bool two_each = block_size * 2 <= (floats <= 24 ? 512 : 256);
  const std::int64_t resident = multiprocessors * (two_each ? 2 : 1);
  const std::int64_t wanted = ceil_div(shape.rows, fewest_rows);
  return wanted < resident ? wanted : resident;
}

/// Enough for any block size; `sums` are those of layernorm_backward_registers_kernel.
inline std::size_t layernorm_backward_registers_workspace_bytes(const char* function,
                                                                row_shape shape, int sums) {
  return checks::bytes<float>(function, layernorm_backward_blocks(shape, device::warp_size), sums,
                              shape.channels);
}

/// The sums of dinp over the rows of each group of a block, in dynamic shared memory, since the
/// registers are full. A thread has the same columns in every row, so only the end needs a barrier.
template <int Width, int Floats, int Threads, int BlockSize>
class dinp_sums {
  using registers = device::row_registers<Width, Floats, Threads>;
  static constexpr int groups = BlockSize / Threads;

 public:
  static std::size_t shared_bytes(std::int64_t channels) {
    return sizeof(float) * static_cast<std::size_t>(groups * channels);
  }

  __device__ __forceinline__ dinp_sums(float* memory, int rank, int channels)
      : memory_(memory),
        own_(memory + static_cast<int>(threadIdx.x) / Threads * channels),
        rank_(rank),
        channels_(channels) {
    registers().store(own_, rank, channels);
  }

  __device__ __forceinline__ void add(const registers& dinp) const {
    registers::for_each_pack(rank_, channels_, [&](int k, int c) {
      device::store_or_add(own_ + c, dinp.values[k], true);
    });
  }

  /// Writes the block's sums. Every thread of the block must call it.
  __device__ __forceinline__ void finish(float* to) const {
    __syncthreads();
    for (int c = static_cast<int>(threadIdx.x); c < channels_; c += BlockSize) {
      float total = 0.0f;
#pragma unroll 8
      for (int group = 0; group < groups; ++group) total += memory_[group * channels_ + c];
      to[c] = total;
    }
  }

 private:
  float* memory_;
  float* own_;
  int rank_;
  int channels_;
};

/// Where nobody asks for them.
struct no_dinp_sums {
  static std::size_t shared_bytes(std::int64_t) { return 0; }
  __device__ __forceinline__ no_dinp_sums(float*, int, int) {}
  template <class Registers>
  __device__ __forceinline__ void add(const Registers&) const {}
  __device__ __forceinline__ void finish(float*) const {}
};

template <bool SumsDinp, int Width, int Floats, int Threads, int BlockSize>
using dinp_sums_if =
    std::conditional_t<SumsDinp, dinp_sums<Width, Floats, Threads, BlockSize>, no_dinp_sums>;

/// Adds up the warps' partial sums in the order of the warps and writes them to partials[2][C].
/// Every thread of the block must call it.
template <int BlockSize, int Width, int Floats>
__device__ __forceinline__ void store_warps_partials(
    float* partials, const device::row_registers<Width, Floats, device::warp_size> (&sums)[2],
    int channels) {
  constexpr int warps = BlockSize / device::warp_size;
  constexpr int columns = device::warp_size * Width;
  __shared__ __align__(16) float shared[2][warps][columns];
  const int lane = static_cast<int>(threadIdx.x) % device::warp_size;
  const int warp = static_cast<int>(threadIdx.x) / device::warp_size;
#pragma unroll
  for (int k = 0; k < Floats / Width; ++k) {
    const int first_column = k * columns;
    if (first_column >= channels) break;  // the same for all threads
    __syncthreads();
#pragma unroll
    for (int s = 0; s < 2; ++s) device::store(&shared[s][warp][lane * Width], sums[s].values[k]);
    __syncthreads();
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < 2 * columns; i += BlockSize) {
      const int s = i / columns;
      const int column = i % columns;
      if (first_column + column >= channels) continue;
      float total = 0.0f;
#pragma unroll 8
      for (int w = 0; w < warps; ++w) total += shared[s][w][column];
      partials[static_cast<std::int64_t>(s) * channels + first_column + column] = total;
    }
  }
}

/// dinp, and each block's share of dweight and dbias and, if `SumsDinp`, of the column sums of
/// dinp, for column_sum_total.
template <int Width, int Floats, int Threads, int BlockSize, bool SumsDinp>
__global__ void __launch_bounds__(BlockSize, BlockSize <= (Floats <= 24 ? 256 : 128) ? 2 : 1)
    layernorm_backward_registers_kernel(float* dinp, float* partials, const float* addend,
                                        const float* dout, const float* inp, const float* weight,
                                        const float* mean, const float* rstd, row_shape shape) {
  using row_group = device::row_group<Threads, BlockSize>;
  using registers = device::row_registers<Width, Floats, Threads>;
  __shared__ typename row_group::storage storage;
  device::allow_next_kernel();
  row_group group(storage);
  const int channels = static_cast<int>(shape.channels);
  registers sums[2];  // of dweight and dbias
  extern __shared__ __align__(16) float dinp_memory[];
  const dinp_sums_if<SumsDinp, Width, Floats, Threads, BlockSize> sums_of_dinp(
      dinp_memory, group.rank(), channels);
  row_group::for_each_row(shape.rows, [&](std::int64_t row) {
    const std::int64_t offset = row * shape.channels;
    registers d, x;
    d.load(dout + offset, group.rank(), channels);
    x.load(inp + offset, group.rank(), channels);
    if (addend != nullptr) {
      registers::for_each_pack(group.rank(), channels,
                               [&](int, int c) { device::prefetch(addend + offset + c); });
    }
    device::layernorm_backward_registers(group, dinp + offset, sums[0], sums[1],
                                         addend == nullptr ? nullptr : addend + offset, d, x,
                                         weight, channels, {mean[row], rstd[row]});
    sums_of_dinp.add(d);
  });

  constexpr int kinds = SumsDinp ? 3 : 2;
  float* block_partials = partials + static_cast<std::int64_t>(blockIdx.x) * kinds * shape.channels;
  sums_of_dinp.finish(block_partials + 2 * shape.channels);
  if constexpr (Threads == device::warp_size) {
    store_warps_partials<BlockSize>(block_partials, sums, channels);
  } else {
    sums[0].store(block_partials, group.rank(), channels);
    sums[1].store(block_partials + channels, group.rank(), channels);
  }
}

/// `wide` says whether all arrays but the workspace can be read 16 bytes at a time.
template <int BlockSize, bool SumsDinp>
void launch_layernorm_backward_registers(const char* function, const layernorm_backward_arrays& a,
                                         row_shape shape, accumulation mode, bool wide,
                                         cudaStream_t stream) {
  float* partials = static_cast<float*>(a.workspace);
  const std::int64_t blocks = layernorm_backward_blocks(shape, BlockSize);
  with_row_registers<BlockSize>(
      wide && is_16_byte_aligned(partials), shape.channels,
      [&](auto width, auto floats, auto threads) {
        using sums = dinp_sums_if<SumsDinp, width(), floats(), threads(), BlockSize>;
        launch(
            {function, blocks, BlockSize, sums::shared_bytes(shape.channels), stream},
            layernorm_backward_registers_kernel<width(), floats(), threads(), BlockSize, SumsDinp>,
            a.dinp, partials, a.addend, a.dout, a.inp, a.weight, a.mean, a.rstd, shape);
      });
  if constexpr (SumsDinp) {
    column_sum_total<3>(function, {{a.dweight, a.dbias, a.dinp_bias}}, partials, shape.channels,
                        blocks, mode, stream);
  } else {
    column_sum_total<2>(function, {{a.dweight, a.dbias}}, partials, shape.channels, blocks, mode,
                        stream);
  }
}

/// Whether the kernel's blocks have room for sums of dinp in the shared memory that every card
/// gives without being asked, beside what store_warps_partials takes of it.
constexpr bool fits_dinp_sums(std::int64_t channels, int block_size) {
  constexpr std::int64_t most_floats = 40 * 1024 / sizeof(float);
  constexpr std::int64_t most_columns = 4 * device::warp_size;  // that a warp stores at once
  const bool by_warps = fits_row_registers(channels, device::warp_size);
  const std::int64_t groups = by_warps ? block_size / device::warp_size : 1;
  return groups * (channels + (by_warps ? 2 * most_columns : 0)) <= most_floats;
}

}  // namespace detail
LLMC_NAMESPACE_END
