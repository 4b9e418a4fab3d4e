#include "../docs/rms_norm.cuh"

#include <cmath>
#include <vector>

#include "support/compare.hpp"
#include "support/gpu.cuh"
#include "support/random.hpp"

using namespace llmc_test;

namespace {

constexpr float epsilon = 1e-5f;

/// The formulas, in double.
struct rms_norm_case {
  std::int64_t rows, channels;
  std::vector<float> inp, weight, dout;
  std::vector<double> out, scale, dinp, dweight;

  rms_norm_case(std::int64_t r, std::int64_t c)
      : rows(r),
        channels(c),
        inp(random_normal(r * c, 1)),
        weight(random_normal(c, 2)),
        dout(random_normal(r * c, 3)),
        out(inp.size()),
        scale(static_cast<std::size_t>(r)),
        dinp(inp.size()),
        dweight(weight.size()) {
    const auto n = static_cast<std::size_t>(c);
    for (std::size_t row = 0; row < scale.size(); ++row) {
      const float* const x = inp.data() + row * n;
      const float* const d = dout.data() + row * n;
      double squares = 0, sum = 0;
      for (std::size_t i = 0; i < n; ++i) squares += double{x[i]} * x[i];
      const double s = 1 / std::sqrt(squares / static_cast<double>(n) + double{epsilon});
      for (std::size_t i = 0; i < n; ++i) sum += double{d[i]} * weight[i] * x[i] * s;
      for (std::size_t i = 0; i < n; ++i) {
        const double norm = x[i] * s;
        out[row * n + i] = norm * weight[i];
        dinp[row * n + i] = s * (double{d[i]} * weight[i] - norm * sum / static_cast<double>(n));
        dweight[i] += d[i] * norm;
      }
      scale[row] = s;
    }
  }

  /// Of a number that is multiplied by a row's scale, which is large where the row is short.
  tolerance row_tolerance() const {
    double largest = 1;
    for (const double s : scale) largest = std::max(largest, s);
    return sum_tolerance(channels, 16 * largest);
  }
};

template <bool ByWarps>
void check(const rms_norm_case& c) {
  INFO("rows " << c.rows << ", channels " << c.channels << (ByWarps ? ", warps" : ", blocks"));
  const auto blocks = static_cast<unsigned>(c.rows);
  const int channels = static_cast<int>(c.channels);
  const buffer<float> inp(c.inp), weight(c.weight), dout(c.dout);
  output out(c.rows * c.channels), scale(c.rows), dinp(c.rows * c.channels), dweight(c.channels);
  const rms_norm layer{weight, channels, epsilon};
  run({&out, &scale, &dinp, &dweight}, [&](cudaStream_t s) {
    rms_norm_forward<ByWarps><<<blocks, 256, 0, s>>>(out, scale, inp, c.rows, layer);
    rms_norm_backward<ByWarps><<<blocks, 256, 0, s>>>(dinp, dout, inp, scale, c.rows, layer);
    rms_norm_dweight<256><<<static_cast<unsigned>((channels + 31) / 32), 256, 0, s>>>(
        dweight, dout, inp, scale, c.rows, channels);
    check_cuda(cudaGetLastError());
  });
  check_close("out", out.values(), c.out, c.row_tolerance());
  check_close("scale", scale.values(), c.scale, {0, 1e-5});
  check_close("dinp", dinp.values(), c.dinp, c.row_tolerance());
  check_close("dweight", dweight.values(), c.dweight, sum_tolerance(c.rows, 16));
}

}  // namespace

TEST_CASE("A row layer of one's own agrees with its formula", "[own_layer]") {
  LLMC_REQUIRE_GPU();
  for (const std::int64_t rows : {1, 7, 300}) {
    for (const std::int64_t channels : {1, 4, 31, 128, 768, 1000, 1023, 1024, 1025, 4100}) {
      const rms_norm_case c(rows, channels);
      check<false>(c);
      if (rms_norm_by_warps(static_cast<int>(channels))) check<true>(c);
    }
  }
}
