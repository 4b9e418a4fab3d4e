// How a context's plans are found, saved and loaded.
#include <llmc/matmul_context.hpp>

#include <cstddef>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/compare.hpp"
#include "support/context_case.cuh"
#include "support/gpu.cuh"

using namespace llmc_test;

namespace {

std::string saved(const matmul_context& context) {
  std::ostringstream text;
  context.save_plans(text);
  return text.str();
}

bool begins_with(const std::string& text, const std::string& with) {
  return text.compare(0, with.size(), with) == 0;
}

void load(matmul_context& context, const std::string& text) {
  std::istringstream from(text);
  context.load_plans(from, "my.plans");
}

}  // namespace

// ---- tuning ----

TEST_CASE("tune takes the fastest candidate", "[matmul_context]") {
  LLMC_REQUIRE_GPU();
  const layer l({64, 96, 80});
  matmul_context context;
  output out(l.outputs());
  const product p = l.into(out);

  SECTION("cuBLASLt") {
    tune_product(context, p, all_of({slow}));
    CHECK(is_planned(context, p, all_of({slow}), kernel::cublaslt));
    check_close("out", out.values(), l.expected, l.allowed());
  }
  SECTION("a kernel of our own") {
    tune_product(context, p, all_of({slow, nothing}));
    CHECK(is_planned(context, p, all_of({slow, nothing}), nothing));
  }
  SECTION("the only one") {
    tune_product(context, p, own_of({naive}));
    CHECK(is_planned(context, p, own_of({naive}), naive));
    check_close("out", out.values(), l.expected, l.allowed());
  }
  SECTION("passing over those that fail") {
    tune_product(context, p, own_of({failing, naive}));
    CHECK(is_planned(context, p, own_of({failing, naive}), naive));
  }
  SECTION("once") {
    tune_product(context, p, own_of({naive}));
    const int calls_before = naive_calls;
    tune_product(context, p, own_of({naive}));
    CHECK(naive_calls == calls_before + 1);
  }
  SECTION("also where an untuned plan was used before") {
    const stream s;
    run_product(context, p, all_of({nothing}), s);
    s.synchronize();
    check_close("out", out.values(), l.expected, l.allowed());
    tune_product(context, p, all_of({nothing}));
    CHECK(is_planned(context, p, all_of({nothing}), nothing));
  }
  SECTION("or none if all fail, and then the product throws as it does untuned") {
    CHECK_THROWS_WITH(tune_product(context, p, own_of({failing})),
                      "test: the kernel that always fails");
    CHECK_FALSE(is_planned(context, p, own_of({failing})));
  }
  SECTION("and leaves an earlier error of the program's") {
    cudaSetDevice(-1);
    const stream s;
    context.tune(s, [&] { run_product(context, p, own_of({failing, naive}), s); });
    CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
    CHECK(is_planned(context, p, own_of({failing, naive}), naive));
  }
}

TEST_CASE("tune leaves what the products leave", "[matmul_context]") {
  LLMC_REQUIRE_GPU();
  const int misalignment = GENERATE(0, 1, 2);
  const llmc::accumulation mode = GENERATE(llmc::accumulation::overwrite, llmc::accumulation::add);
  const matmul_shape shape =
      GENERATE(matmul_shape{32, 64, 128}, matmul_shape{33, 65, 129}, matmul_shape{1, 1, 1});
  INFO("rows " << shape.rows << ", misalignment " << misalignment);
  const layer l(shape, misalignment);
  matmul_context context;
  output out(l.outputs(), mode, misalignment);
  product p = l.into(out);
  if (mode == llmc::accumulation::add) p.then.residual = p.out.data;
  const std::vector<double> expected = expected_gradient(l.expected, mode);

  out.reset();
  tune_product(context, p, all_of({naive}));
  check_close("out of tuning", out.values(), expected, l.allowed());
  CHECK(out.guards_intact());
  CHECK(is_planned(context, p, all_of({naive})));
  run({&out}, [&](cudaStream_t s) { run_product(context, p, all_of({naive}), s); });
  check_close("out after tuning", out.values(), expected, l.allowed());
}

TEST_CASE("tune finds plans for batches", "[matmul_context]") {
  LLMC_REQUIRE_GPU();
  const layer l({24, 16, 8});  // as 3 batches of 8 rows, whose columns lie side by side in out
  matmul_context context;
  output out(l.outputs());
  product p{{out, 24, 8}, {l.inp, 16, layout::inner_first, 128}, {l.weight, 16}, 8, 8, 16, 3};
  const stream s;
  context.tune(s, [&] { context.multiply("test", p, s); });

  std::vector<double> expected(l.expected.size());
  for (std::size_t row = 0; row < 24; ++row) {
    for (std::size_t column = 0; column < 8; ++column) {
      expected[row % 8 * 24 + row / 8 * 8 + column] =
          l.expected[row * 8 + column] - static_cast<double>(l.bias_values[column]);
    }
  }
  check_close("out", out.values(), expected, l.allowed());
}

TEST_CASE("tune rejects a stream that is being captured", "[matmul_context]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const stream s;
  bool called = false;
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  CHECK_THROWS_WITH(context.tune(s, [&] { called = true; }),
                    "llmc::matmul_context::tune: the stream must not be capturing while products "
                    "are tuned");
  check_cuda(cudaStreamEndCapture(s, &graph));
  cudaGraphDestroy(graph);
  CHECK_FALSE(called);
}

TEST_CASE("tune rejects products on another stream", "[matmul_context]") {
  LLMC_REQUIRE_GPU();
  const layer l({5, 6, 7});
  matmul_context context;
  output out(l.outputs());
  const stream s, other;
  CHECK_THROWS_AS(
      context.tune(s, [&] { run_product(context, l.into(out), own_of({naive}), other); }),
      llmc::invalid_argument);
  CHECK_FALSE(is_planned(context, l.into(out), own_of({naive})));
}

TEST_CASE("tune ends when its body throws", "[matmul_context]") {
  LLMC_REQUIRE_GPU();
  const layer l({5, 6, 7}), next({6, 6, 7});
  matmul_context context;
  output out(l.outputs()), next_out(next.outputs());
  const stream s;
  CHECK_THROWS_AS(context.tune(s,
                               [&] {
                                 run_product(context, l.into(out), own_of({naive}), s);
                                 throw std::runtime_error("the body's own");
                               }),
                  std::runtime_error);
  CHECK(is_planned(context, l.into(out), own_of({naive}), naive));
  run_product(context, next.into(next_out), own_of({naive}), s);
  s.synchronize();
  CHECK_FALSE(is_planned(context, next.into(next_out), own_of({naive})));
  check_close("out", next_out.values(), next.expected, next.allowed());
}

// ---- plans in files ----

TEST_CASE("a context with loaded plans computes the same bits", "[matmul_context]") {
  LLMC_REQUIRE_GPU();
  const layer layers[] = {layer({256, 768, 320}), layer({33, 65, 129}), layer({64, 64, 64}, 1)};
  matmul_context tuned, loaded;
  const auto run_all = [&](matmul_context& context, std::vector<std::vector<float>>& results) {
    for (const layer& l : layers) {
      output out(l.outputs());
      run({&out}, [&](cudaStream_t s) { run_product(context, l.into(out), all_of({naive}), s); });
      results.push_back(out.values());
    }
  };
  for (const layer& l : layers) {
    output out(l.outputs());
    tune_product(tuned, l.into(out), all_of({naive}));
  }
  std::vector<std::vector<float>> wanted, got;
  run_all(tuned, wanted);
  load(loaded, saved(tuned));
  CHECK(saved(loaded) == saved(tuned));
  run_all(loaded, got);
  CHECK(same_bits(got, wanted));
  CHECK(saved(loaded) == saved(tuned));

  // Loaded plans are not tuned again.
  output out(layers[0].outputs());
  tune_product(loaded, layers[0].into(out), all_of({naive}));
  CHECK(saved(loaded) == saved(tuned));
}

TEST_CASE("plans that were not tuned are not saved", "[matmul_context]") {
  LLMC_REQUIRE_GPU();
  const layer l({5, 6, 7});
  matmul_context context;
  output out(l.outputs());
  const stream s;
  run_product(context, l.into(out), all_of({}), s);
  s.synchronize();
  const std::string text = saved(context);
  CHECK(text.substr(text.find('\n')) == "\nplans: 0\n");
}

TEST_CASE("a loaded plan is used from the next call on", "[matmul_context]") {
  LLMC_REQUIRE_GPU();
  const layer l({64, 96, 80});
  matmul_context tuned, loaded;
  output out(l.outputs());
  const product p = l.into(out);
  const candidates list = own_of({slow, naive});
  tune_product(tuned, p, list);
  REQUIRE(is_planned(tuned, p, list, naive));

  const stream s;
  const int calls_before = naive_calls;
  run_product(loaded, p, list, s);
  CHECK(naive_calls == calls_before);
  load(loaded, saved(tuned));
  CHECK(is_planned(loaded, p, list, naive));
  run_product(loaded, p, list, s);
  s.synchronize();
  CHECK(naive_calls == calls_before + 1);
  check_close("out", out.values(), l.expected, l.allowed());
}

TEST_CASE("a plan of a build with other kernels is kept and does not count", "[matmul_context]") {
  LLMC_REQUIRE_GPU();
  const layer l({5, 6, 7});
  matmul_context tuned, loaded;
  output out(l.outputs());
  const product p = l.into(out);
  tune_product(tuned, p, own_of({naive}));
  load(loaded, saved(tuned));
  const int calls_before = naive_calls;
  run({&out}, [&](cudaStream_t s) { run_product(loaded, p, own_of({slow}), s); });
  check_close("out", out.values(), l.expected, l.allowed());
  CHECK(naive_calls == calls_before);
  CHECK_FALSE(is_planned(loaded, p, own_of({slow})));
  CHECK(saved(loaded) == saved(tuned));
}

TEST_CASE("load_plans rejects plans of something else and changes nothing", "[matmul_context]") {
  LLMC_REQUIRE_GPU();
  const layer l({5, 6, 7}), another({6, 6, 7});
  matmul_context tuned, context;
  output out(l.outputs()), another_out(another.outputs());
  tune_product(tuned, l.into(out), all_of({}));
  tune_product(context, another.into(another_out), own_of({naive}));
  const std::string text = saved(tuned), before = saved(context);
  const std::string header = text.substr(0, text.find('\n'));

  const auto rejects = [&](const std::string& changed, const std::string& why) {
    REQUIRE(changed != text);
    std::string thrown;
    try {
      load(context, changed);
    } catch (const llmc::invalid_argument& e) {
      thrown = e.what();
    }
    INFO("'" << thrown << "' should begin with my.plans, line " << why);
    CHECK(begins_with(thrown, "llmc::matmul_context::load_plans: my.plans, line " + why));
    CHECK(saved(context) == before);
  };
  const auto with = [&](const std::string& part, const std::string& other) {
    std::string changed = text;
    const std::size_t at = changed.find(part);
    REQUIRE(at != std::string::npos);
    return changed.replace(at, part.size(), other);
  };
  cudaDeviceProp device{};
  check_cuda(cudaGetDeviceProperties(&device, 0));
  const std::string wanted = "1: wanted the line '" + header + "'";
  rejects(with("llmc ", "llmc 9"), wanted);
  rejects(with("plans 2,", "plans 1,"), wanted);
  rejects(with("cuBLASLt ", "cuBLASLt 9"), wanted);
  rejects(with(device.name, "Abacus"), wanted);
  rejects(with("sm_", "sm_9"), wanted);
  rejects(with("cublaslt ", "oracle "), "2: wanted numbers");
  rejects(with("plans: 1", "plans: 2"), "3: wanted 'plans: 1', got 'plans: 2'");
  rejects(text.substr(0, text.find("plans: ")), "3: wanted a plan or the number of plans");
  rejects(text.substr(0, text.size() / 2), "2: wanted numbers");
  rejects("", "1: wanted");
  load(context, text);
  CHECK(is_planned(context, l.into(out), all_of({}), kernel::cublaslt));
  CHECK(is_planned(context, another.into(another_out), own_of({naive}), naive));
}
