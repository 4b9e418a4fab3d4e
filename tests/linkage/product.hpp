/// @file
/// Two functions of a user's, compiled for several architectures under the names of these, and
/// called from .cpp files with llmc's types. The names are C's for dlsym.
#pragma once

#include <string>

#include <llmc/matmul_context.hpp>
#include <llmc/types.hpp>

#define LLMC_TEST_DECLARE_PRODUCT(name)                                                      \
  /* Sets `kernel` to the name of the kernel with which this file computes a product in      \
     tf32x3. */                                                                              \
  extern "C" void product_kernel_##name(std::string& kernel, llmc::matmul_context& context); \
  /* Computes such a product; all arrays are on the GPU. */                                  \
  extern "C" void multiply_##name(float* out, const float* inp, const float* weight,         \
                                  llmc::matmul_shape shape, llmc::matmul_context& context,   \
                                  cudaStream_t stream)

LLMC_TEST_DECLARE_PRODUCT(sm_80);
LLMC_TEST_DECLARE_PRODUCT(sm_90);
LLMC_TEST_DECLARE_PRODUCT(sm_90a);
