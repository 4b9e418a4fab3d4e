#include <llmc/causal_product.cuh>
#include <llmc/reference/causal_product.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/compare.hpp"
#include "support/gpu.cuh"
#include "support/random.hpp"
#include "support/refusal.hpp"
#include "support/sizes.hpp"
#include "support/spoilt_arguments.hpp"

using namespace llmc_test;
using llmc::attention_shape;
using llmc::causal_product_variant;
using llmc::matmul_context;

namespace {

std::int64_t scores_of(attention_shape s) {
  return s.batch * s.heads * s.sequence * s.sequence;
}

std::int64_t vectors_of(attention_shape s) {
  return s.batch * s.heads * s.sequence * s.head_size;
}

std::vector<double> expected_scores(const std::vector<float>& q, const std::vector<float>& k,
                                    attention_shape shape) {
  std::vector<double> out(static_cast<std::size_t>(scores_of(shape)));
  llmc::reference::causal_product(out.data(), widen(q).data(), widen(k).data(), shape);
  return out;
}

/// Every score, the zeros above the diagonal too: the output is NaN before.
template <causal_product_variant Variant, int BlockSize>
void check_product(attention_shape shape, matmul_context& context, int misalignment = 0) {
  INFO("B " << shape.batch << ", T " << shape.sequence << ", NH " << shape.heads << ", HS "
            << shape.head_size << ", misalignment " << misalignment);
  const std::vector<float> queries = random_normal(vectors_of(shape), 1);
  const std::vector<float> keys = random_normal(vectors_of(shape), 2);
  const buffer<float> q(queries, misalignment), k(keys, misalignment);
  output out(scores_of(shape), misalignment);
  run({&out}, [&](cudaStream_t s) {
    llmc::causal_product<Variant, BlockSize>(out, q, k, shape, context, s);
  });
  check_close("out", out.values(), expected_scores(queries, keys, shape),
              sum_tolerance(shape.head_size, 4));
}

}  // namespace

TEMPLATE_TEST_CASE_SIG("causal_product agrees with the reference", "[causal_product]",
                       ((causal_product_variant Variant, int BlockSize), Variant, BlockSize),
                       (causal_product_variant::automatic, 256),
                       (causal_product_variant::naive, 96),
                       (causal_product_variant::shared_tiles, 1024),
                       (causal_product_variant::dense, 96),
                       (causal_product_variant::register_tiles, 256)) {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  for (const std::int64_t T : sweep({1, 2, 3, 5, 31, 32, 33, 64, 65, 127, 128, 129, 260})) {
    for (const std::int64_t HS : {1, 5, 31, 33, 36, 64, 80}) {
      check_product<Variant, BlockSize>({2, T, 2, HS}, context, static_cast<int>((T + HS) % 2));
    }
    check_product<Variant, BlockSize>({2, T, 2, 64}, context);
  }
  check_product<Variant, BlockSize>({2003, 3, 5, 4}, context);
}

TEMPLATE_TEST_CASE_SIG("causal_product keeps a NaN to the scores that are made from it",
                       "[causal_product]", ((causal_product_variant Variant), Variant),
                       (causal_product_variant::naive), (causal_product_variant::shared_tiles),
                       (causal_product_variant::dense), (causal_product_variant::register_tiles)) {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const attention_shape shape{1, 150, 1, 12};
  constexpr std::int64_t bad_query = 20, bad_key = 90;
  std::vector<float> queries = random_normal(vectors_of(shape), 1);
  std::vector<float> keys = random_normal(vectors_of(shape), 2);
  std::vector<double> expected = expected_scores(queries, keys, shape);
  queries[bad_query * 12 + 3] = std::numeric_limits<float>::quiet_NaN();
  keys[bad_key * 12 + 7] = std::numeric_limits<float>::infinity();

  const buffer<float> q(queries), k(keys);
  output out(scores_of(shape));
  run({&out}, [&](cudaStream_t s) { llmc::causal_product<Variant>(out, q, k, shape, context, s); });
  std::vector<float> actual = out.values();
  for (std::int64_t t = 0; t < shape.sequence; ++t) {
    for (std::int64_t s = 0; s <= t; ++s) {
      if (t != bad_query && s != bad_key) continue;
      const auto i = static_cast<std::size_t>(t * shape.sequence + s);
      CHECK(!std::isfinite(actual[i]));
      actual[i] = 0;
      expected[i] = 0;
    }
  }
  check_close("out", actual, expected, sum_tolerance(shape.head_size, 4));
}

TEST_CASE("causal_product over nothing does nothing", "[causal_product]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  llmc::causal_product(nullptr, nullptr, nullptr, {0, 5, 2, 4}, context, nullptr);
  llmc::causal_product<causal_product_variant::dense>(nullptr, nullptr, nullptr, {3, 0, 2, 4},
                                                      context, nullptr);
}

TEST_CASE("causal_product takes no bad argument", "[causal_product]") {
  LLMC_REQUIRE_GPU();  // for the context
  matmul_context context;
  check_refusals("llmc::causal_product", llmc::causal_product<>, array{"out"}, array{"q"},
                 array{"k"}, attention_shape{2, 3, 4, 5}, std::ref(context), nullptr);
  const auto product = [&](attention_shape shape) {
    return
        [=, &context] { llmc::causal_product(nullptr, nullptr, nullptr, shape, context, nullptr); };
  };
  const std::string name = "llmc::causal_product: ";
  check_refused(name + "heads must be at least 1, got 0", product({1, 1, 0, 1}));
  check_refused(name + "head_size must be at least 1, got 0", product({1, 1, 1, 0}));
  CHECK_THROWS_AS(product({1, std::int64_t{1} << 31, 1, 1})(), llmc::invalid_argument);
}
