#include <llmc/attention.cuh>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "support/flash_case.cuh"

using namespace llmc_test;
using llmc::accumulation;
using llmc::matmul_context;
using forward_variant = llmc::attention_forward_variant;
using backward_variant = llmc::attention_backward_variant;

attention_result llmc_test::run_flash(const attention_case& c, precision arithmetic,
                                      int misalignment) {
  return run_attention<forward_variant::flash, backward_variant::flash>(c, arithmetic,
                                                                        misalignment);
}

namespace {

/// One launch of each direction, and nothing else on the GPU.
attention_result launch_flash(const attention_case& c, precision arithmetic, int misalignment) {
  const auto like = [&](const std::vector<double>& values) {
    return buffer<float>(static_cast<std::int64_t>(values.size()), misalignment);
  };
  const buffer<float> qkv(c.qkv, misalignment), dout(c.dout, misalignment),
      out = like(c.out), lse = like(c.lse), dqkv = like(c.dqkv);
  const scratch_buffer scratch(llmc::attention_backward_workspace_bytes(c.shape));
  check_cuda(cudaDeviceSynchronize());
  const stream s;
  llmc::attention_forward<forward_variant::flash>(out, lse, qkv, c.shape, arithmetic, s);
  llmc::attention_backward<backward_variant::flash>(
      dqkv, nullptr, scratch, dout, qkv, out, lse, c.shape, arithmetic, accumulation::overwrite, s);
  s.synchronize();
  return {out.values(), lse.values(), dqkv.values()};
}

}  // namespace

// Small enough for racecheck. 130 positions are at least two blocks of queries or keys, the longest
// of at least three tiles, so that memory of a tile before is written again.
TEST_CASE("every kernel of flash attention takes a few tiles", "[attention]") {
  LLMC_REQUIRE_GPU();
  struct {
    std::int64_t head_size;
    int misalignment;
  } const rows[] = {{17, 0}, {60, 0}, {64, 0}, {64, 1}, {80, 0}, {96, 0}, {128, 0}};
  for (const auto& row : rows) {
    const attention_case c({1, 130, 1, row.head_size});
    for (const precision arithmetic : llmc::precisions) {
      INFO(describe(c, arithmetic, row.misalignment));
      check_result(c, launch_flash(c, arithmetic, row.misalignment),
                   (few_numbers(c.shape) ? 20 : 1.5) * allowed_error(arithmetic));
    }
  }
}

// A GPU with more shared memory never chooses these tiles by itself.
TEST_CASE("the FP32 kernels for 64 KiB of shared memory agree with the reference", "[attention]") {
  LLMC_REQUIRE_GPU();
  const auto check = [](auto tiles, std::int64_t head_size, int misalignment) {
    using Tiles = decltype(tiles);
    static_assert(Tiles::shared_bytes(2) <= 64 * 1024);
    const attention_case c({2, 130, 3, head_size});
    const buffer<float> qkv(c.qkv, misalignment), dout(c.dout, misalignment);
    const auto rows = static_cast<std::int64_t>(c.lse.size());
    const std::int64_t count = rows * head_size;
    output out(count, misalignment), lse(rows), dqkv(3 * count, misalignment), delta(rows);
    run({&out, &lse, &dqkv, &delta}, [&](cudaStream_t s) {
      const llmc::detail::flash_attention<> flash("test", c.shape, precision::ieee, s);
      flash.forward_fma<Tiles>({out, lse, qkv});
      flash.backward_fma<Tiles>({dqkv, dout, qkv, out, lse, delta});
    });
    INFO(describe(c, precision::ieee, misalignment));
    check_result(c, {out.values(), lse.values(), dqkv.values()},
                 (few_numbers(c.shape) ? 20 : 1.5) * allowed_error(precision::ieee));
  };
  for (const int misalignment : {0, 1}) {
    check(llmc::detail::flash_fma_tiles<32>::of_64_kib{}, 17, misalignment);
    check(llmc::detail::flash_fma_tiles<64>::of_64_kib{}, 64, misalignment);
    check(llmc::detail::flash_fma_tiles<96>::of_64_kib{}, 96, misalignment);
    check(llmc::detail::flash_fma_tiles<128>::of_64_kib{}, 128, misalignment);
  }
}

TEST_CASE("flash attention passes over scores that are -infinity", "[attention]") {
  LLMC_REQUIRE_GPU();
  // The first 70 keys, more than a whole tile, have no weight at all: the others share it equally.
  constexpr std::size_t T = 200, hidden = 70;
  const attention_shape shape{1, T, 1, 4};
  std::vector<float> qkv(T * 12, 1.0f);
  for (std::size_t t = 0; t < hidden; ++t) {
    for (std::size_t d = 4; d < 8; ++d) qkv[t * 12 + d] = -std::numeric_limits<float>::infinity();
  }
  for (std::size_t t = 0; t < T; ++t) qkv[t * 12 + 8] = static_cast<float>(t);
  // tf32x3 splits an infinity into infinity - infinity.
  for (const precision arithmetic : {precision::ieee, precision::tf32}) {
    INFO(to_string(arithmetic));
    const buffer<float> inp(qkv);
    output out(T * 4), lse(T);
    run({&out, &lse}, [&](cudaStream_t s) {
      llmc::attention_forward<forward_variant::flash>(out, lse, inp, shape, arithmetic, s);
    });
    const std::vector<float> mean = out.values(), log_sum = lse.values();
    for (std::size_t t = 0; t < T; ++t) {
      if (t < hidden) {
        CHECK(std::isnan(mean[t * 4]));
        CHECK(log_sum[t] == -std::numeric_limits<float>::infinity());
      } else {
        const double expected = static_cast<double>(hidden + t) / 2;
        CHECK(std::fabs(mean[t * 4] - expected) <= 1e-3 * expected);
        CHECK(std::isfinite(log_sum[t]));
      }
    }
  }
}

TEST_CASE("what is not finite reaches no earlier tile of flash attention", "[attention]") {
  LLMC_REQUIRE_GPU();
  constexpr std::size_t spoilt = 200, tile = 192;  // the last multiple of 64
  const attention_case clean({1, 257, 2, 64});
  const auto out_until = [](const attention_result& r, std::size_t position) {
    return std::vector<float>(r.out.begin(),
                              r.out.begin() + static_cast<std::ptrdiff_t>(position * 128));
  };
  for (const precision arithmetic : llmc::precisions) {
    INFO(to_string(arithmetic));
    const attention_result expected = run_flash(clean, arithmetic);
    for (const int which : {1, 2}) {  // a key, then a value
      attention_case c = clean;
      for (std::size_t i = 0; i < 128; ++i) {
        c.qkv[(spoilt * 3 + static_cast<std::size_t>(which)) * 128 + i] =
            std::numeric_limits<float>::quiet_NaN();
      }
      const attention_result result = run_flash(c, arithmetic);
      const std::size_t kept = which == 1 ? spoilt : tile;
      CHECK(out_until(result, kept) == out_until(expected, kept));
      CHECK(std::isnan(result.out[spoilt * 128]));
    }
  }
}

TEST_CASE("flash attention gives the same bits a hundred times", "[attention]") {
  LLMC_REQUIRE_GPU();
  const attention_case c({2, 300, 3, 64});
  const stream s;
  const buffer<float> qkv(c.qkv), dout(c.dout);
  const scratch_buffer scratch(llmc::attention_backward_workspace_bytes(c.shape));
  for (const precision arithmetic : llmc::precisions) {
    INFO(to_string(arithmetic));
    output out(static_cast<std::int64_t>(c.out.size())), lse(2 * 3 * 300),
        dqkv(static_cast<std::int64_t>(c.dqkv.size())), dqkv_bias(3 * 3 * 64);
    std::vector<std::vector<float>> first;
    int different = 0;
    for (int repeat = 0; repeat < 100; ++repeat) {
      for (output* o : {&out, &lse, &dqkv, &dqkv_bias}) o->reset();
      check_cuda(cudaDeviceSynchronize());
      llmc::attention_forward<forward_variant::flash>(out, lse, qkv, c.shape, arithmetic, s);
      llmc::attention_backward<backward_variant::flash>(dqkv, dqkv_bias, scratch, dout, qkv, out,
                                                        lse, c.shape, arithmetic,
                                                        accumulation::overwrite, s);
      s.synchronize();
      const auto bits = snapshot({&out, &lse, &dqkv, &dqkv_bias});
      if (repeat == 0) first = bits;
      different += same_bits(first, bits) ? 0 : 1;
    }
    CHECK(different == 0);
  }
}

TEST_CASE("the variants of attention agree", "[attention]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  for (const std::int64_t HS : {33, 64, 128}) {
    const attention_case c({2, 129, 3, HS});
    const attention_result materialised =
        run_attention<forward_variant::materialised, backward_variant::materialised>(
            c, precision::ieee, 0, context);
    for (const precision arithmetic : llmc::precisions) {
      INFO(describe(c, arithmetic));
      const attention_result flash = run_flash(c, arithmetic);
      const attention_result automatic =
          run_attention<forward_variant::automatic, backward_variant::automatic>(c, arithmetic, 0);
      const attention_result with_context =
          run_attention<forward_variant::automatic, backward_variant::automatic>(c, arithmetic, 0,
                                                                                 context);
      const double allowed = 2 * allowed_error(arithmetic);
      check_error("out", flash.out, widen(materialised.out), allowed);
      check_error("dqkv", flash.dqkv, widen(materialised.dqkv), allowed);
      for (const attention_result& other : {automatic, with_context}) {
        CHECK(same_bits({other.out, other.lse, other.dqkv}, {flash.out, flash.lse, flash.dqkv}));
      }
    }
  }
}

TEST_CASE("automatic attention takes heads that flash does not", "[attention]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const attention_case c({2, 65, 2, 160});
  const attention_result by_products =
      run_attention<forward_variant::automatic, backward_variant::automatic>(c, precision::ieee, 0,
                                                                             context);
  check_result(c, by_products, allowed_error(precision::ieee));
  const attention_result without =
      run_attention<forward_variant::automatic, backward_variant::automatic>(c, precision::ieee, 0);
  const attention_result naive =
      run_attention<forward_variant::naive, backward_variant::naive>(c, precision::ieee, 0);
  CHECK(same_bits({without.out, without.lse, without.dqkv}, {naive.out, naive.lse, naive.dqkv}));
}

TEST_CASE("flash attention refuses heads that it does not take", "[attention]") {
  const attention_shape shape{2, 65, 2, 160};
  float some[1];
  CHECK_THROWS_AS(llmc::attention_forward<forward_variant::flash>(some, some, some, shape,
                                                                  precision::ieee, nullptr),
                  llmc::unsupported);
  CHECK_THROWS_AS(llmc::attention_backward<backward_variant::flash>(
                      some, nullptr, {}, some, some, some, some, shape, precision::ieee,
                      accumulation::overwrite, nullptr),
                  llmc::unsupported);
}

TEST_CASE("attention over nothing does nothing", "[attention]") {
  LLMC_REQUIRE_GPU();
  const stream s;
  llmc::attention_forward(nullptr, nullptr, nullptr, {0, 5, 2, 4}, precision::ieee, s);
  llmc::attention_backward(nullptr, nullptr, {}, nullptr, nullptr, nullptr, nullptr, {3, 0, 2, 4},
                           precision::ieee, accumulation::overwrite, s);
  s.synchronize();
  CHECK(cudaGetLastError() == cudaSuccess);

  const accumulation mode = GENERATE(accumulation::overwrite, accumulation::add);
  output dqkv_bias(24, mode);
  run({&dqkv_bias}, [&](cudaStream_t t) {
    llmc::attention_backward(nullptr, dqkv_bias, {}, nullptr, nullptr, nullptr, nullptr,
                             {3, 0, 2, 4}, precision::ieee, mode, t);
  });
  check_close("dqkv_bias", dqkv_bias.values(), expected_gradient(std::vector<double>(24), mode),
              {0, 0});
}

TEST_CASE("flash attention takes more than 2^31 elements", "[attention][large]") {
  LLMC_REQUIRE_GPU();
  const attention_shape shape{920, 1024, 12, 64};
  const attention_shape one{1, 1024, 12, 64};
  const std::size_t vectors = std::size_t{1024} * 12 * 64;  // of one batch entry
  const std::size_t scratch_bytes = llmc::attention_backward_workspace_bytes(shape);
  const std::size_t floats = 920 * (8 * vectors + 1024 * 12) + scratch_bytes / 4;
  std::size_t free_bytes = 0, total_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes));
  if (free_bytes < 4 * floats + (std::size_t{2} << 30)) LLMC_SKIP("needs 26 GB of GPU memory");

  float* memory = nullptr;
  check_cuda(cudaMalloc(&memory, 4 * floats));
  const std::unique_ptr<float, cudaError_t (*)(void*)> owner(memory, cudaFree);
  check_cuda(cudaMemset(memory, 0, 4 * floats));
  float* const qkv = memory;
  float* const dqkv = qkv + 920 * 3 * vectors;
  float* const out = dqkv + 920 * 3 * vectors;
  float* const dout = out + 920 * vectors;
  float* const lse = dout + 920 * vectors;
  const llmc::workspace scratch{lse + 920 * 1024 * 12, scratch_bytes};

  // The last batch entry must come out as it does alone.
  const buffer<float> one_qkv(random_normal(static_cast<std::int64_t>(3 * vectors), 1)),
      one_dout(random_normal(static_cast<std::int64_t>(vectors), 2)),
      one_out(static_cast<std::int64_t>(vectors)), one_lse(1024 * 12),
      one_dqkv(static_cast<std::int64_t>(3 * vectors));
  const scratch_buffer one_scratch(llmc::attention_backward_workspace_bytes(one));
  check_cuda(
      cudaMemcpy(qkv + 919 * 3 * vectors, one_qkv.get(), 12 * vectors, cudaMemcpyDeviceToDevice));
  check_cuda(
      cudaMemcpy(dout + 919 * vectors, one_dout.get(), 4 * vectors, cudaMemcpyDeviceToDevice));
  check_cuda(cudaDeviceSynchronize());
  const stream s;
  for (const precision arithmetic : {precision::ieee, precision::tf32}) {
    INFO(to_string(arithmetic));
    llmc::attention_forward(out, lse, qkv, shape, arithmetic, s);
    llmc::attention_backward(dqkv, nullptr, scratch, dout, qkv, out, lse, shape, arithmetic,
                             accumulation::overwrite, s);
    llmc::attention_forward(one_out, one_lse, one_qkv, one, arithmetic, s);
    llmc::attention_backward(one_dqkv, nullptr, one_scratch, one_dout, one_qkv, one_out, one_lse,
                             one, arithmetic, accumulation::overwrite, s);
    s.synchronize();
    std::vector<float> last_out(vectors), last_dqkv(3 * vectors);
    check_cuda(
        cudaMemcpy(last_out.data(), out + 919 * vectors, 4 * vectors, cudaMemcpyDeviceToHost));
    check_cuda(cudaMemcpy(last_dqkv.data(), dqkv + 919 * 3 * vectors, 12 * vectors,
                          cudaMemcpyDeviceToHost));
    CHECK(same_bits({last_out, last_dqkv}, {one_out.values(), one_dqkv.values()}));
  }
}
