/// @file
/// Compiled once for each name in product.hpp, with LLMC_TEST_NAME set to it.
#include "product.hpp"

#include <llmc/matmul.cuh>

#define LLMC_TEST_GLUE_2(a, b) a##b
#define LLMC_TEST_GLUE(a, b) LLMC_TEST_GLUE_2(a, b)

void LLMC_TEST_GLUE(product_kernel_, LLMC_TEST_NAME)(std::string& kernel,
                                                     llmc::matmul_context& context) {
  alignas(16) float memory[4] = {};  // only looked at for its alignment
  kernel = llmc::matmul_forward_path(memory, memory, memory, nullptr, {512, 512, 512},
                                     llmc::precision::tf32x3, context)
               .kernel;
}

void LLMC_TEST_GLUE(multiply_, LLMC_TEST_NAME)(float* out, const float* inp, const float* weight,
                                               llmc::matmul_shape shape,
                                               llmc::matmul_context& context, cudaStream_t stream) {
  llmc::matmul_forward(out, inp, weight, nullptr, shape, llmc::precision::tf32x3, context, stream);
}
