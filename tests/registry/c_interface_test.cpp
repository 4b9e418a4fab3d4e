/// @file
/// What libkernel_bench_c refuses before it needs a GPU.
#include "kernel_bench/c_interface.h"

#include <string>
#include <vector>

#include "../support/catch.hpp"

namespace {

using arrays = std::vector<kernel_bench_array>;

float element;  // never touched: nothing is launched
const arrays layer{{"out", &element}, {"inp", &element}, {"weight", &element}, {"bias", nullptr}};

struct request {
  const char* operation = "matmul_forward";
  const char* variant = "cublaslt";
  int block_size = 0;
  const char* precision = "tf32";
  std::vector<kernel_bench_extent> shape{{"rows", 64}, {"channels", 32}};
  arrays with = layer;
};

kernel_bench_call* open(const request& r) {
  return kernel_bench_open(r.operation, r.variant, r.block_size, r.precision, r.shape.data(),
                           static_cast<int>(r.shape.size()), r.with.data(),
                           static_cast<int>(r.with.size()));
}

void check_refused(const request& r, const std::string& wanted) {
  INFO(wanted);
  CHECK(open(r) == nullptr);
  const std::string text = kernel_bench_error();
  INFO(text);
  CHECK(text.find(wanted) != std::string::npos);
}

}  // namespace

TEST_CASE("the C call lists every operation", "[registry]") {
  const std::string text = kernel_bench_list();
  CHECK(text.find("\nmatmul_forward, ") != std::string::npos);
  CHECK(text.find("loss_sum, 1 entries\n  --rows 8192\n  automatic\n") != std::string::npos);
}

TEST_CASE("the C call takes a launcher on the caller's arrays", "[registry]") {
  kernel_bench_call* call = open({});
  INFO(kernel_bench_error());
  CHECK(call != nullptr);
  kernel_bench_close(call);
  kernel_bench_close(nullptr);
}

TEST_CASE("the C call refuses what is not in the registry", "[registry]") {
  request r;
  r.operation = "matmul";
  check_refused(r, "there is no operation matmul;");
  r = {};
  r.variant = "fast";
  check_refused(r, "matmul_forward has no fast tf32, only automatic naive");
  r = {};
  r.block_size = 17;
  check_refused(r, "matmul_forward has no cublaslt<17> tf32, only cublaslt<");
  r = {};
  r.precision = nullptr;
  check_refused(r, "matmul_forward has no cublaslt without a precision, only cublaslt<");
  r = {};
  r.shape.push_back({"heads", 12});
  check_refused(r, "matmul_forward has no extent heads of 12");
  r = {};
  r.shape.front().value = 0;
  check_refused(r, "matmul_forward has no extent rows of 0");
  r = {};
  r.with.pop_back();
  check_refused(r, "the array bias is missing");
  r = {};
  r.with.push_back({"dout", &element});
  check_refused(r, "there is no array dout");
}
