#include "layer.hpp"

#include <llmc/llmc.cuh>

void normalise(float* out, const float* inp, llmc::row_shape shape) {
  llmc::layernorm_forward(out, nullptr, nullptr, inp, inp, inp, shape, 1e-5f, nullptr);
}
