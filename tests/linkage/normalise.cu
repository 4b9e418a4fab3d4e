/// @file
/// Compiled once for each name in normalise.hpp, with LLMC_TEST_NAME set to it.
#include "normalise.hpp"

#include <llmc/layernorm.cuh>

#include <cstddef>
#include <stdexcept>

#define LLMC_TEST_GLUE_2(a, b) a##b
#define LLMC_TEST_GLUE(a, b) LLMC_TEST_GLUE_2(a, b)

namespace {

void cuda(cudaError_t code) {
  if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

/// A copy of `values` on the GPU.
class device_copy {
 public:
  explicit device_copy(const std::vector<float>& values) : bytes_(values.size() * sizeof(float)) {
    cuda(cudaMalloc(&data_, bytes_));
    cuda(cudaMemcpy(data_, values.data(), bytes_, cudaMemcpyHostToDevice));
  }
  ~device_copy() { cudaFree(data_); }
  device_copy(const device_copy&) = delete;
  device_copy& operator=(const device_copy&) = delete;

  operator float*() const { return data_; }
  void read(std::vector<float>& values) const {
    cuda(cudaMemcpy(values.data(), data_, bytes_, cudaMemcpyDeviceToHost));
  }

 private:
  std::size_t bytes_;
  float* data_ = nullptr;
};

}  // namespace

std::vector<float> LLMC_TEST_GLUE(normalise_, LLMC_TEST_NAME)(std::vector<float> values,
                                                              llmc::row_shape shape) {
  if (values.empty()) {  // for the refusals, which must come before anything touches the GPU
    llmc::layernorm_forward(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, shape, 1e-5f,
                            nullptr);
    return values;
  }
  const auto channels = static_cast<std::size_t>(shape.channels);
  const device_copy inp(values), weight(std::vector<float>(channels, 1.0f)),
      bias(std::vector<float>(channels, 0.0f));
  llmc::layernorm_forward(inp, nullptr, nullptr, inp, weight, bias, shape, 1e-5f, nullptr);
  inp.read(values);
  return values;
}

bool LLMC_TEST_GLUE(catches_error_, LLMC_TEST_NAME)(void (*call)()) {
  try {
    call();
  } catch (const llmc::error&) {
    return true;
  }
  return false;
}
