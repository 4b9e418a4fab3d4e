/// @file
/// What of karpathy/llm.c is timed, built for FP32. llm_c.cu alone includes its headers, since they
/// define variables and functions that are not inline.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

// Launchers, as llm.c's headers define them. B batch, T sequence, C and OC channels, NH heads.
void encoder_forward(float* out, const int* tokens, const float* wte, const float* wpe, int B,
                     int T, int C, cudaStream_t stream);
void encoder_backward(float* dwte, float* dwpe, float* scratch, int* host_indices,
                      int4* host_buckets, const float* dout, const int* tokens,
                      const int* host_tokens, int B, int T, int C, unsigned int seed,
                      cudaStream_t stream);
void layernorm_forward(float* out, float* mean, float* rstd, float* inp, const float* weight,
                       const float* bias, int B, int T, int C, cudaStream_t stream);
void layernorm_backward(float* dinp, float* dweight, float* dbias, float* scratch,
                        const float* dout, const float* inp, const float* weight, const float* mean,
                        const float* rstd, int B, int T, int C, cudaStream_t stream);
void residual_forward(float* out, const float* inp1, const float* inp2, int count,
                      cudaStream_t stream);
void fused_residual_forward5(float* residual, float* out, float* mean, float* rstd,
                             const float* inp1, const float* inp2, const float* weight,
                             const float* bias, int rows, int C, cudaStream_t stream);
void gelu_forward(float* out, const float* inp, int count, cudaStream_t stream);
void gelu_backward_inplace(float* dout_to_dinp, const float* inp, int count, cudaStream_t stream);
void matmul_forward_cublaslt(float* out, float* inp, float* weight, float* bias, int B, int T,
                             int C, int OC, cudaStream_t stream, float* before_gelu,
                             int gelu_fusion);
void matmul_backward(float* dinp, float* dweight, float* dbias, float* dout, float* inp,
                     float* weight, float* dbias_buffer, int B, int T, int C, int OC,
                     cudaStream_t stream, float* before_gelu, int gelu_fusion);
void attention_forward(float* out, float* qkv_by_head, float* probabilities, float* inp, int B,
                       int T, int C, int NH, cudaStream_t stream);
void attention_backward(float* dinp, float* dqkv_by_head, float* dprobabilities, float* scratch,
                        const float* dout, const float* qkv_by_head, const float* probabilities,
                        int B, int T, int C, int NH, cudaStream_t stream);

/// What llm.c has as templates or as kernels without a launcher of their own.
namespace llm_c {

/// The state that llm.c's train_gpt2.cu sets up: the device's properties, cuBLASLt's handle and its
/// workspace. One at a time; all the others need it.
class state {
 public:
  state();
  ~state();
  state(const state&) = delete;
  state& operator=(const state&) = delete;
};

/// Says in which precision cuBLASLt computes from now on.
void use_tf32(bool tf32);

/// Floats in encoder_backward's scratch.
std::int64_t encoder_scratch_size(int B, int T, int C);
/// encoder_backward's kernels alone, with what the launcher left in its scratch for the same
/// tokens, of which that many are different.
void encoder_backward_kernels(float* dwte, float* dwpe, float* scratch, int different_tokens,
                              const float* dout, const int* tokens, int B, int T, int C,
                              cudaStream_t stream);

/// matmul_backward's part of dbias, which is added to; the buffer is matmul_backward's.
void bias_backward(float* dbias, float* buffer, const float* dout, int rows, int OC,
                   cudaStream_t stream);

void permute(float* qkv_by_head, const float* qkv, int B, int T, int NH, int head_size,
             cudaStream_t stream);
void unpermute(float* qkv, const float* qkv_by_head, int B, int T, int NH, int head_size,
               cudaStream_t stream);

void causal_softmax_forward(float* out, const float* inp, int matrices, int T, float scale,
                            cudaStream_t stream);
void causal_softmax_backward(float* dout_to_dinp, const float* out, int matrices, int T,
                             float scale, cudaStream_t stream);

/// Adds to the losses, and turns the logits into their gradients.
void fused_classifier(float* logits, float* losses, float dloss, const int* targets, int rows,
                      int V, int padded_V, cudaStream_t stream);

/// The square of the norm into out[0]; `out` holds a sum for each block, at most 1024.
void global_norm_squared(float* out, const float* grads, std::size_t count, cudaStream_t stream);

struct adamw_constants {
  float learning_rate, beta1, beta2, epsilon, weight_decay, grad_scale;
};
void adamw_update(float* params, float* grads, float* m, float* v, std::size_t count, int step,
                  const adamw_constants& constants, cudaStream_t stream);

/// Launchers of its folder dev/cuda for what llmc/ has not. They run on the default stream.
struct dev_kernels {
  struct softmax {
    const char* name;
    void (*forward)(float* out, const float* inp, int rows, int C, int block_size);
    int block_size;
  };
  std::array<softmax, 3> softmax_ways;
  void (*crossentropy_forward)(float* losses, const float* probabilities, const int* targets, int B,
                               int T, int V, int block_size);
  /// Adds to dlogits.
  void (*crossentropy_softmax_backward)(float* dlogits, const float* dlosses,
                                        const float* probabilities, const int* targets, int B,
                                        int T, int V, int block_size);
};

/// Null if there was no dev_kernels.cuh in llm.c's folder.
const dev_kernels* find_dev_kernels();

}  // namespace llm_c
