/// @file
/// What an operation must do at least: multiplications and additions, and traffic with memory. The
/// functions have the launchers' names. kernel_bench and the trainer's profile compare times with
/// them. Needs no CUDA.
#pragma once

#include <cstddef>
#include <cstdint>

#include <llmc/types.hpp>

namespace llmc_registry {

/// Which ceiling an operation has: that of copies, of products, or of products in the arithmetic of
/// attention.
enum class call_kind { other, product, attention };

/// `flops` are those of matrix products and of causal attention without its masked half. Each
/// counts once, even where the arithmetic takes three products for one. `bytes` are each input read
/// once and each output written once; a gradient that is added to is also read.
struct call_cost {
  double flops = 0;
  double bytes = 0;
  call_kind kind = call_kind::other;
};

namespace costs {

/// `different_tokens` is how many rows of the token table are touched.
call_cost encoder_forward(llmc::encoder_shape shape, std::int64_t different_tokens);
call_cost encoder_backward(llmc::encoder_shape shape, std::int64_t different_tokens,
                           llmc::accumulation dwte_mode, llmc::accumulation dwpe_mode);
/// An estimate where the tokens are not known: most of a batch differ.
std::int64_t most_different_tokens(llmc::encoder_shape shape);

call_cost layernorm_forward(llmc::row_shape shape);
call_cost layernorm_backward(llmc::row_shape shape, llmc::accumulation mode);
call_cost residual_layernorm_forward(llmc::row_shape shape);
call_cost residual_layernorm_backward(llmc::row_shape shape, bool has_dresidual, bool has_dinp_bias,
                                      llmc::accumulation mode);
call_cost residual_forward(std::int64_t count);
call_cost residual_backward(std::int64_t count, llmc::accumulation mode);

call_cost matmul_forward(llmc::matmul_shape shape, bool has_bias);
call_cost matmul_residual_forward(llmc::matmul_shape shape, bool has_bias);
call_cost matmul_gelu_forward(llmc::matmul_shape shape, bool has_bias);
call_cost matmul_backward(llmc::matmul_shape shape, bool has_dbias, llmc::accumulation mode);
call_cost gelu_matmul_backward(llmc::matmul_shape shape, bool has_dgelu_bias, bool has_dbias,
                               llmc::accumulation mode);
/// The parts of these two, for callers that ask for each by itself.
call_cost matmul_dinp(llmc::matmul_shape shape);
call_cost matmul_dgelu_inp(llmc::matmul_shape shape, bool has_dgelu_bias, llmc::accumulation mode);
call_cost matmul_dweight(llmc::matmul_shape shape, llmc::accumulation mode);
/// The matrix has as many columns as the layer has output channels.
call_cost matmul_bias_backward(llmc::row_shape shape, llmc::accumulation mode);

call_cost split(llmc::row_shape shape);

/// In either direction.
call_cost permute_heads(llmc::attention_shape shape, int parts);
call_cost causal_product(llmc::attention_shape shape);
call_cost causal_softmax_forward(llmc::attention_shape shape);
call_cost causal_softmax_backward(llmc::attention_shape shape);
call_cost attention_forward(llmc::attention_shape shape);
call_cost attention_backward(llmc::attention_shape shape, bool has_dqkv_bias,
                             llmc::accumulation mode);

call_cost gelu_forward(std::int64_t count);
call_cost gelu_backward(std::int64_t count);
call_cost softmax_forward(llmc::row_shape shape);
call_cost softmax_backward(llmc::row_shape shape);

call_cost crossentropy_forward(llmc::classifier_shape shape);
call_cost crossentropy_backward(llmc::classifier_shape shape);
call_cost classifier_forward_backward(llmc::classifier_shape shape);

call_cost zero(std::size_t bytes);
call_cost loss_sum(std::int64_t count);
call_cost global_norm(std::int64_t count);
call_cost adamw_update(std::int64_t count);

}  // namespace costs
}  // namespace llmc_registry
