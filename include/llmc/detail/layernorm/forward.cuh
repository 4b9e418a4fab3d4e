/// @file
/// The kernels of layer normalisation forward, with and without a residual: one for each place
/// where a row can live. The ladder's first kernels are in naive.cuh.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/detail/row/in_registers.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/group.cuh>
#include <llmc/device/row/layernorm.cuh>
#include <llmc/device/row/row.cuh>
#include <llmc/device/row/row_in_registers.cuh>
#include <llmc/error.hpp>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

// ---- what the kernels are given ----

/// Where layernorm_forward's rows come from.
struct layernorm_input {
  const float* inp;

  bool wide(row_shape shape) const { return is_16_byte_accessible(shape.channels, inp); }

  template <class Row>
  __device__ __forceinline__ void load(Row& row, std::int64_t offset) const {
    row.load(inp + offset);
  }
  __device__ const float* arriving(std::int64_t offset) const { return inp + offset; }
  __device__ const float* in_memory(std::int64_t offset) const { return inp + offset; }
};

/// The sum of two matrices, written as soon as it is known. `residual` may alias either.
struct residual_input {
  float* residual;
  const float* inp1;
  const float* inp2;

  bool wide(row_shape shape) const {
    return is_16_byte_accessible(shape.channels, residual, inp1, inp2);
  }

  template <class Row>
  __device__ __forceinline__ void load(Row& row, std::int64_t offset) const {
    Row other = row;
    row.load(inp1 + offset);
    other.load(inp2 + offset);
    row.add(other);
    row.store(residual + offset);
  }
  /// A source for row_in_memory. Each thread later reads from `residual` what it wrote there
  /// itself.
  __device__ residual_input arriving(std::int64_t offset) const {
    return {residual + offset, inp1 + offset, inp2 + offset};
  }
  template <class Place>
  __device__ __forceinline__ auto at(Place where) const {
    auto x = device::at(inp1, where);
    const auto other = device::at(inp2, where);
#pragma unroll
    for (int i = 0; i < where.width; ++i) x[i] += other[i];
    device::put(residual, where.column, x);
    return x;
  }
  __device__ const float* in_memory(std::int64_t offset) const {
    return residual + offset;
  }
};

template <class Input>
struct layernorm_forward_arrays {
  float* out;
  float* mean;  ///< may be null, as may rstd
  float* rstd;
  Input input;
  const float* weight;
  const float* bias;

  /// Whether all rows can be read 16 bytes at a time.
  bool wide(row_shape shape) const {
    return input.wide(shape) && is_16_byte_accessible(shape.channels, out, weight, bias);
  }

  /// Writes a row's statistics to the arrays that are not null. One thread calls it.
  __device__ void keep(std::int64_t row, device::row_statistics statistics) const {
    if (mean != nullptr) mean[row] = statistics.mean;
    if (rstd != nullptr) rstd[row] = statistics.rstd;
  }
};

// ---- a row in registers ----

template <int Width, int Floats, class Group, int BlockSize, class Input>
__global__ void __launch_bounds__(BlockSize)
    layernorm_forward_registers_kernel(layernorm_forward_arrays<Input> a, row_shape shape,
                                       float epsilon) {
  __shared__ typename Group::storage storage;
  const Group group(storage);
  const int channels = static_cast<int>(shape.channels);
  group.for_each_row(shape.rows, [&](std::int64_t row) {
    const std::int64_t offset = row * shape.channels;
    device::row_in_registers<Group, Width, Floats> x(channels), w(channels);
    a.input.load(x, offset);
    w.load(a.weight);  // while the row is on its way
    const device::row_statistics statistics =
        device::layernorm_statistics(group, x, channels, epsilon);
    device::layernorm_write(a.out + offset, x, w, a.bias, statistics);
    if (group.rank() == 0) a.keep(row, statistics);
  });
}

template <int BlockSize, class Input>
void launch_layernorm_forward_registers(const char* function,
                                        const layernorm_forward_arrays<Input>& a, row_shape shape,
                                        float epsilon, cudaStream_t stream) {
  with_row_registers<BlockSize>(
      a.wide(shape), shape.channels, [&](auto width, auto floats, auto group) {
        using row_group = typename decltype(group)::type;
        launch(
            {function, ceil_div(shape.rows, row_group::per_block(BlockSize)), BlockSize, 0, stream},
            layernorm_forward_registers_kernel<width(), floats(), row_group, BlockSize, Input>, a,
            shape, epsilon);
      });
}

// ---- a row in memory, or in the cache, by a warp ----

template <int Width, int BlockSize, class Input>
__global__ void __launch_bounds__(BlockSize)
    layernorm_forward_by_warps_kernel(layernorm_forward_arrays<Input> a, row_shape shape,
                                      float epsilon) {
  using warp = device::whole_warp<BlockSize>;
  const warp group;
  group.for_each_row(shape.rows, [&](std::int64_t row) {
    const std::int64_t offset = row * shape.channels;
    const device::row_in_memory<warp, Width, decltype(a.input.arriving(0))> arriving(
        a.input.arriving(offset), shape.channels);
    const device::row_in_memory<warp, Width> x(a.input.in_memory(offset), shape.channels);
    const device::row_statistics statistics =
        device::layernorm_statistics(group, arriving, x, shape.channels, epsilon);
    device::layernorm_write(a.out + offset, x, a.weight, a.bias, statistics);
    if (group.rank() == 0) a.keep(row, statistics);
  });
}

template <int BlockSize, class Input>
void launch_layernorm_forward_by_warps(const char* function,
                                       const layernorm_forward_arrays<Input>& a, row_shape shape,
                                       float epsilon, cudaStream_t stream) {
  with_access_width(a.wide(shape), [&](auto width) {
    launch({function, ceil_div(shape.rows, BlockSize / device::warp_size), BlockSize, 0, stream},
           layernorm_forward_by_warps_kernel<width(), BlockSize, Input>, a, shape, epsilon);
  });
}

/// Mean and rstd in one pass over the row, from the sum and the sum of squares: the variance is
/// their difference E[x^2] - E[x]^2. Where the mean is large these are nearly equal, and the digits
/// that they share are lost: the relative error of rstd is a few eps * (1 + (mean * rstd)^2), with
/// eps = 2^-23, until no digit is left. A variance that comes out negative is taken as 0.
template <class Group, class Row>
__device__ device::row_statistics layernorm_statistics_in_one_pass(const Group& group,
                                                                   const Row& row,
                                                                   std::int64_t channels,
                                                                   float epsilon) {
  float sum = 0.0f;
  float squares = 0.0f;
  row.visit([&](auto& x, auto where) {
    for (int i = 0; i < where.width; ++i) {
      sum += x[i];
      squares += x[i] * x[i];
    }
  });
  const float mean = group.sum(sum) / static_cast<float>(channels);
  // The product is rounded before it is subtracted, as the squares were: a row of one number then
  // has variance 0, where a fused multiply-add would leave a rounding error.
  const float variance = group.sum(squares) / static_cast<float>(channels) - __fmul_rn(mean, mean);
  return {mean, 1.0f / sqrtf((variance < 0.0f ? 0.0f : variance) + epsilon)};  // NaN stays NaN
}

/// layernorm_forward_by_warps_kernel with one pass less; one instance serves every block size.
template <int Width, int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    layernorm_forward_one_pass_kernel(layernorm_forward_arrays<layernorm_input> a, row_shape shape,
                                      float epsilon) {
  using warp = device::whole_warp<>;
  const warp group;
  group.for_each_row(shape.rows, [&](std::int64_t row) {
    const std::int64_t offset = row * shape.channels;
    const device::row_in_memory<warp, Width> x(a.input.inp + offset, shape.channels);
    const device::row_statistics statistics =
        layernorm_statistics_in_one_pass(group, x, shape.channels, epsilon);
    device::layernorm_write(a.out + offset, x, a.weight, a.bias, statistics);
    if (group.rank() == 0) a.keep(row, statistics);
  });
}

template <int BlockSize>
void launch_layernorm_forward_one_pass(const char* function,
                                       const layernorm_forward_arrays<layernorm_input>& a,
                                       row_shape shape, float epsilon, cudaStream_t stream) {
  with_access_width(a.wide(shape), [&](auto width) {
    launch({function, ceil_div(shape.rows, BlockSize / device::warp_size), BlockSize, 0, stream},
           layernorm_forward_one_pass_kernel<width(), 1024>, a, shape, epsilon);
  });
}

// ---- a row in shared memory, by a block ----

/// The most channels for which `arrays` copies of a row fit in a block's shared memory.
inline std::int64_t most_channels_in_shared_memory(const char* function, int arrays) {
  const int bytes = device_attribute(function, cudaDevAttrMaxSharedMemoryPerBlockOptin) -
                    static_cast<int>(sizeof(device::whole_block<>::storage));
  return bytes / (arrays * static_cast<int>(sizeof(float)));
}

/// The shared memory for `arrays` copies of a row. Throws `unsupported`, which names the variant,
/// if they do not fit.
inline std::size_t shared_bytes_of_row(const char* function, const char* variant,
                                       std::int64_t channels, int arrays) {
  const std::int64_t most = most_channels_in_shared_memory(function, arrays);
  if (channels > most) {
    throw unsupported(std::string(function) + ": the variant " + variant + " takes at most " +
                      std::to_string(most) + " channels on this device, got " +
                      std::to_string(channels));
  }
  return static_cast<std::size_t>(arrays * channels) * sizeof(float);
}

/// A source of rows in memory that copies what it reads.
struct copied {
  float* to;
  const float* from;

  template <class Place>
  __device__ __forceinline__ auto at(Place where) const {
    const auto x = device::at(from, where);
    device::put(to, where.column, x);
    return x;
  }
};

/// Each thread finds in shared memory only what it put there itself, so none waits for a barrier.
template <int Width, int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    layernorm_forward_shared_kernel(layernorm_forward_arrays<layernorm_input> a, row_shape shape,
                                    float epsilon) {
  using block = device::whole_block<>;
  extern __shared__ __align__(16) float kept_in_shared_memory[];
  __shared__ block::storage storage;
  const block group(storage);
  group.for_each_row(shape.rows, [&](std::int64_t row) {
    const std::int64_t offset = row * shape.channels;
    const device::row_in_memory<block, Width, copied> arriving(
        {kept_in_shared_memory, a.input.inp + offset}, shape.channels);
    const device::row_in_memory<block, Width> x(kept_in_shared_memory, shape.channels);
    const device::row_statistics statistics =
        device::layernorm_statistics(group, arriving, x, shape.channels, epsilon);
    device::layernorm_write(a.out + offset, x, a.weight, a.bias, statistics);
    if (group.rank() == 0) a.keep(row, statistics);
  });
}

template <int BlockSize>
void launch_layernorm_forward_shared(const char* function, const char* variant,
                                     const layernorm_forward_arrays<layernorm_input>& a,
                                     row_shape shape, float epsilon, cudaStream_t stream) {
  const std::size_t bytes = shared_bytes_of_row(function, variant, shape.channels, 1);
  with_access_width(a.wide(shape), [&](auto width) {
    launch({function, shape.rows, BlockSize, bytes, stream},
           layernorm_forward_shared_kernel<width(), 1024>, a, shape, epsilon);
  });
}

// ---- what layernorm_forward and residual_layernorm_forward share ----

/// Launches warp_per_row, row_in_registers or the choice between them.
template <auto Variant, int BlockSize, class Input>
void launch_layernorm_forward(const char* function, const layernorm_forward_arrays<Input>& a,
                              row_shape shape, float epsilon, cudaStream_t stream) {
  using variant = decltype(Variant);
  if constexpr (Variant == variant::warp_per_row) {
    launch_layernorm_forward_by_warps<BlockSize>(function, a, shape, epsilon, stream);
  } else if (fits_row_registers(shape.channels, BlockSize)) {
    launch_layernorm_forward_registers<BlockSize>(function, a, shape, epsilon, stream);
  } else if constexpr (Variant == variant::row_in_registers) {
    refuse_row(function, to_string(Variant), shape.channels, BlockSize);
  } else {
    launch_layernorm_forward_by_warps<BlockSize>(function, a, shape, epsilon, stream);
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
