/// @file
/// The kernels of layer normalisation backward, with and without a residual: one for each place
/// where a row can live. The ladder's first kernel is in naive.cuh.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/column_sum.cuh>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/layernorm/forward.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/detail/row/in_registers.cuh>
#include <llmc/device/dependent_launch.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/group.cuh>
#include <llmc/device/row/layernorm.cuh>
#include <llmc/device/row/row.cuh>
#include <llmc/device/row/row_in_registers.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Every array of layernorm_backward and residual_layernorm_backward.
struct layernorm_backward_arrays {
  float* dinp;
  float* dweight;
  float* dbias;
  float* scratch;
  const float* addend;  ///< added to dinp; may be null
  const float* dout;
  const float* inp;
  const float* weight;
  const float* mean;
  const float* rstd;
  float* dinp_bias = nullptr;  ///< column sums of dinp; may be null

  /// Whether all rows can be read 16 bytes at a time.
  bool wide(row_shape shape) const {
    return is_16_byte_accessible(shape.channels, dinp, addend, dout, inp, weight);
  }
  __device__ const float* addend_at(std::int64_t offset) const {
    return addend == nullptr ? nullptr : addend + offset;
  }
};

/// How many blocks share the rows of a backward pass. The number depends on shape and block size
/// alone, so that the bits do not depend on the card. It is what 132 multiprocessors hold at once,
/// since a second wave would double the time. Each warp of a usual block has a row at least.
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

/// Enough for any variant and block size; `sums` is 3 where dinp_bias is wanted, else 2.
inline std::size_t layernorm_backward_workspace_bytes(const char* function, row_shape shape,
                                                      int sums) {
  checks::require_shape(function, shape);
  const std::size_t by_warps = column_sum_workspace_bytes(function, shape, 2);
  const std::size_t in_registers = checks::bytes<float>(
      function, layernorm_backward_blocks(shape, device::warp_size), sums, shape.channels);
  return by_warps > in_registers ? by_warps : in_registers;
}

// ---- rows in registers ----

/// The sums of dinp over the rows of each group of a block, in dynamic shared memory, since the
/// registers are full. A thread has the same columns in every row, so only the end needs a barrier.
template <class Group, class Row, int BlockSize>
class dinp_sums {
  static constexpr int groups = Group::per_block(BlockSize);

 public:
  static std::size_t shared_bytes(std::int64_t channels) {
    return sizeof(float) * static_cast<std::size_t>(groups * channels);
  }

  __device__ __forceinline__ dinp_sums(float* memory, int channels)
      : memory_(memory),
        own_(memory +
             (groups == 1 ? 0 : static_cast<int>(threadIdx.x) / device::warp_size) * channels),
        channels_(channels) {
    Row(channels).store(own_);
  }

  __device__ __forceinline__ void add(const Row& dinp) const {
    Row total(channels_);
    total.load(own_);
    total.add(dinp);
    total.store(own_);
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
  int channels_;
};

/// In place of dinp_sums where dinp_bias is not wanted.
struct no_dinp_sums {
  static std::size_t shared_bytes(std::int64_t) { return 0; }
  __device__ __forceinline__ no_dinp_sums(float*, int) {}
  template <class Row>
  __device__ __forceinline__ void add(const Row&) const {}
  __device__ __forceinline__ void finish(float*) const {}
};

template <bool SumsDinp, class Group, class Row, int BlockSize>
using dinp_sums_if = std::conditional_t<SumsDinp, dinp_sums<Group, Row, BlockSize>, no_dinp_sums>;

/// Adds up the warps' partial sums in the order of the warps and writes them to partials[2][C].
/// Every thread of the block must call it.
template <int BlockSize, int Width, int Floats, class Row>
__device__ __forceinline__ void store_warps_partials(float* partials, const Row (&sums)[2],
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
    const typename Row::place where{first_column + lane * Width, k};
    __syncthreads();
#pragma unroll
    for (int s = 0; s < 2; ++s) device::store(&shared[s][warp][lane * Width], sums[s].at(where));
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

/// Makes dinp, and each block's share of dweight, of dbias and, if `SumsDinp`, of the column sums
/// of dinp. column_sum_total adds up the shares.
template <int Width, int Floats, class Group, int BlockSize, bool SumsDinp>
__global__ void __launch_bounds__(BlockSize, BlockSize <= (Floats <= 24 ? 256 : 128) ? 2 : 1)
    layernorm_backward_registers_kernel(layernorm_backward_arrays a, row_shape shape) {
  using registers = device::row_in_registers<Group, Width, Floats>;
  __shared__ typename Group::storage storage;
  device::allow_next_kernel();
  const Group group(storage);
  const int channels = static_cast<int>(shape.channels);
  registers sums[2] = {registers(channels), registers(channels)};  // of dweight and dbias
  extern __shared__ __align__(16) float dinp_memory[];
  const dinp_sums_if<SumsDinp, Group, registers, BlockSize> sums_of_dinp(dinp_memory, channels);
  group.for_each_row(shape.rows, [&](std::int64_t row) {
    const std::int64_t offset = row * shape.channels;
    registers d(channels), x(channels);
    d.load(a.dout + offset);
    x.load(a.inp + offset);
    const auto differentiate = [&](const auto& addend) {
      device::layernorm_gradient(group, a.dinp + offset, addend, d, x, a.weight, channels,
                                 {a.mean[row], a.rstd[row]},
                                 [&](auto where, const auto& dout, const auto& norm) {
                                   auto& dweight = sums[0].at(where);
                                   auto& dbias = sums[1].at(where);
#pragma unroll
                                   for (int i = 0; i < Width; ++i) {
                                     dbias[i] += dout[i];
                                     dweight[i] += dout[i] * norm[i];
                                   }
                                 });
    };
    const float* addend = a.addend_at(offset);
    if constexpr (Floats <= 16) {  // there are registers for one row more
      registers kept_addend(channels);
      if (addend != nullptr) kept_addend.load(addend);
      differentiate(kept_addend);
    } else {
      if (addend != nullptr) {
        d.for_each_place([&](auto where) { device::prefetch(addend + where.column); });
      }
      differentiate(addend);
    }
    sums_of_dinp.add(d);
  });

  constexpr int kinds = SumsDinp ? 3 : 2;
  float* partials = a.scratch + static_cast<std::int64_t>(blockIdx.x) * kinds * shape.channels;
  sums_of_dinp.finish(partials + 2 * shape.channels);
  if constexpr (Group::is_block) {
    sums[0].store(partials);
    sums[1].store(partials + channels);
  } else {
    store_warps_partials<BlockSize, Width, Floats>(partials, sums, channels);
  }
}

template <int BlockSize, bool SumsDinp>
void launch_layernorm_backward_registers(const char* function, const layernorm_backward_arrays& a,
                                         row_shape shape, accumulation mode, cudaStream_t stream) {
  const std::int64_t blocks = layernorm_backward_blocks(shape, BlockSize);
  with_row_registers<BlockSize>(
      a.wide(shape), shape.channels, [&](auto width, auto floats, auto group) {
        using row_group = typename decltype(group)::type;
        using row = device::row_in_registers<row_group, width(), floats()>;
        using sums = dinp_sums_if<SumsDinp, row_group, row, BlockSize>;
        launch(
            {function, blocks, BlockSize, sums::shared_bytes(shape.channels), stream},
            layernorm_backward_registers_kernel<width(), floats(), row_group, BlockSize, SumsDinp>,
            a, shape);
      });
  if constexpr (SumsDinp) {
    column_sum_total<3>(function, {{a.dweight, a.dbias, a.dinp_bias}}, a.scratch, shape.channels,
                        blocks, mode, stream);
  } else {
    column_sum_total<2>(function, {{a.dweight, a.dbias}}, a.scratch, shape.channels, blocks, mode,
                        stream);
  }
}

/// Whether the kernel's blocks have room for sums of dinp in the shared memory that every card
/// gives without being asked, beside what store_warps_partials takes.
constexpr bool fits_dinp_sums(std::int64_t channels, int block_size) {
  constexpr std::int64_t most_floats = 40 * 1024 / sizeof(float);
  constexpr std::int64_t most_columns = 4 * device::warp_size;  // that a warp stores at once
  const bool by_warps = fits_row_registers(channels, device::warp_size);
  const std::int64_t groups = by_warps ? block_size / device::warp_size : 1;
  return groups * (channels + (by_warps ? 2 * most_columns : 0)) <= most_floats;
}

// ---- rows in memory, or in the cache, by warps ----

/// The terms of one row in dweight and dbias, for column_sum.
struct layernorm_parameter_terms {
  const float* dout;
  const float* inp;
  const float* mean;
  const float* rstd;
  std::int64_t channels;

  template <int Width>
  __device__ void operator()(std::int64_t row, std::int64_t c,
                             device::pack<Width> (&values)[2]) const {
    const auto d = device::load<Width>(dout + row * channels + c);
    const auto x = device::load<Width>(inp + row * channels + c);
    for (int i = 0; i < Width; ++i) values[0][i] = d[i] * ((x[i] - mean[row]) * rstd[row]);
    values[1] = d;
  }
};

template <int Width, int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    layernorm_backward_by_warps_kernel(layernorm_backward_arrays a, row_shape shape) {
  using warp = device::whole_warp<BlockSize>;
  const warp group;
  group.for_each_row(shape.rows, [&](std::int64_t row) {
    const std::int64_t offset = row * shape.channels;
    device::row_in_memory<warp, Width> dout(a.dout + offset, shape.channels);
    const float* inp = a.inp + offset;
    device::layernorm_gradient(group, a.dinp + offset, a.addend_at(offset), dout, inp, a.weight,
                               shape.channels, {a.mean[row], a.rstd[row]}, device::no_terms{});
  });
}

/// The parameters' gradients come first, because dinp may overwrite dout.
template <int BlockSize>
void launch_layernorm_backward_by_warps(const char* function, const layernorm_backward_arrays& a,
                                        row_shape shape, accumulation mode, cudaStream_t stream) {
  column_sum<2, BlockSize>(function, {{a.dweight, a.dbias}}, a.scratch, shape,
                           is_16_byte_accessible(shape.channels, a.dout, a.inp),
                           layernorm_parameter_terms{a.dout, a.inp, a.mean, a.rstd, shape.channels},
                           mode, stream);
  with_access_width(a.wide(shape), [&](auto width) {
    launch({function, ceil_div(shape.rows, BlockSize / device::warp_size), BlockSize, 0, stream},
           layernorm_backward_by_warps_kernel<width(), BlockSize>, a, shape);
  });
}

// ---- rows in memory, sums of the parameters' gradients in shared memory, by blocks ----

/// Makes dinp, and each block's share of dweight and dbias, for column_sum_total. A thread owns
/// channels.
template <int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    layernorm_backward_shared_kernel(layernorm_backward_arrays a, row_shape shape) {
  using block = device::whole_block<>;
  extern __shared__ __align__(16) float kept_in_shared_memory[];
  __shared__ block::storage storage;
  const block group(storage);
  float* dweight = kept_in_shared_memory;
  float* dbias = dweight + shape.channels;
  const auto for_each_channel = [&](auto body) {
    for (std::int64_t c = group.rank(); c < shape.channels; c += group.size()) body(c);
  };
  for_each_channel([&](std::int64_t c) { dweight[c] = dbias[c] = 0.0f; });

  group.for_each_row(shape.rows, [&](std::int64_t row) {
    const std::int64_t offset = row * shape.channels;
    device::row_in_memory<block, 1> dout(a.dout + offset, shape.channels);
    const float* inp = a.inp + offset;
    device::layernorm_gradient(group, a.dinp + offset, a.addend_at(offset), dout, inp, a.weight,
                               shape.channels, {a.mean[row], a.rstd[row]},
                               [&](auto where, const auto& d, const auto& norm) {
                                 dweight[where.column] += d[0] * norm[0];
                                 dbias[where.column] += d[0];
                               });
  });

  float* partials = a.scratch + static_cast<std::int64_t>(blockIdx.x) * 2 * shape.channels;
  for_each_channel([&](std::int64_t c) {
    partials[c] = dweight[c];
    partials[shape.channels + c] = dbias[c];
  });
}

/// As many blocks as the scratch has room for, whatever the block size.
template <int BlockSize>
void launch_layernorm_backward_shared(const char* function, const char* variant,
                                      const layernorm_backward_arrays& a, row_shape shape,
                                      accumulation mode, cudaStream_t stream) {
  const std::size_t bytes = shared_bytes_of_row(function, variant, shape.channels, 2);
  const std::int64_t blocks = layernorm_backward_blocks(shape, device::warp_size);
  launch({function, blocks, BlockSize, bytes, stream}, layernorm_backward_shared_kernel<1024>, a,
         shape);
  column_sum_total<2>(function, {{a.dweight, a.dbias}}, a.scratch, shape.channels, blocks, mode,
                      stream);
}

}  // namespace detail
LLMC_NAMESPACE_END
