/// @file
/// The products of a linear layer whose operands are matrices in halves (split_matrix.hpp):
///
///     out     = inp weight^T        split_matmul_output
///     dinp    = dout weight         split_matmul_input_gradient
///     dweight = dout^T inp          split_matmul_weight_gradient
///
/// Each of the three matrices is split once and serves two of these products as it lies.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>
#include <string>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/matmul/layer.cuh>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/matmul/wgmma/half_launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/error.hpp>
#include <llmc/matmul_context.hpp>
#include <llmc/split_matrix.hpp>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Computes `p` from operands in halves, which lie as `First` and `Second` say; its own operands
/// are not looked at.
template <half_products How, products::layout First, products::layout Second>
void multiply_halves(const char* function, const products::product& p, const split_matrix& first,
                     const split_matrix& second, matmul_context& context, cudaStream_t stream) {
  using tiles = half_tiles<First, Second, How>;
  products::resources& on = context.resources();
  on.require_current_device(function);
  if (!wgmma_half_is_there<tiles>(on.device())) {
    throw unsupported(std::string(function) +
                      ": products of halves need a card of compute capability 9.0 and code built "
                      "for sm_90a");
  }
  const bool cuts = should_cut_tiles(p, tiles::rows, tiles::columns, on.multiprocessors());
  multiply_by_wgmma_half<tiles>(function, p, first, second, cuts, on, stream);
}

/// Checks both operands of a product and its output. Returns whether there is anything to do.
inline bool check_halves(const char* function, const char* out_name, const float* out,
                         const char* first_name, const split_matrix& first, const char* second_name,
                         const split_matrix& second) {
  checks::require_shape(function, first.shape);
  checks::require_shape(function, second.shape);
  if (first.shape.rows == 0 || second.shape.rows == 0) return false;
  checks::require_pointer(function, out_name, out);
  checks::require_split_matrix(function, first_name, first);
  checks::require_split_matrix(function, second_name, second);
  constexpr std::int64_t most = std::int64_t{1} << 26;  // tiles are counted with 32 bits
  for (const std::int64_t extent :
       {first.shape.rows, first.shape.channels, second.shape.rows, second.shape.channels}) {
    if (extent > most) {
      throw unsupported(std::string(function) + ": extents of at most " + std::to_string(most) +
                        " are supported, got " + std::to_string(extent));
    }
  }
  return true;
}

inline void require_equal(const char* function, const char* what, std::int64_t first,
                          std::int64_t second) {
  if (first == second) return;
  checks::reject(function, std::string(what) + " must agree, got " + std::to_string(first) +
                               " and " + std::to_string(second));
}

}  // namespace detail

/// out (rows, OC) = inp (rows, C) weight^T, weight (OC, C), then the epilogue.
///
/// @param[out]    out     overwritten; must not alias an operand
/// @param         then    what becomes of the sums; its matrices lie like `out`. `residual` may be
///                        `out`
/// @param[in,out] context of the current device; its workspace is in use until the stream has run
///                        this
///
/// Any extents, and any alignment of `out` and the epilogue's arrays. Deterministic. Infinities and
/// NaN give what they give in FP32. `half_products::three` is at least as exact as FP32
/// multiply-adds, with one exception: a number below 2^-27 of its block's largest is kept to 2^-50
/// of that, so digits are lost where it meets a number that is 2^23 times as large as those which
/// the block's large numbers meet, and nothing else in its row or column is larger. Throws
/// invalid_argument for shapes that do not fit together, null arrays or misaligned halves;
/// unsupported for extents above 2^26, or where card or code lacks wgmma; cuda_error if the launch
/// fails.
template <half_products How = half_products::three>
void split_matmul_output(float* out, const split_matrix& inp, const split_matrix& weight,
                         const products::epilogue& then, matmul_context& context,
                         cudaStream_t stream) {
  constexpr const char* function = "llmc::split_matmul_output";
  if (!detail::check_halves(function, "out", out, "inp", inp, "weight", weight)) return;
  detail::require_equal(function, "the channels of inp and weight", inp.shape.channels,
                        weight.shape.channels);
  const std::int64_t columns = weight.shape.rows;
  products::product p{{out, columns}, {}, {}, inp.shape.rows, columns, inp.shape.channels};
  p.then = then;
  detail::multiply_halves<How, products::layout::inner_first, products::layout::inner_first>(
      function, p, inp, weight, context, stream);
}

/// dinp (rows, C) = dout (rows, OC) weight (OC, C), then the epilogue. The rest is as for
/// split_matmul_output.
template <half_products How = half_products::three>
void split_matmul_input_gradient(float* dinp, const split_matrix& dout, const split_matrix& weight,
                                 const products::epilogue& then, matmul_context& context,
                                 cudaStream_t stream) {
  constexpr const char* function = "llmc::split_matmul_input_gradient";
  if (!detail::check_halves(function, "dinp", dinp, "dout", dout, "weight", weight)) return;
  detail::require_equal(function, "the channels of dout and the rows of weight",
                        dout.shape.channels, weight.shape.rows);
  const std::int64_t columns = weight.shape.channels;
  products::product p{{dinp, columns}, {nullptr, 0}, {nullptr, 0, products::layout::outer_first},
                      dout.shape.rows, columns,      dout.shape.channels};
  p.then = then;
  detail::multiply_halves<How, products::layout::inner_first, products::layout::outer_first>(
      function, p, dout, weight, context, stream);
}

/// dweight (OC, C) (+)= dout (rows, OC)^T inp (rows, C). Without rows there is nothing to do where
/// the mode is `add`, and zeros are written where it is `overwrite`. The rest is as for
/// split_matmul_output.
template <half_products How = half_products::three>
void split_matmul_weight_gradient(float* dweight, const split_matrix& dout, const split_matrix& inp,
                                  accumulation mode, matmul_context& context, cudaStream_t stream) {
  constexpr const char* function = "llmc::split_matmul_weight_gradient";
  detail::require_equal(function, "the rows of dout and inp", dout.shape.rows, inp.shape.rows);
  const std::int64_t rows = dout.shape.channels, columns = inp.shape.channels;
  if (!detail::check_halves(function, "dweight", dweight, "dout", dout, "inp", inp)) {
    checks::require_pointer(function, "dweight", dweight);
    constexpr int block_size = 256;
    if (mode == accumulation::overwrite) {
      detail::fill_rows<block_size>(function, dweight, nullptr, rows, columns, stream);
    }
    return;
  }
  products::product p{{dweight, columns}, {}, {}, rows, columns, dout.shape.rows};
  if (mode == accumulation::add) p.then.residual = dweight;
  detail::multiply_halves<How, products::layout::outer_first, products::layout::outer_first>(
      function, p, dout, inp, context, stream);
}

LLMC_NAMESPACE_END
