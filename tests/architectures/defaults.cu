/// @file
/// Every launcher's default variant, compiled for each architecture that llmc supports.
#include <llmc/llmc.cuh>

template <class Function>
const void* address(Function* function) {
  return reinterpret_cast<const void*>(function);
}

/// Attention's launchers are overloaded: with a matmul_context, and without.
using attention_forward_type = void(float*, float*, llmc::workspace, const float*,
                                    llmc::attention_shape, llmc::precision, llmc::matmul_context&,
                                    cudaStream_t);
using attention_backward_type = void(float*, float*, llmc::workspace, const float*, const float*,
                                     const float*, const float*, llmc::attention_shape,
                                     llmc::precision, llmc::accumulation, llmc::matmul_context&,
                                     cudaStream_t);
using plain_attention_forward_type = void(float*, float*, const float*, llmc::attention_shape,
                                          llmc::precision, cudaStream_t);

extern const void* const default_launchers[];
const void* const default_launchers[] = {
    address(&llmc::adamw_update<>),
    address(&llmc::adamw_update_segments<>),
    address<attention_backward_type>(&llmc::attention_backward<>),
    address<attention_forward_type>(&llmc::attention_forward<>),
    address<plain_attention_forward_type>(&llmc::attention_forward<>),
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
    address(&llmc::split<>),
    address(&llmc::split_matmul_input_gradient<>),
    address(&llmc::split_matmul_output<>),
    address(&llmc::split_matmul_weight_gradient<>),
    address(&llmc::unpermute_heads<>),
};
