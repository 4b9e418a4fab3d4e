#include <llmc/reference/residual.hpp>
#include <llmc/residual.cuh>

#include <vector>

#include "support/compare.hpp"
#include "support/gpu.cuh"
#include "support/random.hpp"
#include "support/sizes.hpp"
#include "support/spoilt_arguments.hpp"

using namespace llmc_test;
using llmc::accumulation;
using llmc::residual_backward_variant;
using llmc::residual_forward_variant;

namespace {

/// Sums of two floats are rounded once, so the reference in float has the same bits.
constexpr tolerance exact{0, 0};

struct residual_case {
  std::int64_t count;
  std::vector<float> inp1, inp2, dout, out;

  explicit residual_case(std::int64_t n)
      : count(n),
        inp1(random_normal(n, 1)),
        inp2(random_normal(n, 2)),
        dout(random_normal(n, 3)),
        out(inp1.size()) {
    llmc::reference::residual_forward(out.data(), inp1.data(), inp2.data(), count);
  }

  /// What either input's gradient must be.
  std::vector<float> gradient(accumulation mode) const {
    std::vector<float> dinp1(out.size(), preset), dinp2(out.size(), preset);
    llmc::reference::residual_backward(dinp1.data(), dinp2.data(), dout.data(), count, mode);
    return dinp1;
  }
};

template <residual_forward_variant Variant, int BlockSize>
void check_forward(const residual_case& c, int misalignment) {
  INFO("count " << c.count << ", misalignment " << misalignment);
  const buffer<float> inp1(c.inp1, misalignment), inp2(c.inp2);
  output out(c.count, misalignment);
  run({&out}, [&](cudaStream_t s) {
    llmc::residual_forward<Variant, BlockSize>(out, inp1, inp2, c.count, s);
  });
  check_close("out", out.values(), c.out, exact);
}

template <residual_backward_variant Variant, int BlockSize>
void check_backward(const residual_case& c, accumulation mode, int misalignment) {
  INFO("count " << c.count << ", misalignment " << misalignment
                << (mode == accumulation::add ? ", add" : ", overwrite"));
  const buffer<float> dout(c.dout);
  output dinp1(c.count, mode, misalignment), dinp2(c.count, mode);
  run({&dinp1, &dinp2}, [&](cudaStream_t s) {
    llmc::residual_backward<Variant, BlockSize>(dinp1, dinp2, dout, c.count, mode, s);
  });
  check_close("dinp1", dinp1.values(), c.gradient(mode), exact);
  check_close("dinp2", dinp2.values(), c.gradient(mode), exact);
}

}  // namespace

TEMPLATE_TEST_CASE_SIG("residual_forward agrees with the reference", "[residual]",
                       ((residual_forward_variant Variant, int BlockSize), Variant, BlockSize),
                       (residual_forward_variant::automatic, 256),
                       (residual_forward_variant::element_per_thread, 32),
                       (residual_forward_variant::element_per_thread, 1024),
                       (residual_forward_variant::pack_per_thread, 32),
                       (residual_forward_variant::pack_per_thread, 96),
                       (residual_forward_variant::pack_per_thread, 1024),
                       (residual_forward_variant::packs_per_thread, 32),
                       (residual_forward_variant::packs_per_thread, 96),
                       (residual_forward_variant::packs_per_thread, 1024)) {
  LLMC_REQUIRE_GPU();
  for (const std::int64_t count : awkward_sizes) {
    const residual_case c(count);
    for (const int misalignment : {0, 1}) check_forward<Variant, BlockSize>(c, misalignment);
  }
  check_forward<Variant, BlockSize>(residual_case(100003), 0);
}

TEMPLATE_TEST_CASE_SIG("residual_backward agrees with the reference", "[residual]",
                       ((residual_backward_variant Variant, int BlockSize), Variant, BlockSize),
                       (residual_backward_variant::automatic, 256),
                       (residual_backward_variant::element_per_thread, 32),
                       (residual_backward_variant::element_per_thread, 1024),
                       (residual_backward_variant::pack_per_thread, 32),
                       (residual_backward_variant::pack_per_thread, 96),
                       (residual_backward_variant::pack_per_thread, 1024),
                       (residual_backward_variant::packs_per_thread, 32),
                       (residual_backward_variant::packs_per_thread, 96),
                       (residual_backward_variant::packs_per_thread, 1024)) {
  LLMC_REQUIRE_GPU();
  const accumulation mode = GENERATE(accumulation::overwrite, accumulation::add);
  for (const std::int64_t count : awkward_sizes) {
    const residual_case c(count);
    for (const int misalignment : {0, 1}) check_backward<Variant, BlockSize>(c, mode, misalignment);
  }
  check_backward<Variant, BlockSize>(residual_case(100003), mode, 0);
}

TEMPLATE_TEST_CASE_SIG("residual_forward may write over its inputs", "[residual]",
                       ((residual_forward_variant Variant), Variant),
                       residual_forward_variant::element_per_thread,
                       residual_forward_variant::pack_per_thread,
                       residual_forward_variant::packs_per_thread) {
  LLMC_REQUIRE_GPU();
  const residual_case c(1023);
  const buffer<float> inp1(c.inp1), inp2(c.inp2);
  output over_inp1(c.inp1), over_inp2(c.inp2), doubled(c.inp1);
  run({&over_inp1, &over_inp2, &doubled}, [&](cudaStream_t s) {
    llmc::residual_forward<Variant>(over_inp1, over_inp1, inp2, c.count, s);
    llmc::residual_forward<Variant>(over_inp2, inp1, over_inp2, c.count, s);
    llmc::residual_forward<Variant>(doubled, doubled, doubled, c.count, s);
  });
  check_close("out over inp1", over_inp1.values(), c.out, exact);
  check_close("out over inp2", over_inp2.values(), c.out, exact);
  std::vector<float> expected = c.inp1;
  for (float& x : expected) x *= 2;
  check_close("out over both", doubled.values(), expected, exact);
}

TEMPLATE_TEST_CASE_SIG("residual_backward may overwrite dout by either gradient", "[residual]",
                       ((residual_backward_variant Variant), Variant),
                       residual_backward_variant::element_per_thread,
                       residual_backward_variant::pack_per_thread,
                       residual_backward_variant::packs_per_thread) {
  LLMC_REQUIRE_GPU();
  const residual_case c(1023);
  const std::vector<float> expected = c.gradient(accumulation::overwrite);
  const bool first = GENERATE(true, false);
  output shared(c.dout), other(c.count);
  run({&shared, &other}, [&](cudaStream_t s) {
    llmc::residual_backward<Variant>(first ? shared : other, first ? other : shared, shared,
                                     c.count, accumulation::overwrite, s);
  });
  check_close("the gradient over dout", shared.values(), expected, exact);
  check_close("the other gradient", other.values(), expected, exact);
}

TEST_CASE("residual of nothing is nothing to do", "[residual]") {
  LLMC_REQUIRE_GPU();
  CHECK_NOTHROW(llmc::residual_forward(nullptr, nullptr, nullptr, 0, nullptr));
  CHECK_NOTHROW(
      llmc::residual_backward(nullptr, nullptr, nullptr, 0, accumulation::overwrite, nullptr));
}

TEST_CASE("residual refuses bad arguments", "[residual]") {
  check_refusals("llmc::residual_forward", llmc::residual_forward<>, array{"out"}, array{"inp1"},
                 array{"inp2"}, 5, nullptr);
  check_refusals("llmc::residual_backward", llmc::residual_backward<>, array{"dinp1"},
                 array{"dinp2"}, array{"dout"}, 5, accumulation::add, nullptr);
}
