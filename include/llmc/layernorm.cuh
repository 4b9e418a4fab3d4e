/// @file
/// Layer normalisation over the channels of each row (Ba, Kiros and Hinton, "Layer Normalization",
/// 2016):
///
///     mean = sum_c inp[c] / C
///     rstd = 1 / sqrt(sum_c (inp[c] - mean)^2 / C + epsilon)
///     out[c] = (inp[c] - mean) * rstd * weight[c] + bias[c]
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <array>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/layernorm/in_registers.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/column_sum.cuh>
#include <llmc/device/layernorm_registers.cuh>
#include <llmc/device/pack.cuh>
#include <llmc/device/reduce.cuh>
#include <llmc/types.hpp>

// ---- forward ----

LLMC_TYPES_BEGIN

enum class layernorm_forward_variant {
  /// The best for this device and shape.
  automatic,
  /// A warp owns a row and passes over it three times: mean, squared deviations, result. The second
  /// and third pass hit the cache. The deviations are taken from the mean itself, so no digits are
  /// lost where the mean is large. Wins for rows that row_in_registers cannot take, from a few
  /// hundred rows on; with fewer, most of the GPU idles.
  warp_per_row,
  /// The same computation, but the row is read once, into the registers of a warp (up to 1024
  /// channels) or a block: all loads are on their way before the first is needed, and memory sees
  /// each number once. Wins wherever it can be used; takes at most 32 * BlockSize channels.
  row_in_registers
};

inline constexpr std::array layernorm_forward_variants{layernorm_forward_variant::automatic,
                                                       layernorm_forward_variant::warp_per_row,
                                                       layernorm_forward_variant::row_in_registers};

constexpr const char* to_string(layernorm_forward_variant variant) {
  switch (variant) {
    case layernorm_forward_variant::automatic: return "automatic";
    case layernorm_forward_variant::warp_per_row: return "warp_per_row";
    case layernorm_forward_variant::row_in_registers: return "row_in_registers";
  }
  return "unknown";
}

/// Threads a block; not yet measured.
template <layernorm_forward_variant Variant>
inline constexpr int layernorm_forward_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace device {

/// Reciprocal standard deviation of a row whose mean is known, by one full warp; every lane gets
/// it.
template <int Width>
__device__ float layernorm_row_rstd(const float* inp, std::int64_t channels, float mean,
                                    float epsilon) {
  const int lane = threadIdx.x % warp_size;
  float squares = 0.0f;
  for_each_pack<Width>(channels, lane, warp_size, [&](auto width, std::int64_t c) {
    const auto x = load<width()>(inp + c);
    for (int i = 0; i < width(); ++i) squares += (x[i] - mean) * (x[i] - mean);
  });
  return 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(channels) + epsilon);
}

/// Mean and reciprocal standard deviation of a row, by one full warp; every lane gets them.
template <int Width>
__device__ row_statistics layernorm_row_statistics(const float* inp, std::int64_t channels,
                                                   float epsilon) {
  const int lane = threadIdx.x % warp_size;
  float sum = 0.0f;
  for_each_pack<Width>(channels, lane, warp_size, [&](auto width, std::int64_t c) {
    const auto x = load<width()>(inp + c);
    for (int i = 0; i < width(); ++i) sum += x[i];
  });
  const float mean = warp_sum(sum) / static_cast<float>(channels);
  return {mean, layernorm_row_rstd<Width>(inp, channels, mean, epsilon)};
}

/// Normalises a row whose statistics are known, by one warp.
template <int Width>
__device__ void layernorm_row_apply(float* out, const float* inp, const float* weight,
                                    const float* bias, std::int64_t channels,
                                    row_statistics statistics) {
  const int lane = threadIdx.x % warp_size;
  for_each_pack<Width>(channels, lane, warp_size, [&](auto width, std::int64_t c) {
    auto x = load<width()>(inp + c);
    const auto w = load<width()>(weight + c);
    const auto b = load<width()>(bias + c);
    for (int i = 0; i < width(); ++i) {
      x[i] = (x[i] - statistics.mean) * statistics.rstd * w[i] + b[i];
    }
    store<width()>(out + c, x);
  });
}

}  // namespace device

namespace detail {

template <int Width, int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    layernorm_forward_kernel(float* out, float* mean, float* rstd, const float* inp,
                             const float* weight, const float* bias, row_shape shape,
                             float epsilon) {
  for (std::int64_t row = device::thread_in_grid() / device::warp_size; row < shape.rows;
       row += device::threads_in_grid() / device::warp_size) {
    const std::int64_t offset = row * shape.channels;
    const device::row_statistics statistics =
        device::layernorm_row_statistics<Width>(inp + offset, shape.channels, epsilon);
    device::layernorm_row_apply<Width>(out + offset, inp + offset, weight, bias, shape.channels,
                                       statistics);
    if (threadIdx.x % device::warp_size == 0) {
      if (mean != nullptr) mean[row] = statistics.mean;
      if (rstd != nullptr) rstd[row] = statistics.rstd;
    }
  }
}

}  // namespace detail

/// Normalises every row; see the top of this file for the formula.
///
/// @param[out] out     (rows, C), overwritten; may alias `inp`
/// @param[out] mean    (rows), overwritten; may be null where no backward pass follows
/// @param[out] rstd    (rows), overwritten; may be null likewise
/// @param[in]  inp     (rows, C)
/// @param[in]  weight  (C)
/// @param[in]  bias    (C)
/// @param      epsilon added to the variance; GPT-2 uses 1e-5
///
/// Any alignment. Deterministic. Throws invalid_argument for rows < 0, channels < 1, a null array
/// or an epsilon that is negative or not finite; unsupported if `row_in_registers` is named for
/// longer rows than it takes; cuda_error if the launch fails.
template <layernorm_forward_variant Variant = layernorm_forward_variant::automatic,
          int BlockSize = layernorm_forward_block_size<Variant>>
void layernorm_forward(float* out, float* mean, float* rstd, const float* inp, const float* weight,
                       const float* bias, row_shape shape, float epsilon, cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "layernorm_forward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::layernorm_forward";
  checks::require_shape(function, shape);
  checks::require_finite_at_least(function, "epsilon", epsilon, 0.0);
  if (shape.rows == 0) return;
  checks::require_pointer(function, "out", out);
  checks::require_pointer(function, "inp", inp);
  checks::require_pointer(function, "weight", weight);
  checks::require_pointer(function, "bias", bias);

  const bool wide = detail::is_16_byte_accessible(shape.channels, out, inp, weight, bias);
  if constexpr (Variant != layernorm_forward_variant::warp_per_row) {
    if (detail::fits_row_registers(shape.channels, BlockSize)) {
      detail::launch_layernorm_forward_registers<BlockSize>(function, out, mean, rstd,
                                                            detail::layernorm_input{inp}, weight,
                                                            bias, shape, epsilon, wide, stream);
      return;
    }
    if (Variant == layernorm_forward_variant::row_in_registers) {
      checks::refuse_row(function, to_string(Variant), shape.channels,
                         std::int64_t{detail::most_row_floats} * BlockSize);
    }
  }
  detail::with_access_width(wide, [&](auto width) {
    const std::int64_t blocks = detail::ceil_div(shape.rows, BlockSize / device::warp_size);
    detail::launch({function, blocks, BlockSize, 0, stream},
                   detail::layernorm_forward_kernel<width(), BlockSize>, out, mean, rstd, inp,
                   weight, bias, shape, epsilon);
  });
}

LLMC_NAMESPACE_END

// ---- backward ----

LLMC_TYPES_BEGIN

enum class layernorm_backward_variant {
  /// The best for this device and shape.
  automatic,
  /// dinp by a warp a row; dweight and dbias as column sums in two stages. Reads dout and inp
  /// twice, the second time mostly from the L2 cache. Wins for rows that register_partials cannot
  /// take.
  warp_per_row,
  /// Reads everything once: a warp (up to 1024 channels) or a block keeps a row in registers and,
  /// beside it, its sums of dweight and dbias over all its rows. A second small kernel adds the
  /// blocks' sums. Wins wherever it can be used; takes at most 32 * BlockSize channels.
  register_partials
};

inline constexpr std::array layernorm_backward_variants{
    layernorm_backward_variant::automatic, layernorm_backward_variant::warp_per_row,
    layernorm_backward_variant::register_partials};

constexpr const char* to_string(layernorm_backward_variant variant) {
  switch (variant) {
    case layernorm_backward_variant::automatic: return "automatic";
    case layernorm_backward_variant::warp_per_row: return "warp_per_row";
    case layernorm_backward_variant::register_partials: return "register_partials";
  }
  return "unknown";
}

/// Threads a block; not yet measured.
template <layernorm_backward_variant Variant>
inline constexpr int layernorm_backward_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace device {

/// The gradient of one row with respect to its input, by one full warp:
///
///     norm = (inp - mean) * rstd,  dnorm = dout * weight
///     dinp = rstd * (dnorm - sum(dnorm) / C - norm * sum(dnorm * norm) / C) + addend
///
/// `addend` may be null (then 0) and may alias `dinp`, as may `dout`.
template <int Width>
__device__ void layernorm_backward_row(float* dinp, const float* addend, const float* dout,
                                       const float* inp, const float* weight, std::int64_t channels,
                                       row_statistics statistics) {
  const int lane = threadIdx.x % warp_size;
  float dnorm_sum = 0.0f;
  float dnorm_norm_sum = 0.0f;
  for_each_pack<Width>(channels, lane, warp_size, [&](auto width, std::int64_t c) {
    const auto d = load<width()>(dout + c);
    const auto x = load<width()>(inp + c);
    const auto w = load<width()>(weight + c);
    for (int i = 0; i < width(); ++i) {
      const float dnorm = d[i] * w[i];
      dnorm_sum += dnorm;
      dnorm_norm_sum += dnorm * ((x[i] - statistics.mean) * statistics.rstd);
    }
  });
  const float dnorm_mean = warp_sum(dnorm_sum) / static_cast<float>(channels);
  const float dnorm_norm_mean = warp_sum(dnorm_norm_sum) / static_cast<float>(channels);

  for_each_pack<Width>(channels, lane, warp_size, [&](auto width, std::int64_t c) {
    const auto d = load<width()>(dout + c);
    const auto x = load<width()>(inp + c);
    const auto w = load<width()>(weight + c);
    pack<width()> result = {};
    if (addend != nullptr) result = load<width()>(addend + c);
    for (int i = 0; i < width(); ++i) {
      const float norm = (x[i] - statistics.mean) * statistics.rstd;
      result[i] += (d[i] * w[i] - dnorm_mean - norm * dnorm_norm_mean) * statistics.rstd;
    }
    store<width()>(dinp + c, result);
  });
}

/// The terms of one row in dweight and dbias, for column_sum.
struct layernorm_parameter_gradient {
  const float* dout;
  const float* inp;
  const float* mean;
  const float* rstd;
  std::int64_t channels;

  template <int Width>
  __device__ void operator()(std::int64_t row, std::int64_t c, pack<Width> (&values)[2]) const {
    const auto d = load<Width>(dout + row * channels + c);
    const auto x = load<Width>(inp + row * channels + c);
    for (int i = 0; i < Width; ++i) values[0][i] = d[i] * ((x[i] - mean[row]) * rstd[row]);
    values[1] = d;
  }
};

}  // namespace device

namespace detail {

template <int Width, int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    layernorm_backward_kernel(float* dinp, const float* addend, const float* dout, const float* inp,
                              const float* weight, const float* mean, const float* rstd,
                              row_shape shape) {
  for (std::int64_t row = device::thread_in_grid() / device::warp_size; row < shape.rows;
       row += device::threads_in_grid() / device::warp_size) {
    const std::int64_t offset = row * shape.channels;
    device::layernorm_backward_row<Width>(
        dinp + offset, addend == nullptr ? nullptr : addend + offset, dout + offset, inp + offset,
        weight, shape.channels, {mean[row], rstd[row]});
  }
}

/// The parameters' gradients come first, because dinp may overwrite dout.
template <int BlockSize>
void launch_layernorm_backward_by_warps(const char* function, const layernorm_backward_arrays& a,
                                        row_shape shape, accumulation mode, bool wide,
                                        cudaStream_t stream) {
  column_sum<2, BlockSize>(
      function, {{a.dweight, a.dbias}}, a.workspace, shape,
      is_16_byte_accessible(shape.channels, a.dout, a.inp),
      device::layernorm_parameter_gradient{a.dout, a.inp, a.mean, a.rstd, shape.channels}, mode,
      stream);
  with_access_width(wide, [&](auto width) {
    const std::int64_t blocks = ceil_div(shape.rows, BlockSize / device::warp_size);
    launch({function, blocks, BlockSize, 0, stream}, layernorm_backward_kernel<width(), BlockSize>,
           a.dinp, a.addend, a.dout, a.inp, a.weight, a.mean, a.rstd, shape);
  });
}

/// The work of layernorm_backward and residual_layernorm_backward.
template <layernorm_backward_variant Variant, int BlockSize>
void launch_layernorm_backward(const char* function, const layernorm_backward_arrays& a,
                               row_shape shape, accumulation mode, cudaStream_t stream) {
  checks::require_shape(function, shape);
  checks::require_pointer(function, "dweight", a.dweight);
  checks::require_pointer(function, "dbias", a.dbias);
  if (shape.rows > 0) {
    checks::require_pointer(function, "dinp", a.dinp);
    checks::require_pointer(function, "workspace", a.workspace);
    checks::require_pointer(function, "dout", a.dout);
    checks::require_pointer(function, "inp", a.inp);
    checks::require_pointer(function, "weight", a.weight);
    checks::require_pointer(function, "mean", a.mean);
    checks::require_pointer(function, "rstd", a.rstd);
  }

  const bool wide =
      is_16_byte_accessible(shape.channels, a.dinp, a.addend, a.dout, a.inp, a.weight);
  if constexpr (Variant != layernorm_backward_variant::warp_per_row) {
    if (fits_row_registers(shape.channels, BlockSize)) {
      launch_layernorm_backward_registers<BlockSize>(function, a, shape, mode, wide, stream);
      return;
    }
    if (Variant == layernorm_backward_variant::register_partials) {
      checks::refuse_row(function, to_string(Variant), shape.channels,
                         std::int64_t{most_row_floats} * BlockSize);
    }
  }
  launch_layernorm_backward_by_warps<BlockSize>(function, a, shape, mode, wide, stream);
}

/// Enough for any variant and block size.
inline std::size_t layernorm_backward_workspace_bytes(const char* function, row_shape shape) {
  checks::require_shape(function, shape);
  const std::size_t by_warps = column_sum_workspace_bytes(function, shape, 2);
  const std::size_t in_registers = layernorm_backward_registers_workspace_bytes(function, shape);
  return by_warps > in_registers ? by_warps : in_registers;
}

}  // namespace detail

/// Bytes of scratch that layernorm_backward needs for this shape.
inline std::size_t layernorm_backward_workspace_bytes(row_shape shape) {
  return detail::layernorm_backward_workspace_bytes("llmc::layernorm_backward_workspace_bytes",
                                                    shape);
}

/// The gradients of layernorm_forward, with norm = (inp - mean) * rstd and dnorm = dout * weight:
///
///     dinp       = rstd * (dnorm - sum_c(dnorm) / C - norm * sum_c(dnorm * norm) / C)
///     dweight[c] = sum_rows dout * norm
///     dbias[c]   = sum_rows dout
///
/// @param[out]    dinp      (rows, C), overwritten whatever `mode` says; may alias `dout`
/// @param[in,out] dweight   (C), overwritten or added to as `mode` says; 0 for no rows
/// @param[in,out] dbias     (C), likewise
/// @param[out]    workspace layernorm_backward_workspace_bytes(shape) bytes; its contents are lost
/// @param[in]     dout      (rows, C)
/// @param[in]     inp       (rows, C), the input of the forward pass
/// @param[in]     weight    (C)
/// @param[in]     mean      (rows), from the forward pass
/// @param[in]     rstd      (rows), from the forward pass
///
/// Any alignment. Deterministic: the bits depend on the arguments, on whether the arrays are
/// aligned to 16 bytes, and on BlockSize, not on the card. Throws invalid_argument for rows < 0,
/// channels < 1 or a null array; unsupported if `register_partials` is named for longer rows than
/// it takes; cuda_error if a launch fails.
template <layernorm_backward_variant Variant = layernorm_backward_variant::automatic,
          int BlockSize = layernorm_backward_block_size<Variant>>
void layernorm_backward(float* dinp, float* dweight, float* dbias, void* workspace,
                        const float* dout, const float* inp, const float* weight, const float* mean,
                        const float* rstd, row_shape shape, accumulation mode,
                        cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "layernorm_backward: BlockSize must be a multiple of 32 between 32 and 1024");
  detail::launch_layernorm_backward<Variant, BlockSize>(
      "llmc::layernorm_backward",
      {dinp, dweight, dbias, workspace, nullptr, dout, inp, weight, mean, rstd}, shape, mode,
      stream);
}

LLMC_NAMESPACE_END
