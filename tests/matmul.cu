#include <llmc/matmul.cuh>
#include <llmc/reference/matmul.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "support/compare.hpp"
#include "support/gpu.cuh"
#include "support/product_case.cuh"
#include "support/random.hpp"
#include "support/sizes.hpp"
#include "support/spoilt_arguments.hpp"

using namespace llmc_test;
using llmc::accumulation;
using llmc::matmul_backward_variant;
using llmc::matmul_context;
using llmc::matmul_forward_variant;
using llmc::matmul_shape;
using llmc::precision;

namespace {

std::vector<float> filled(std::int64_t count, float value) {
  return std::vector<float>(static_cast<std::size_t>(count), value);
}

struct matmul_case {
  matmul_shape shape;
  std::vector<float> inp, weight, bias, dout;
  std::vector<double> out, dinp, dweight, dbias;

  explicit matmul_case(matmul_shape s) : shape(s) {
    inp = random_normal(s.rows * s.channels, 1);
    weight = random_normal(s.out_channels * s.channels, 2);
    bias = random_normal(s.out_channels, 3);
    dout = random_normal(s.rows * s.out_channels, 4);
    out.resize(dout.size());
    dinp.resize(inp.size());
    dweight.resize(weight.size());
    dbias.resize(bias.size());
    const std::vector<double> x = widen(inp), w = widen(weight), b = widen(bias), d = widen(dout);
    llmc::reference::matmul_forward(out.data(), x.data(), w.data(), b.data(), s);
    llmc::reference::matmul_backward(dinp.data(), dweight.data(), dbias.data(), d.data(), x.data(),
                                     w.data(), s, accumulation::overwrite);
  }
};

buffer<unsigned char> backward_workspace(matmul_shape shape) {
  return buffer<unsigned char>(
      static_cast<std::int64_t>(llmc::matmul_backward_workspace_bytes(shape)));
}

template <matmul_forward_variant Variant>
void check_forward(const matmul_case& c, precision arithmetic, matmul_context& context,
                   int misalignment) {
  INFO("rows " << c.shape.rows << ", C " << c.shape.channels << ", OC " << c.shape.out_channels
               << ", " << to_string(arithmetic) << ", misalignment " << misalignment);
  const buffer<float> inp(c.inp, misalignment), weight(c.weight, misalignment),
      bias(c.bias, misalignment);
  output out(c.shape.rows * c.shape.out_channels, misalignment);
  run({&out}, [&](cudaStream_t s) {
    llmc::matmul_forward<Variant>(out, inp, weight, bias, c.shape, arithmetic, context, s);
  });
  check_close("out", out.values(), c.out, product_tolerance(c.shape.channels, arithmetic));
}

template <matmul_backward_variant Variant, int BlockSize = 256>
void check_backward(const matmul_case& c, precision arithmetic, accumulation mode,
                    matmul_context& context, int misalignment) {
  INFO("rows " << c.shape.rows << ", C " << c.shape.channels << ", OC " << c.shape.out_channels
               << ", " << to_string(arithmetic) << ", misalignment " << misalignment
               << (mode == accumulation::add ? ", add" : ", overwrite"));
  const buffer<float> inp(c.inp, misalignment), weight(c.weight, misalignment),
      dout(c.dout, misalignment);
  const buffer<unsigned char> workspace = backward_workspace(c.shape);
  output dinp(c.shape.rows * c.shape.channels, misalignment);
  output dweight(c.shape.out_channels * c.shape.channels, mode, misalignment);
  output dbias(c.shape.out_channels, mode, misalignment);
  run({&dinp, &dweight, &dbias}, [&](cudaStream_t s) {
    llmc::matmul_backward<Variant, BlockSize>(dinp, dweight, dbias, scratch_in(workspace), dout,
                                              inp, weight, c.shape, arithmetic, mode, context, s);
  });
  CHECK(workspace.guards_intact());
  check_close("dinp", dinp.values(), c.dinp, product_tolerance(c.shape.out_channels, arithmetic));
  check_close("dweight", dweight.values(), expected_gradient(c.dweight, mode),
              product_tolerance(c.shape.rows, arithmetic));
  check_close("dbias", dbias.values(), expected_gradient(c.dbias, mode),
              sum_tolerance(c.shape.rows, 4.0));
}

}  // namespace

TEMPLATE_TEST_CASE_SIG("matmul_forward agrees with the reference", "[matmul]",
                       ((matmul_forward_variant Variant), Variant),
                       (matmul_forward_variant::automatic), (matmul_forward_variant::cublaslt),
                       (matmul_forward_variant::tensor_core)) {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const precision arithmetic = GENERATE(precision::ieee, precision::tf32, precision::tf32x3);
  if (Variant == matmul_forward_variant::tensor_core && arithmetic == precision::ieee) return;
  const std::vector<std::int64_t> sizes = sweep({1, 3, 33, 127, 129});
  for (const std::int64_t rows : sizes) {
    for (const std::int64_t channels : sizes) {
      for (const std::int64_t out_channels : sizes) {
        const matmul_case c({rows, channels, out_channels});
        check_forward<Variant>(c, arithmetic, context, static_cast<int>(rows % 4));
      }
    }
  }
  check_forward<Variant>(matmul_case({64, 768, 2304}), arithmetic, context, 0);
  check_forward<Variant>(matmul_case({100, 1600, 257}), arithmetic, context, 0);
}

TEMPLATE_TEST_CASE_SIG("matmul_backward agrees with the reference", "[matmul]",
                       ((matmul_backward_variant Variant, int BlockSize), Variant, BlockSize),
                       (matmul_backward_variant::automatic, 256),
                       (matmul_backward_variant::cublaslt, 64),
                       (matmul_backward_variant::cublaslt, 1024),
                       (matmul_backward_variant::tensor_core, 256)) {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const precision arithmetic = GENERATE(precision::ieee, precision::tf32, precision::tf32x3);
  if (Variant == matmul_backward_variant::tensor_core && arithmetic == precision::ieee) return;
  const accumulation mode = GENERATE(accumulation::overwrite, accumulation::add);
  const std::vector<std::int64_t> sizes = sweep({1, 3, 33, 127, 129});
  for (const std::int64_t rows : sizes) {
    for (const std::int64_t channels : sizes) {
      for (const std::int64_t out_channels : sizes) {
        const matmul_case c({rows, channels, out_channels});
        check_backward<Variant, BlockSize>(c, arithmetic, mode, context,
                                           static_cast<int>(rows % 4));
      }
    }
  }
  check_backward<Variant, BlockSize>(matmul_case({256, 768, 320}), arithmetic, mode, context, 0);
}

TEST_CASE("matmul of ones is exact", "[matmul]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const precision arithmetic = GENERATE(precision::ieee, precision::tf32, precision::tf32x3);
  const std::vector<std::int64_t> sizes = sweep({1, 3, 33, 127, 129});
  for (const std::int64_t rows : sizes) {
    for (const std::int64_t channels : sizes) {
      for (const std::int64_t out_channels : sizes) {
        const matmul_shape shape{rows, channels, out_channels};
        const buffer<float> inp(filled(rows * channels, 1)),
            weight(filled(out_channels * channels, 1)), bias(filled(out_channels, 0.25f)),
            dout(filled(rows * out_channels, 1));
        const buffer<unsigned char> workspace = backward_workspace(shape);
        output out(rows * out_channels), dinp(rows * channels), dweight(out_channels * channels),
            dbias(out_channels);
        run({&out, &dinp, &dweight, &dbias}, [&](cudaStream_t s) {
          llmc::matmul_forward(out, inp, weight, bias, shape, arithmetic, context, s);
          llmc::matmul_backward(dinp, dweight, dbias, scratch_in(workspace), dout, inp, weight,
                                shape, arithmetic, accumulation::overwrite, context, s);
        });
        const auto all = [](output& o, double value) {
          const std::vector<float> values = o.values();
          return std::all_of(values.begin(), values.end(), [&](float v) { return v == value; });
        };
        CHECK(all(out, static_cast<double>(channels) + 0.25));
        CHECK(all(dinp, static_cast<double>(out_channels)));
        CHECK(all(dweight, static_cast<double>(rows)));
        CHECK(all(dbias, static_cast<double>(rows)));
      }
    }
  }
}

TEST_CASE("matmul_forward without a bias, and without input channels", "[matmul]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const matmul_case c({5, 7, 3});
  const buffer<float> inp(c.inp), weight(c.weight), bias(c.bias);
  output plain(15), bias_alone(15), zero(15);
  run({&plain, &bias_alone, &zero}, [&](cudaStream_t s) {
    llmc::matmul_forward(plain, inp, weight, nullptr, c.shape, precision::ieee, context, s);
    llmc::matmul_forward(bias_alone, nullptr, nullptr, bias, {5, 0, 3}, precision::ieee, context,
                         s);
    llmc::matmul_forward(zero, nullptr, nullptr, nullptr, {5, 0, 3}, precision::ieee, context, s);
  });
  std::vector<double> without = c.out, biases(15);
  for (std::size_t i = 0; i < 15; ++i) {
    without[i] -= c.bias[i % 3];
    biases[i] = c.bias[i % 3];
  }
  check_close("no bias", plain.values(), without, product_tolerance(7, precision::ieee));
  check_close("no channels", bias_alone.values(), biases, {0, 0});
  check_close("nothing", zero.values(), std::vector<double>(15, 0.0), {0, 0});
}

TEST_CASE("matmul_backward leaves out what is null, and sums over no rows are zero", "[matmul]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const matmul_case c({5, 7, 3});
  const buffer<float> inp(c.inp), weight(c.weight), dout(c.dout);
  output dinp(35), dweight(21), none_dweight(21), none_dbias(3);
  run({&dinp, &dweight, &none_dweight, &none_dbias}, [&](cudaStream_t s) {
    llmc::matmul_backward(dinp, nullptr, nullptr, {}, dout, nullptr, weight, c.shape,
                          precision::ieee, accumulation::overwrite, context, s);
    llmc::matmul_backward(nullptr, dweight, nullptr, {}, dout, inp, nullptr, c.shape,
                          precision::ieee, accumulation::overwrite, context, s);
    llmc::matmul_backward(nullptr, none_dweight, none_dbias, {}, nullptr, nullptr, nullptr,
                          {0, 7, 3}, precision::ieee, accumulation::overwrite, context, s);
  });
  check_close("dinp", dinp.values(), c.dinp, product_tolerance(3, precision::ieee));
  check_close("dweight", dweight.values(), c.dweight, product_tolerance(5, precision::ieee));
  check_close("dweight of no rows", none_dweight.values(), std::vector<double>(21, 0.0), {0, 0});
  check_close("dbias of no rows", none_dbias.values(), std::vector<double>(3, 0.0), {0, 0});
}

TEST_CASE("matmul_backward sums bias gradients exactly where they are exact", "[matmul]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const accumulation mode = GENERATE(accumulation::overwrite, accumulation::add);
  for (const std::int64_t out_channels : {1, 7, 33, 50257}) {
    for (const std::int64_t rows : {1, 31, 33, 1025}) {
      const matmul_shape shape{rows, 0, out_channels};
      std::vector<float> values(static_cast<std::size_t>(rows * out_channels));
      std::vector<double> wanted(static_cast<std::size_t>(out_channels));
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(i % wanted.size() + 1);
      }
      for (std::size_t o = 0; o < wanted.size(); ++o) {
        wanted[o] = static_cast<double>(rows) * static_cast<double>(o + 1);
      }
      const buffer<float> dout(values);
      const buffer<unsigned char> workspace = backward_workspace(shape);
      output dbias(out_channels, mode);
      run({&dbias}, [&](cudaStream_t s) {
        llmc::matmul_backward(nullptr, nullptr, dbias, scratch_in(workspace), dout, nullptr,
                              nullptr, shape, precision::ieee, mode, context, s);
      });
      // Sums past 2^24 are rounded.
      check_close("dbias", dbias.values(), expected_gradient(wanted, mode), {0, 3e-7});
    }
  }
}

TEST_CASE("two contexts serve two streams at once", "[matmul]") {
  LLMC_REQUIRE_GPU();
  const matmul_case c({512, 768, 768});
  const buffer<float> inp(c.inp), weight(c.weight), bias(c.bias);
  matmul_context contexts[2];
  const stream streams[2];
  std::unique_ptr<buffer<float>> outs[2];
  for (auto& out : outs) out = std::make_unique<buffer<float>>(512 * 768);
  for (int repeat = 0; repeat < 20; ++repeat) {
    for (int i = 0; i < 2; ++i) {
      llmc::matmul_forward(outs[i]->get(), inp, weight, bias, c.shape, precision::ieee, contexts[i],
                           streams[i]);
    }
  }
  for (int i = 0; i < 2; ++i) {
    streams[i].synchronize();
    check_close("out", outs[i]->values(), c.out, product_tolerance(768, precision::ieee));
  }
}

TEST_CASE("matmul refuses what it cannot do", "[matmul]") {
  CHECK_THROWS_WITH(llmc::matmul_backward_workspace_bytes({-1, 2, 3}),
                    "llmc::matmul_backward_workspace_bytes: rows must be at least 0, got -1");
  CHECK_THROWS_WITH(
      llmc::matmul_backward_workspace_bytes({1, 2, 0}),
      "llmc::matmul_backward_workspace_bytes: out_channels must be at least 1, got 0");
  CHECK_THROWS_AS(llmc::matmul_backward_workspace_bytes({std::int64_t{1} << 40, 1, 1 << 30}),
                  llmc::invalid_argument);
}

TEST_CASE("matmul takes no bad argument", "[matmul]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  constexpr matmul_shape shape{2, 3, 4};
  check_refusals("llmc::matmul_forward", llmc::matmul_forward<>, array{"out"}, array{"inp"},
                 array{"weight"}, optional_array{}, shape, precision::ieee, std::ref(context),
                 nullptr);
  check_refusals("llmc::matmul_residual_forward", llmc::matmul_residual_forward<>, array{"out"},
                 array{"residual"}, array{"inp"}, array{"weight"}, optional_array{}, shape,
                 precision::ieee, std::ref(context), nullptr);
  check_refusals("llmc::matmul_backward", llmc::matmul_backward<>, optional_array{},
                 optional_array{}, optional_array{},
                 needed_scratch{llmc::matmul_backward_workspace_bytes(shape)}, array{"dout"},
                 array{"inp"}, array{"weight"}, shape, precision::ieee, accumulation::overwrite,
                 std::ref(context), nullptr);
}

TEST_CASE("matmul takes more than 2^31 elements", "[matmul][large]") {
  LLMC_REQUIRE_GPU();
  const matmul_shape shape{45000, 1, 50304};
  const std::size_t bytes = sizeof(float) * 45000 * 50304;
  std::size_t free_bytes = 0, total_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes));
  if (free_bytes < bytes + (std::size_t{1} << 30)) LLMC_SKIP("needs 10 GB of GPU memory");

  float* memory = nullptr;
  check_cuda(cudaMalloc(&memory, bytes));
  const std::unique_ptr<float, cudaError_t (*)(void*)> big(memory, cudaFree);
  const stream s;
  matmul_context context;
  std::vector<float> rows(45000);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i);
  const buffer<float> inp(rows), weight(filled(50304, 1)), bias(filled(50304, 0.25f));
  llmc::matmul_forward(big.get(), inp, weight, bias, shape, precision::ieee, context, s);
  s.synchronize();
  for (const std::int64_t row : {0, 42000, 44999}) {
    std::vector<float> values(50304);
    check_cuda(cudaMemcpy(values.data(), big.get() + row * 50304, values.size() * sizeof(float),
                          cudaMemcpyDeviceToHost));
    check_close("row", values, std::vector<double>(50304, static_cast<double>(row) + 0.25), {0, 0});
  }

  output dinp(45000), dweight(50304), dbias(50304);
  const buffer<unsigned char> workspace = backward_workspace(shape);
  llmc::matmul_backward(dinp, dweight, dbias, scratch_in(workspace), big.get(), inp, weight, shape,
                        precision::ieee, accumulation::overwrite, context, s);
  s.synchronize();
  const double sum_rows = 44999.0 * 45000 / 2, sum_squares = 44999.0 * 45000 * 89999 / 6;
  check_close("dbias", dbias.values(), std::vector<double>(50304, sum_rows + 0.25 * 45000),
              {0, 1e-5});
  check_close("dweight", dweight.values(),
              std::vector<double>(50304, sum_squares + 0.25 * sum_rows), {0, 1e-4});
}
