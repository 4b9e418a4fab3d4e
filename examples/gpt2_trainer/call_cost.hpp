/// @file
/// What a call of a backend must do at least, whoever does it: operations and memory traffic.
#pragma once

#include <cstddef>
#include <cstdint>

#include <llmc/types.hpp>

namespace gpt2_trainer {

enum class call_kind { other, product, attention };

/// Operations are those of matrix products and of causal attention, and each is counted once
/// however the arithmetic makes it; traffic is each input read once and each output written once.
struct call_cost {
  double flops = 0;
  double bytes = 0;
  call_kind kind = call_kind::other;
};

/// By the names of the calls. Where a gradient is added to, it is also read.
namespace costs {

call_cost encoder_forward(llmc::encoder_shape shape);
call_cost encoder_backward(llmc::encoder_shape shape, llmc::accumulation dwte_mode,
                           llmc::accumulation dwpe_mode);

call_cost layernorm_forward(llmc::row_shape shape);
call_cost residual_layernorm_forward(llmc::row_shape shape);
call_cost residual_layernorm_backward(llmc::row_shape shape, bool has_dresidual, bool has_dinp_bias,
                                      llmc::accumulation mode);

call_cost matmul_forward(llmc::matmul_shape shape, bool has_bias);
call_cost matmul_gelu_forward(llmc::matmul_shape shape, bool has_bias);
/// The parts of the backward passes of these two.
call_cost matmul_dinp(llmc::matmul_shape shape);
call_cost matmul_dgelu_inp(llmc::matmul_shape shape, bool has_dgelu_bias, llmc::accumulation mode);
call_cost matmul_dweight(llmc::matmul_shape shape, llmc::accumulation mode);
call_cost gelu_forward(std::int64_t count);

call_cost attention_forward(llmc::attention_shape shape);
call_cost attention_backward(llmc::attention_shape shape, bool has_dqkv_bias,
                             llmc::accumulation mode);

call_cost crossentropy_forward(llmc::classifier_shape shape);
call_cost classifier_forward_backward(llmc::classifier_shape shape);

call_cost zero(std::size_t bytes);
call_cost loss_sum(std::int64_t count);
call_cost global_norm(std::int64_t count);
call_cost adamw_update(std::int64_t count);

}  // namespace costs
}  // namespace gpt2_trainer
