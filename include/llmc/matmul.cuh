/// @file
/// A linear layer, with C input and OC output channels:
///
///     out[r][o] = sum_c inp[r][c] * weight[o][c] + bias[o]
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <array>
#include <cstdint>
#include <limits>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/column_sum.cuh>
#include <llmc/device/pack.cuh>
#include <llmc/matmul_context.hpp>
#include <llmc/types.hpp>

// ---- forward ----

LLMC_TYPES_BEGIN

enum class matmul_forward_variant {
  /// The best for this device, shape and precision.
  automatic,
  /// cuBLASLt, which adds the bias on the way out. `tf32x3` is done in IEEE FP32, which is as
  /// exact.
  cublaslt
};

inline constexpr std::array matmul_forward_variants{matmul_forward_variant::automatic,
                                                    matmul_forward_variant::cublaslt};

constexpr const char* to_string(matmul_forward_variant variant) {
  switch (variant) {
    case matmul_forward_variant::automatic: return "automatic";
    case matmul_forward_variant::cublaslt: return "cublaslt";
  }
  return "unknown";
}

/// Threads a block of the kernel that serves a layer without input channels; products themselves
/// are cut up by cuBLASLt.
template <matmul_forward_variant Variant>
inline constexpr int matmul_forward_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Calls `body(first_row, rows)` for runs of rows of which no operand holds more than 2^31
/// elements: some kernels of cuBLASLt index with 32 bits.
template <class Body>
void for_each_row_run(matmul_shape shape, Body body) {
  constexpr std::int64_t most_elements = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t granule = 256;  // keeps the later runs as aligned as the first
  const std::int64_t widest =
      shape.channels > shape.out_channels ? shape.channels : shape.out_channels;
  const std::int64_t most = most_elements / widest;
  const std::int64_t run = most < granule ? (most < 1 ? 1 : most) : most / granule * granule;
  for (std::int64_t first = 0; first < shape.rows; first += run) {
    body(first, shape.rows - first < run ? shape.rows - first : run);
  }
}

/// out[r][o] = bias[o], or 0: a product over no channels.
template <int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    fill_rows_kernel(float* out, const float* bias, std::int64_t count, std::int64_t columns) {
  for (std::int64_t i = device::thread_in_grid(); i < count; i += device::threads_in_grid()) {
    out[i] = bias == nullptr ? 0.0f : bias[i % columns];
  }
}

template <int BlockSize>
void fill_rows(const char* function, float* out, const float* bias, std::int64_t rows,
               std::int64_t columns, cudaStream_t stream) {
  const std::int64_t count = checks::product(function, rows, columns);
  launch({function, ceil_div(count, BlockSize), BlockSize, 0, stream}, fill_rows_kernel<BlockSize>,
         out, bias, count, columns);
}

}  // namespace detail

/// A linear layer; see the top of this file for the formula.
///
/// @param[out]    out     (rows, OC), overwritten; must not alias an input
/// @param[in]     inp     (rows, C)
/// @param[in]     weight  (OC, C)
/// @param[in]     bias    (OC), or null for none
/// @param         arithmetic ieee, tf32 or tf32x3; where the card has no TF32 all three are ieee
/// @param[in,out] context of the current device; its workspace is used until the stream gets there
///
/// With C = 0 the output is the bias. Any alignment. Deterministic. Throws invalid_argument for
/// rows < 0, C < 0, OC < 1, a null array or a context of another device; cublas_error or cuda_error
/// if the product fails.
template <matmul_forward_variant Variant = matmul_forward_variant::automatic,
          int BlockSize = matmul_forward_block_size<Variant>>
void matmul_forward(float* out, const float* inp, const float* weight, const float* bias,
                    matmul_shape shape, precision arithmetic, matmul_context& context,
                    cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "matmul_forward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::matmul_forward";
  checks::require_shape(function, shape);
  if (shape.rows == 0) return;
  checks::require_pointer(function, "out", out);
  if (shape.channels == 0) {
    detail::fill_rows<BlockSize>(function, out, bias, shape.rows, shape.out_channels, stream);
    return;
  }
  checks::require_pointer(function, "inp", inp);
  checks::require_pointer(function, "weight", weight);

  const std::int64_t C = shape.channels;
  const std::int64_t OC = shape.out_channels;
  detail::for_each_row_run(shape, [&](std::int64_t first, std::int64_t rows) {
    cublaslt::product p{
        {out + first * OC, OC}, {inp + first * C, C}, {weight, C, true}, rows, OC, C};
    p.bias = bias;
    p.arithmetic = arithmetic;
    context.multiply(function, p, stream);
  });
}

LLMC_NAMESPACE_END

// ---- backward ----

LLMC_TYPES_BEGIN

enum class matmul_backward_variant {
  /// The best for this device, shape and precision.
  automatic,
  /// dinp and dweight by cuBLASLt, dbias as column sums in two stages. `tf32x3` is done in IEEE
  /// FP32.
  cublaslt
};

inline constexpr std::array matmul_backward_variants{matmul_backward_variant::automatic,
                                                     matmul_backward_variant::cublaslt};

constexpr const char* to_string(matmul_backward_variant variant) {
  switch (variant) {
    case matmul_backward_variant::automatic: return "automatic";
    case matmul_backward_variant::cublaslt: return "cublaslt";
  }
  return "unknown";
}

/// Threads a block of the bias gradient; not yet measured.
template <matmul_backward_variant Variant>
inline constexpr int matmul_backward_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace device {

/// The term of one row in a bias gradient, for column_sum.
struct bias_gradient {
  const float* dout;
  std::int64_t columns;

  template <int Width>
  __device__ void operator()(std::int64_t row, std::int64_t c, pack<Width> (&values)[1]) const {
    values[0] = load<Width>(dout + row * columns + c);
  }
};

}  // namespace device

namespace detail {

/// dinp = dout weight
inline void matmul_input_gradient(const char* function, float* dinp, const float* dout,
                                  const float* weight, matmul_shape shape, precision arithmetic,
                                  matmul_context& context, cudaStream_t stream) {
  const std::int64_t C = shape.channels;
  const std::int64_t OC = shape.out_channels;
  for_each_row_run(shape, [&](std::int64_t first, std::int64_t rows) {
    cublaslt::product p{{dinp + first * C, C}, {dout + first * OC, OC}, {weight, C}, rows, C, OC};
    p.arithmetic = arithmetic;
    context.multiply(function, p, stream);
  });
}

/// dweight (+)= dout^T inp
template <int BlockSize>
void matmul_weight_gradient(const char* function, float* dweight, const float* dout,
                            const float* inp, matmul_shape shape, precision arithmetic,
                            accumulation mode, matmul_context& context, cudaStream_t stream) {
  const std::int64_t C = shape.channels;
  const std::int64_t OC = shape.out_channels;
  if (shape.rows == 0 && mode == accumulation::overwrite) {
    fill_rows<BlockSize>(function, dweight, nullptr, OC, C, stream);
  }
  for_each_row_run(shape, [&](std::int64_t first, std::int64_t rows) {
    cublaslt::product p{{dweight, C}, {dout + first * OC, OC, true}, {inp + first * C, C}, OC, C,
                        rows};
    p.mode = first == 0 ? mode : accumulation::add;
    p.arithmetic = arithmetic;
    context.multiply(function, p, stream);
  });
}

}  // namespace detail

/// Bytes of scratch that matmul_backward needs for this shape.
inline std::size_t matmul_backward_workspace_bytes(matmul_shape shape) {
  constexpr const char* function = "llmc::matmul_backward_workspace_bytes";
  checks::require_shape(function, shape);
  return detail::column_sum_workspace_bytes(function, {shape.rows, shape.out_channels}, 1);
}

/// The gradients of matmul_forward:
///
///     dinp[r][c]    = sum_o dout[r][o] * weight[o][c]
///     dweight[o][c] = sum_r dout[r][o] * inp[r][c]
///     dbias[o]      = sum_r dout[r][o]
///
/// @param[out]    dinp      (rows, C), overwritten whatever `mode` says; null: not computed
/// @param[in,out] dweight   (OC, C), overwritten or added to as `mode` says; null: not computed
/// @param[in,out] dbias     (OC), likewise
/// @param[out]    workspace matmul_backward_workspace_bytes(shape) bytes, its contents are lost;
///                          may be null where dbias is
/// @param[in]     dout      (rows, OC)
/// @param[in]     inp       (rows, C); may be null where dweight is
/// @param[in]     weight    (OC, C); may be null where dinp is
/// @param         arithmetic of dinp and dweight; dbias is always a sum in IEEE FP32
/// @param[in,out] context   of the current device; its workspace is used until the stream
///                          gets there
///
/// No output may alias an input. Sums over no rows are 0. Any alignment. Deterministic. Throws
/// invalid_argument for rows < 0, C < 0, OC < 1, a null array that is needed or a context of
/// another device; cublas_error or cuda_error if a product or a launch fails.
template <matmul_backward_variant Variant = matmul_backward_variant::automatic,
          int BlockSize = matmul_backward_block_size<Variant>>
void matmul_backward(float* dinp, float* dweight, float* dbias, void* workspace, const float* dout,
                     const float* inp, const float* weight, matmul_shape shape,
                     precision arithmetic, accumulation mode, matmul_context& context,
                     cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "matmul_backward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::matmul_backward";
  checks::require_shape(function, shape);
  const bool has_products = shape.rows > 0 && shape.channels > 0;
  if (shape.rows > 0) checks::require_pointer(function, "dout", dout);
  if (has_products && dweight != nullptr) checks::require_pointer(function, "inp", inp);
  if (has_products && dinp != nullptr) checks::require_pointer(function, "weight", weight);

  if (dinp != nullptr && has_products) {
    detail::matmul_input_gradient(function, dinp, dout, weight, shape, arithmetic, context, stream);
  }
  if (dweight != nullptr && shape.channels > 0) {
    detail::matmul_weight_gradient<BlockSize>(function, dweight, dout, inp, shape, arithmetic, mode,
                                              context, stream);
  }
  if (dbias != nullptr) {
    detail::column_sum<1, BlockSize>(function, {{dbias}}, workspace,
                                     {shape.rows, shape.out_channels},
                                     detail::is_16_byte_accessible(shape.out_channels, dout),
                                     device::bias_gradient{dout, shape.out_channels}, mode, stream);
  }
}

LLMC_NAMESPACE_END
