/// @file
/// Files for sm_80 and for sm_90a in one program that share a matmul_context: each computes with
/// the kernels that it has, so each gets the bits that it gets alone, whatever the order of calls.
/// The first file is PTX, which a Hopper GPU runs, too.
#include <sstream>
#include <string>
#include <vector>

#include "../support/gpu.cuh"
#include "../support/random.hpp"
#include "product.hpp"

using namespace llmc_test;

namespace {

struct build {
  const char* kernel;
  void (*path)(std::string& kernel, llmc::matmul_context& context);
  void (*multiply)(float* out, const float* inp, const float* weight, llmc::matmul_shape shape,
                   llmc::matmul_context& context, cudaStream_t stream);
};

constexpr build sm_80{"mma", product_kernel_sm_80, multiply_sm_80};
constexpr build sm_90a{"wgmma", product_kernel_sm_90a, multiply_sm_90a};

/// One product with its operands, computed by any build in any context.
class problem {
 public:
  std::vector<float> by(const build& b, llmc::matmul_context& context) {
    out_.reset();
    check_cuda(cudaDeviceSynchronize());
    b.multiply(out_, inp_.get(), weight_.get(), shape_, context, stream_);
    stream_.synchronize();
    return out_.values();
  }
  std::vector<float> by_alone(const build& b) {
    llmc::matmul_context context;
    return by(b, context);
  }
  void tune(const build& b, llmc::matmul_context& context) {
    context.tune(stream_,
                 [&] { b.multiply(out_, inp_.get(), weight_.get(), shape_, context, stream_); });
  }

 private:
  llmc::matmul_shape shape_{512, 512, 512};
  buffer<float> inp_{random_normal(512 * 512, 1)}, weight_{random_normal(512 * 512, 2)};
  output out_{512 * 512};
  stream stream_;
};

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return same_bits({a}, {b});
}

bool is_hopper() {
  int major = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  return major == 9;
}

}  // namespace

TEST_CASE("builds for sm_80 and sm_90a that share a context have their own bits", "[linkage]") {
  LLMC_REQUIRE_GPU();
  if (!is_hopper()) LLMC_SKIP("needs compute capability 9.0");
  problem p;
  const std::vector<float> of_80 = p.by_alone(sm_80), of_90a = p.by_alone(sm_90a);
  // Otherwise the rest would show nothing.
  REQUIRE_FALSE(same(of_80, of_90a));

  const std::vector<std::vector<build>> orders{{sm_80, sm_90a, sm_80, sm_90a},
                                               {sm_90a, sm_80, sm_90a, sm_80}};
  for (const std::vector<build>& order : orders) {
    llmc::matmul_context context;
    for (const build& b : order) {
      CAPTURE(b.kernel, order.front().kernel);
      std::string kernel;
      b.path(kernel, context);
      CHECK(kernel.substr(0, kernel.find(' ')) == b.kernel);
      CHECK(same(p.by(b, context), b.multiply == sm_80.multiply ? of_80 : of_90a));
    }
  }
}

TEST_CASE("builds for sm_80 and sm_90a tune one context, and its plans serve both again",
          "[linkage]") {
  LLMC_REQUIRE_GPU();
  if (!is_hopper()) LLMC_SKIP("needs compute capability 9.0");
  problem p;
  llmc::matmul_context tuned;
  p.tune(sm_90a, tuned);
  p.tune(sm_80, tuned);
  std::stringstream plans;
  tuned.save_plans(plans);
  for (const std::vector<build>& order : {std::vector{sm_80, sm_90a}, std::vector{sm_90a, sm_80}}) {
    llmc::matmul_context loaded;
    plans.clear();
    plans.seekg(0);
    loaded.load_plans(plans, "the plans of both");
    for (const build& b : order) {
      CAPTURE(b.kernel);
      CHECK(same(p.by(b, loaded), p.by(b, tuned)));
    }
  }
}
