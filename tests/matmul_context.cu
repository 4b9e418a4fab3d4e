// Who computes a context's products, and what it knows of its device.
#include <llmc/detail/matmul/kernel_presence.hpp>
#include <llmc/matmul_context.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "support/compare.hpp"
#include "support/context_case.cuh"
#include "support/gpu.cuh"

using namespace llmc_test;

// ---- who computes a product ----

TEST_CASE("a context that was not tuned takes the preferred candidate", "[matmul_context]") {
  LLMC_REQUIRE_GPU();
  const layer l({33, 65, 17});
  matmul_context context;
  output out(l.outputs());
  const bool own = GENERATE(true, false);
  const candidates list = own ? own_of({naive, failing}) : all_of({failing});
  const int calls_before = naive_calls;
  run({&out}, [&](cudaStream_t s) { run_product(context, l.into(out), list, s); });
  CHECK((naive_calls > calls_before) == own);
  check_close("out", out.values(), l.expected, l.allowed());
  CHECK_FALSE(is_planned(context, l.into(out), list));
}

TEST_CASE("files with different kernels share a context in any order", "[matmul_context]") {
  LLMC_REQUIRE_GPU();
  const layer l({5, 6, 7});
  matmul_context context;
  output out(l.outputs());
  const stream s;
  const int calls_before = naive_calls;
  for (const kernel who : {slow, naive, slow, naive}) {
    run_product(context, l.into(out), own_of({who}), s);
    s.synchronize();
    check_close("out", out.values(), l.expected, l.allowed());
  }
  CHECK(naive_calls == calls_before + 2);
}

TEST_CASE("a candidate may run products itself, also while tuning", "[matmul_context]") {
  LLMC_REQUIRE_GPU();
  const int misalignment = GENERATE(0, 1);
  const layer l({33, 64, 129}, misalignment);
  matmul_context context;
  output out(l.outputs(), misalignment);
  const auto launch = [&](cudaStream_t s) {
    run_product(context, l.into(out), own_of({composed}), s);
  };
  run({&out}, launch);
  check_close("out", out.values(), l.expected, l.allowed());

  out.reset();
  tune_product(context, l.into(out), own_of({composed}));
  check_close("out of tuning", out.values(), l.expected, l.allowed());
  product plain = l.into(out);
  plain.then.bias = nullptr;
  CHECK(is_planned(context, l.into(out), own_of({composed}), composed));
  candidates library(engines::library);
  library.add(kernel::cublaslt);
  CHECK(is_planned(context, plain, library, kernel::cublaslt));
  run({&out}, launch);
  check_close("out after tuning", out.values(), l.expected, l.allowed());
}

TEST_CASE("cuBLASLt adds a residual from elsewhere and in place", "[matmul_context]") {
  LLMC_REQUIRE_GPU();
  const layer l({33, 65, 17}, GENERATE(0, 1));
  const bool in_place = GENERATE(true, false);
  const buffer<float> residual(std::vector<float>(l.expected.size(), preset));
  matmul_context context;
  output out(l.outputs(), in_place ? llmc::accumulation::add : llmc::accumulation::overwrite);
  product p = l.into(out);
  p.then.residual = in_place ? p.out.data : residual.get();
  run({&out}, [&](cudaStream_t s) { context.multiply("test", p, s); });
  check_close("out", out.values(), expected_gradient(l.expected, llmc::accumulation::add),
              l.allowed());
}

// ---- what kernels need of a context ----

TEST_CASE("a context says what its device is", "[matmul_context]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  cudaDeviceProp device{};
  check_cuda(cudaGetDeviceProperties(&device, context.device()));
  CHECK(context.resources().multiprocessors() == device.multiProcessorCount);
  CHECK(context.compute_capability() == 10 * device.major + device.minor);
}

TEST_CASE("a context has a workspace, and flags that are zero", "[matmul_context]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const products::resources& device = context.resources();
  check_cuda(cudaMemset(device.workspace(), 1, products::resources::workspace_bytes));
  constexpr int flag_count = products::resources::flag_count;
  std::vector<std::int32_t> flags(flag_count, 1);
  check_cuda(cudaMemcpy(flags.data(), device.flags(), flags.size() * sizeof flags[0],
                        cudaMemcpyDeviceToHost));
  CHECK(std::count(flags.begin(), flags.end(), 0) == flag_count);
}

TEST_CASE("it is known which kernels were built for a device", "[matmul_context]") {
  LLMC_REQUIRE_GPU();
  const auto* built = reinterpret_cast<const void*>(&naive_kernel);
  int none = 0;
  for (const int device : {0, 1000}) {
    products::kernel_presence there, not_there;
    CHECK(there.on(device, built, block_size));
    CHECK(there.on(device, built, block_size / 2));
    CHECK_FALSE(there.on(device, built, block_size + 1));
    CHECK(there.on(device, built, block_size));
    CHECK_FALSE(not_there.on(device, &none, 1));
    CHECK_FALSE(not_there.on(device, &none, 1));
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
  cudaSetDevice(-1);  // an error of the program's
  CHECK(products::kernel_presence().on(0, built, block_size));
  CHECK_FALSE(products::kernel_presence().on(0, &none, 1));
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
}

TEST_CASE("a context describes matrices for bulk copies", "[matmul_context]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  if (context.compute_capability() < 90) LLMC_SKIP("bulk copies need sm_90");
  const buffer<float> memory(128 * 64);
  products::tensor_box box{
      memory.get(), 64, 128, 64 * sizeof(float), 32, 64, products::box_element::fp32};
  const CUtensorMap first = context.resources().tensor_map("test", box);
  const auto is_first = [&](const CUtensorMap& map) {
    return std::memcmp(&map, &first, sizeof first) == 0;
  };
  CHECK(is_first(context.resources().tensor_map("test", box)));
  for (std::uint32_t rows = 1; rows <= 8; ++rows) {
    box.box_rows = rows;
    CHECK_FALSE(is_first(context.resources().tensor_map("test", box)));
  }
  box.box_rows = 64;
  box.element = products::box_element::tf32;
  CHECK_FALSE(is_first(context.resources().tensor_map("test", box)));
  box.element = products::box_element::fp32;
  CHECK(is_first(context.resources().tensor_map("test", box)));

  box.data = memory.get() + 1;  // bulk copies want 16 bytes
  CHECK_THROWS_AS(context.resources().tensor_map("test", box), llmc::cuda_error);
}
