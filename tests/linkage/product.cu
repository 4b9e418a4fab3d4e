/// @file
/// Compiled once for each name in product.hpp, with LLMC_TEST_FUNCTION set to it.
#include "product.hpp"

#include <llmc/matmul.cuh>

void LLMC_TEST_FUNCTION(std::string& kernel, llmc::matmul_context& context) {
  alignas(16) float memory[4] = {};  // only looked at for its alignment
  kernel = llmc::matmul_forward_path(memory, memory, memory, nullptr, {512, 512, 512},
                                     llmc::precision::tf32x3, context)
               .kernel;
}
