#include <llmc/detail/matmul/kernel_presence.hpp>
#include <llmc/matmul_context.hpp>
#include <llmc/reference/matmul.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/compare.hpp"
#include "support/gpu.cuh"
#include "support/random.hpp"

using namespace llmc_test;
namespace products = llmc::products;
using llmc::matmul_context;
using llmc::matmul_shape;
using products::candidates;
using products::engines;
using products::kernel;
using products::layout;
using products::plan;
using products::product;

namespace {

// ---- kernels that stand for llmc's own ----

__device__ float element(const products::operand& m, std::int64_t outer, std::int64_t k) {
  return m.order == layout::inner_first ? m.data[outer * m.stride + k]
                                        : m.data[k * m.stride + outer];
}

constexpr int block_size = 128;

__global__ void __launch_bounds__(block_size) naive_kernel(product p) {
  const std::int64_t first = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = first; i < p.rows * p.columns; i += step) {
    const std::int64_t row = i / p.columns, column = i % p.columns;
    float sum = p.then.bias == nullptr ? 0.0f : p.then.bias[column];
    for (std::int64_t k = 0; k < p.inner; ++k) {
      sum += element(p.inp1, row, k) * element(p.inp2, column, k);
    }
    const std::int64_t at = row * p.out.stride + column;
    p.out.data[at] = p.then.residual == nullptr ? sum : sum + p.then.residual[at];
  }
}

__global__ void add_bias_kernel(product p) {
  for (std::int64_t i = threadIdx.x; i < p.rows * p.columns; i += blockDim.x) {
    const std::int64_t row = i / p.columns, column = i % p.columns;
    p.out.data[row * p.out.stride + column] += p.then.bias[column];
  }
}

int naive_calls = 0;

// These names of kernels stand for what call() does.
constexpr kernel naive = kernel::mma;
constexpr kernel slow = kernel::wgmma_split;               ///< one warp: slower than anything
constexpr kernel nothing = kernel::wgmma_split_cut;        ///< faster than anything
constexpr kernel failing = kernel::wgmma_split_large_cut;  ///< throws
constexpr kernel composed = kernel::late_epilogue;         ///< runs a product of its own

void call(const product& p, const plan& plan, matmul_context& context, cudaStream_t stream) {
  switch (plan.choice.by) {
    case kernel::cublaslt: context.run_library("test", p, plan, stream); break;
    case naive:
      ++naive_calls;
      naive_kernel<<<16, block_size, 0, stream>>>(p);
      break;
    case slow: naive_kernel<<<1, 32, 0, stream>>>(p); break;
    case failing: throw llmc::unsupported("test: the kernel that always fails");
    case composed: {
      product plain = p;
      plain.then.bias = nullptr;
      context.multiply("test", plain, stream);
      add_bias_kernel<<<1, block_size, 0, stream>>>(p);
      break;
    }
    case nothing:
    case kernel::wgmma_direct: break;
  }
}

/// These alone, of which the first is preferred.
candidates own_of(std::initializer_list<kernel> kernels) {
  candidates among(engines::any);
  for (const kernel who : kernels) among.add(who);
  return among;
}

/// These and cuBLASLt, which is preferred.
candidates all_of(std::initializer_list<kernel> kernels) {
  candidates among(engines::any);
  among.add(kernel::cublaslt);
  for (const kernel who : kernels) among.add(who);
  return among;
}

// ---- a product to run ----

/// A linear layer's arrays, and what comes out.
struct layer {
  matmul_shape shape;
  std::vector<float> inp_values, weight_values, bias_values;
  buffer<float> inp, weight, bias;
  std::vector<double> expected;

  explicit layer(matmul_shape s, int misalignment = 0)
      : shape(s),
        inp_values(random_normal(s.rows * s.channels, 1)),
        weight_values(random_normal(s.out_channels * s.channels, 2)),
        bias_values(random_normal(s.out_channels, 3)),
        inp(inp_values, misalignment),
        weight(weight_values, misalignment),
        bias(bias_values, misalignment),
        expected(static_cast<std::size_t>(outputs())) {
    const std::vector<double> x = widen(inp_values), w = widen(weight_values),
                              b = widen(bias_values);
    llmc::reference::matmul_forward(expected.data(), x.data(), w.data(), b.data(), s);
  }

  std::int64_t outputs() const { return shape.rows * shape.out_channels; }
  tolerance allowed() const { return sum_tolerance(shape.channels, 4.0); }

  product into(float* out) const {
    const std::int64_t C = shape.channels, OC = shape.out_channels;
    product p{{out, OC}, {inp, C}, {weight, C}, shape.rows, OC, C};
    p.then.bias = bias;
    return p;
  }
};

/// Runs a product as its plan says, or as `list` does where there is none.
void run_product(matmul_context& context, const product& p, const candidates& list,
                 cudaStream_t stream) {
  context.run("test", p, list, stream,
              [&](const product& q, const plan& planned) { call(q, planned, context, stream); });
}

/// Finds the plan and leaves the product's outputs as one call does.
void tune_product(matmul_context& context, const product& p, const candidates& list) {
  const stream s;
  check_cuda(cudaDeviceSynchronize());  // for what the default stream fills outputs with
  context.tune(s, [&] { run_product(context, p, list, s); });
}

/// Whether tuning or a file says that this kernel computes a product.
bool is_planned(const matmul_context& context, const product& p, const candidates& among,
                kernel who) {
  const kernel* fixed = context.plans().fixed_kernel(p, among);
  return fixed != nullptr && *fixed == who;
}
bool is_planned(const matmul_context& context, const product& p, const candidates& among) {
  return context.plans().fixed_kernel(p, among) != nullptr;
}

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
