#include "llm_c.hpp"

#include <algorithm>

// These call assert and memcpy without including what declares them.
#include <cassert>
#include <cstring>

#include <cublas_common.h>
#include <cuda_common.h>
#include <cuda_utils.cuh>

#include <encoder.cuh>
#include <layernorm.cuh>

#include <matmul.cuh>  // before attention.cuh, which uses it

#include <adamw.cuh>
#include <attention.cuh>
#include <fused_classifier.cuh>
#include <global_norm.cuh>

#if __has_include(<../dev_kernels.cuh>)
#include <../dev_kernels.cuh>
#define LLM_C_DEV_KERNELS
#endif

cudaDeviceProp deviceProp;

namespace llm_c {
namespace {

constexpr int pack = x128::size;
constexpr int warp_size = WARP_SIZE;

int blocks_for(std::int64_t threads, int block_size) {
  return static_cast<int>((threads + block_size - 1) / block_size);
}

int channel_groups(int C) {
  return blocks_for(C, warp_size * pack);
}

/// Where encoder_backward's scratch has the indices, after as many buckets as there can be.
std::int64_t indices_offset(int B, int T, int C) {
  return std::int64_t{B} * T * channel_groups(C) * static_cast<std::int64_t>(sizeof(int4));
}

}  // namespace

state::state() {
  int device = 0;
  cudaCheck(cudaGetDevice(&device));
  cudaCheck(cudaGetDeviceProperties(&deviceProp, device));
  cublasCheck(cublasLtCreate(&cublaslt_handle));
  cudaCheck(cudaMalloc(&cublaslt_workspace, cublaslt_workspace_size));
}

state::~state() {
  cudaFree(cublaslt_workspace);
  cublasLtDestroy(cublaslt_handle);
}

void use_tf32(bool tf32) {
  cublas_compute = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

std::int64_t encoder_scratch_size(int B, int T, int C) {
  return indices_offset(B, T, C) + std::int64_t{B} * T * channel_groups(C);
}

void encoder_backward_kernels(float* dwte, float* dwpe, float* scratch, int different_tokens,
                              const float* dout, const int* tokens, int B, int T, int C,
                              cudaStream_t stream) {
  constexpr int block_size = 256;
  const auto* buckets = reinterpret_cast<const int4*>(scratch);
  const auto* indices = reinterpret_cast<const int*>(scratch + indices_offset(B, T, C));
  wpe_backward_kernel<<<blocks_for(T * C / pack, block_size), block_size, 0, stream>>>(
      dwpe, dout, tokens, B, T, C, 0);
  wte_backward_kernel<block_size><<<different_tokens * channel_groups(C), block_size, 0, stream>>>(
      dwte, buckets, indices, dout, tokens, 0, B, T, C);
  cudaCheck(cudaGetLastError());
}

void bias_backward(float* dbias, float* buffer, const float* dout, int rows, int OC,
                   cudaStream_t stream) {
  const int resident = deviceProp.maxThreadsPerMultiProcessor;
  const int block_size = resident == 1536 ? 768 : 1024;
  const dim3 block(4, 8, static_cast<unsigned>(block_size / warp_size));
  const int columns = blocks_for(OC, 8 * pack);
  const int whole_card = resident * deviceProp.multiProcessorCount;
  const int rows_of_blocks = std::max(1, whole_card / (block_size * columns));
  matmul_backward_bias_kernel9<<<dim3(columns, rows_of_blocks), block, 0, stream>>>(
      buffer, dout, 1, rows, OC, std::true_type{});
  reduce_add_sum_kernel<<<blocks_for(OC, 256 * f128::size), 256, 0, stream>>>(dbias, buffer, OC,
                                                                              rows_of_blocks);
  cudaCheck(cudaGetLastError());
}

void permute(float* qkv_by_head, const float* qkv, int B, int T, int NH, int head_size,
             cudaStream_t stream) {
  const int count = B * T * NH * head_size;
  permute_kernel<<<blocks_for(count, 256), 256, 0, stream>>>(
      qkv_by_head, qkv_by_head + count, qkv_by_head + 2 * count, qkv, B, T, NH, head_size);
  cudaCheck(cudaGetLastError());
}

void unpermute(float* qkv, const float* qkv_by_head, int B, int T, int NH, int head_size,
               cudaStream_t stream) {
  const int count = B * T * NH * head_size;
  permute_kernel_backward<<<blocks_for(count, 256), 256, 0, stream>>>(
      qkv, qkv_by_head, qkv_by_head + count, qkv_by_head + 2 * count, B, T, NH, head_size);
  cudaCheck(cudaGetLastError());
}

void causal_softmax_forward(float* out, const float* inp, int matrices, int T, float scale,
                            cudaStream_t stream) {
  const std::int64_t threads = std::int64_t{matrices} * T * warp_size;
  softmax_forward_kernel5<<<blocks_for(threads, 256), 256, 0, stream>>>(out, scale, inp, matrices,
                                                                        T);
  cudaCheck(cudaGetLastError());
}

void causal_softmax_backward(float* dout_to_dinp, const float* out, int matrices, int T,
                             float scale, cudaStream_t stream) {
  softmax_autoregressive_backward_inplace_kernel<<<dim3(T / 4, matrices), 256, 0, stream>>>(
      dout_to_dinp, out, 0, T, 0, scale);  // the kernel reads neither B nor C
  cudaCheck(cudaGetLastError());
}

void fused_classifier(float* logits, float* losses, float dloss, const int* targets, int rows,
                      int V, int padded_V, cudaStream_t stream) {
  ::fused_classifier(logits, losses, dloss, targets, 1, rows, V, padded_V, True, stream);
}

void global_norm_squared(float* out, const float* grads, std::size_t count, cudaStream_t stream) {
  int slices = 1;
  const int block_sums = get_max_num_block_sums(&slices, 1);
  ::global_norm_squared(out, grads, count, 0, slices, block_sums, true, stream);
  global_sum_deterministic(out, out, block_sums, stream);
}

void adamw_update(float* params, float* grads, float* m, float* v, std::size_t count, int step,
                  const adamw_constants& c, cudaStream_t stream) {
  float* const no_master_copy = nullptr;
  const unsigned int unused_seed = 0;  // only for numbers that are rounded
  ::adamw_update(params, no_master_copy, grads, m, v, count, 0, 0, 0, 1, c.learning_rate, c.beta1,
                 c.beta2, step, c.epsilon, c.weight_decay, c.grad_scale, unused_seed, stream);
}

const dev_kernels* find_dev_kernels() {
#ifdef LLM_C_DEV_KERNELS
  static constexpr dev_kernels found{
      {{{"softmax_forward7<512>", softmax_forward7, 512},
        {"softmax_forward7<1024>", softmax_forward7, 1024},
        {"softmax_forward_online8<256>", softmax_forward_online8, 256}}},
      crossentropy_forward1,
      crossentropy_softmax_backward1};
  return &found;
#else
  return nullptr;
#endif
}

}  // namespace llm_c
