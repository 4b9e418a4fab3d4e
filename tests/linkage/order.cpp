/// @file
/// Code for sm_90 and for sm_90a in one program: each takes its own kernels, whichever is linked or
/// loaded first. LLMC_TEST_FIRST and LLMC_TEST_SECOND are the same two files as shared libraries.
#include <dlfcn.h>

#include "../support/gpu.cuh"
#include "product.hpp"

namespace {

using kernel_function = void (*)(std::string&, llmc::matmul_context&);

void check_kernel(kernel_function function, const std::string& expected) {
  llmc::matmul_context context;
  std::string kernel;
  function(kernel, context);
  CHECK(kernel.substr(0, kernel.find(' ')) == expected);
}

bool is_hopper() {
  int major = 0;
  llmc_test::check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  return major == 9;
}

/// Makes the library's symbols visible to all that is loaded later.
void* load(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) FAIL(dlerror());
  return library;
}

kernel_function function_of(void* library, const char* name) {
  return reinterpret_cast<kernel_function>(dlsym(library, name));
}

}  // namespace

TEST_CASE("files for sm_90 and sm_90a, linked into one program, take their own kernels",
          "[linkage]") {
  LLMC_REQUIRE_GPU();
  if (!is_hopper()) LLMC_SKIP("needs compute capability 9.0");
  check_kernel(product_kernel_sm_90, "mma");
  check_kernel(product_kernel_sm_90a, "wgmma");
}

TEST_CASE("libraries for sm_90 and sm_90a, loaded for all to see, take their own kernels",
          "[linkage]") {
  void* const first = load(LLMC_TEST_FIRST);
  void* const second = load(LLMC_TEST_SECOND);
  for (void* const library : {first, second}) {
    const kernel_function sm_90 = function_of(library, "product_kernel_sm_90");
    const kernel_function sm_90a = function_of(library, "product_kernel_sm_90a");
    REQUIRE((sm_90 == nullptr) != (sm_90a == nullptr));
    LLMC_REQUIRE_GPU();
    if (!is_hopper()) LLMC_SKIP("needs compute capability 9.0");
    if (sm_90 != nullptr) check_kernel(sm_90, "mma");
    if (sm_90a != nullptr) check_kernel(sm_90a, "wgmma");
  }
}
