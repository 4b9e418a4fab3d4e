/// @file
/// What layernorm_backward and residual_layernorm_backward share on the host: checks, and the
/// variants that both have under the same names.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <llmc/detail/bias_gradient.cuh>
#include <llmc/detail/checks.hpp>
#include <llmc/detail/layernorm/backward.cuh>
#include <llmc/detail/layernorm/naive.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/detail/row/in_registers.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Checks the arguments of layernorm_backward and residual_layernorm_backward, which call the
/// layer's input by different names.
inline void check_layernorm_backward(const char* function, const char* input,
                                     const layernorm_backward_arrays& a, workspace scratch,
                                     row_shape shape, int sums) {
  checks::require_shape(function, shape);
  checks::require_pointer(function, "dweight", a.dweight);
  checks::require_pointer(function, "dbias", a.dbias);
  checks::require_workspace(function, scratch,
                            layernorm_backward_workspace_bytes(function, shape, sums));
  if (shape.rows == 0) return;
  checks::require_pointer(function, "dinp", a.dinp);
  checks::require_pointer(function, "dout", a.dout);
  checks::require_pointer(function, input, a.inp);
  checks::require_pointer(function, "weight", a.weight);
  checks::require_pointer(function, "mean", a.mean);
  checks::require_pointer(function, "rstd", a.rstd);
}

/// Launches thread_per_row, warp_per_row, register_partials or the choice between the last two.
/// With `SumsDinp` it also makes a.dinp_bias, on the way or by a pass of its own.
template <auto Variant, int BlockSize, bool SumsDinp = false>
void launch_layernorm_backward(const char* function, const layernorm_backward_arrays& a,
                               row_shape shape, accumulation mode, cudaStream_t stream) {
  using variant = decltype(Variant);
  if constexpr (Variant == variant::thread_per_row) {
    launch_layernorm_backward_by_threads<BlockSize>(function, a, shape, mode, stream);
  } else if constexpr (Variant == variant::warp_per_row) {
    launch_layernorm_backward_by_warps<BlockSize>(function, a, shape, mode, stream);
  } else if (fits_row_registers(shape.channels, BlockSize)) {
    if constexpr (SumsDinp) {
      if (fits_dinp_sums(shape.channels, BlockSize)) {
        launch_layernorm_backward_registers<BlockSize, true>(function, a, shape, mode, stream);
        return;
      }
    }
    launch_layernorm_backward_registers<BlockSize, false>(function, a, shape, mode, stream);
  } else if constexpr (Variant == variant::register_partials) {
    refuse_row(function, to_string(Variant), shape.channels, BlockSize);
  } else {
    launch_layernorm_backward_by_warps<BlockSize>(function, a, shape, mode, stream);
  }
  if constexpr (SumsDinp) {
    sum_bias_gradient<BlockSize>(function, a.dinp_bias, a.scratch, a.dinp, shape, mode, stream);
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
