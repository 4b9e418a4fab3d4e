/// @file
/// A linear layer's products, as the launchers of matmul.cuh and matmul_gelu.cuh put them together.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/matmul/catalogue.cuh>
#include <llmc/detail/matmul/ladder/launch.cuh>
#include <llmc/detail/matmul/ladder/rung.hpp>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/error.hpp>
#include <llmc/matmul_context.hpp>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN

/// Who computes a product.
struct matmul_path {
  std::string kernel;  ///< "cublaslt", or the name of one of llmc's own kernels
  std::string reason;  ///< why it and not another
};

namespace checks {

inline void require_engines(const char* function, products::engines engines, precision arithmetic) {
  if (engines != products::engines::own || facts_of(arithmetic).on_tensor_cores()) return;
  throw unsupported(std::string(function) +
                    ": the variant tensor_core has no ieee arithmetic; tf32x3 is as exact");
}

}  // namespace checks

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace detail {

/// The engines of a variant that is no kernel of its own. A layer that has only such variants does
/// not compile with any other.
template <auto Variant>
constexpr auto matmul_engines() {
  using variant = decltype(Variant);
  using products::engines;
  if constexpr (Variant == variant::cublaslt) {
    return products::engines_constant<engines::library>{};
  } else if constexpr (Variant == variant::tensor_core) {
    return products::engines_constant<engines::own>{};
  } else {
    static_assert(Variant == variant::automatic,
                  "the variants are automatic, cublaslt and tensor_core here");
    return products::engines_constant<engines::any>{};
  }
}

/// Who computes the products of any variant: a products::engines_constant or a products::rung.
template <auto Variant, int BlockSize, bool OfGradients>
constexpr auto engines_or_rung() {
  if constexpr (products::is_rung<Variant>) {
    return products::rung<Variant, BlockSize, OfGradients>{};
  } else {
    return matmul_engines<Variant>();
  }
}

/// The most rows of a run in which every operand has fewer than 2^31 elements. It is rounded down
/// so that later runs are as aligned as the first, and the rows of a partial column sum stay
/// together.
inline std::int64_t rows_of_a_run(matmul_shape shape) {
  constexpr std::int64_t most_elements = (std::numeric_limits<std::int32_t>::max)();
  constexpr std::int64_t aligned = 2 * products::column_sum_rows;
  const std::int64_t most = most_elements / (std::max)(shape.channels, shape.out_channels);
  if (most >= aligned) return most / aligned * aligned;
  if (most >= products::column_sum_rows) return products::column_sum_rows;
  return (std::max)(most, std::int64_t{1});
}

/// Calls `body(first_row, rows)` for runs of rows: some kernels of cuBLASLt index with 32 bits.
template <class Body>
void for_each_row_run(matmul_shape shape, Body body) {
  const std::int64_t run = rows_of_a_run(shape);
  for (std::int64_t first = 0; first < shape.rows; first += run) {
    body(first, (std::min)(shape.rows - first, run));
  }
}

/// out[r][o] = bias[o] + residual[r][o], where either may be null: a product over no channels.
template <int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    fill_rows_kernel(float* out, const float* bias, const float* residual, std::int64_t count,
                     std::int64_t columns) {
  for (std::int64_t i = device::thread_in_grid(); i < count; i += device::threads_in_grid()) {
    const float x = bias == nullptr ? 0.0f : bias[i % columns];
    out[i] = residual == nullptr ? x : x + residual[i];
  }
}

template <int BlockSize>
void fill_rows(const char* function, float* out, const float* bias, std::int64_t rows,
               std::int64_t columns, cudaStream_t stream, const float* residual = nullptr) {
  const std::int64_t count = checks::checked_product(function, rows, columns);
  launch({function, ceil_div(count, BlockSize), BlockSize, 0, stream}, fill_rows_kernel<BlockSize>,
         out, bias, residual, count, columns);
}

/// An epilogue whose matrices begin `offset` floats later.
inline products::epilogue advanced(products::epilogue e, std::int64_t offset) {
  if (e.before_gelu != nullptr) e.before_gelu += offset;
  if (e.gelu_inp != nullptr) e.gelu_inp += offset;
  if (e.residual != nullptr) e.residual += offset;
  return e;
}

inline products::product output_product(float* out, const float* inp, const float* weight,
                                        matmul_shape shape) {
  const std::int64_t C = shape.channels;
  const std::int64_t OC = shape.out_channels;
  return {{out, OC}, {inp, C}, {weight, C}, shape.rows, OC, C};
}

/// out = inp weight^T, then the epilogue. `Engines`, here and below: see engines_or_rung.
template <class Engines>
void matmul_output(const char* function, float* out, const float* inp, const float* weight,
                   matmul_shape shape, const products::epilogue& then, precision arithmetic,
                   Engines engines, matmul_context& context, cudaStream_t stream) {
  const std::int64_t C = shape.channels;
  const std::int64_t OC = shape.out_channels;
  for_each_row_run(shape, [&](std::int64_t first, std::int64_t rows) {
    products::product p = output_product(out + first * OC, inp + first * C, weight, {rows, C, OC});
    p.then = advanced(then, first * OC);
    p.arithmetic = arithmetic;
    multiply(function, p, engines, context, stream);
  });
}

/// dinp = dout weight, then the epilogue
template <class Engines>
void matmul_input_gradient(const char* function, float* dinp, const float* dout,
                           const float* weight, matmul_shape shape, const products::epilogue& then,
                           precision arithmetic, Engines engines, matmul_context& context,
                           cudaStream_t stream) {
  const std::int64_t C = shape.channels;
  const std::int64_t OC = shape.out_channels;
  for_each_row_run(shape, [&](std::int64_t first, std::int64_t rows) {
    products::product p{{dinp + first * C, C},
                        {dout + first * OC, OC},
                        {weight, C, products::layout::outer_first},
                        rows,
                        C,
                        OC};
    p.then = advanced(then, first * C);
    if (then.column_sums != nullptr) {
      p.then.column_sums = then.column_sums + first / products::column_sum_rows * C;
    }
    p.arithmetic = arithmetic;
    multiply(function, p, engines, context, stream);
  });
}

/// dweight (+)= dout^T inp
template <int BlockSize, class Engines>
void matmul_weight_gradient(const char* function, float* dweight, const float* dout,
                            const float* inp, matmul_shape shape, precision arithmetic,
                            accumulation mode, Engines engines, matmul_context& context,
                            cudaStream_t stream) {
  const std::int64_t C = shape.channels;
  const std::int64_t OC = shape.out_channels;
  if (shape.rows == 0 && mode == accumulation::overwrite) {
    fill_rows<BlockSize>(function, dweight, nullptr, OC, C, stream);
  }
  for_each_row_run(shape, [&](std::int64_t first, std::int64_t rows) {
    products::product p{{dweight, C},
                        {dout + first * OC, OC, products::layout::outer_first},
                        {inp + first * C, C, products::layout::outer_first},
                        OC,
                        C,
                        rows};
    if (first > 0 || mode == accumulation::add) p.then.residual = dweight;
    p.arithmetic = arithmetic;
    multiply(function, p, engines, context, stream);
  });
}

/// Who computes a product, and why.
template <products::engines Allowed>
matmul_path path_of(const char* function, const products::product& p,
                    products::engines_constant<Allowed>, matmul_context& context) {
  const products::candidates among = candidates_for<Allowed>(function, p, context.resources());
  if (const products::kernel* fixed = context.plans().fixed_kernel(p, among)) {
    return {to_string(*fixed), "the context's plan, which was tuned or loaded"};
  }
  return {to_string(among.preferred()), among.reason()};
}

}  // namespace detail
LLMC_NAMESPACE_END
