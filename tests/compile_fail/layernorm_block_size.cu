#include <llmc/layernorm.cuh>

void launch(float* out, const float* inp, const float* weight, const float* bias,
            llmc::row_shape shape, cudaStream_t stream) {
  llmc::layernorm_forward<llmc::layernorm_forward_variant::automatic, 100>(
      out, nullptr, nullptr, inp, weight, bias, shape, 1e-5f, stream);
}
