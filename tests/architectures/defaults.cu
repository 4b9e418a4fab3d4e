/// @file
/// Every launcher's default variant, compiled for each architecture that llmc supports.
#include <llmc/llmc.cuh>

template <class Function>
const void* address(Function* function) {
  return reinterpret_cast<const void*>(function);
}

extern const void* const default_launchers[];
const void* const default_launchers[] = {
    address(&llmc::adamw_update<>),
    address(&llmc::adamw_update_segments<>),
    address(&llmc::attention_backward<>),
    address(&llmc::attention_forward<>),
    address(&llmc::causal_product<>),
    address(&llmc::causal_softmax_backward<>),
    address(&llmc::causal_softmax_forward<>),
    address(&llmc::classifier_forward_backward<>),
    address(&llmc::crossentropy_backward<>),
    address(&llmc::crossentropy_forward<>),
    address(&llmc::encoder_backward<>),
    address(&llmc::encoder_forward<>),
    address(&llmc::gelu_backward<>),
    address(&llmc::gelu_forward<>),
    address(&llmc::global_norm<>),
    address(&llmc::layernorm_backward<>),
    address(&llmc::layernorm_forward<>),
    address(&llmc::loss_sum<>),
    address(&llmc::matmul_backward<>),
    address(&llmc::matmul_bias_backward<>),
    address(&llmc::matmul_forward<>),
    address(&llmc::matmul_gelu_forward<>),
    address(&llmc::matmul_residual_forward<>),
    address(&llmc::gelu_matmul_backward<>),
    address(&llmc::permute_heads<>),
    address(&llmc::residual_backward<>),
    address(&llmc::residual_forward<>),
    address(&llmc::residual_layernorm_backward<>),
    address(&llmc::residual_layernorm_forward<>),
    address(&llmc::softmax_backward<>),
    address(&llmc::softmax_forward<>),
    address(&llmc::unpermute_heads<>),
};
