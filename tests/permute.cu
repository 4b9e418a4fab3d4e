#include <llmc/permute.cuh>
#include <llmc/reference/permute.hpp>

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
using llmc::permute_heads_variant;

namespace {

template <permute_heads_variant Variant, int BlockSize>
void check_both_directions(attention_shape shape, int parts, int misalignment) {
  INFO("B " << shape.batch << ", T " << shape.sequence << ", NH " << shape.heads << ", HS "
            << shape.head_size << ", parts " << parts << ", misalignment " << misalignment);
  const std::int64_t count = parts * shape.batch * shape.sequence * shape.heads * shape.head_size;
  const std::vector<float> values = random_normal(count, 1);
  std::vector<float> permuted(values.size()), unpermuted(values.size());
  llmc::reference::permute_heads(permuted.data(), values.data(), shape, parts);
  llmc::reference::unpermute_heads(unpermuted.data(), values.data(), shape, parts);

  const buffer<float> inp(values, misalignment);
  output out(count, misalignment);
  run({&out},
      [&](cudaStream_t s) { llmc::permute_heads<Variant, BlockSize>(out, inp, shape, parts, s); });
  CHECK((out.values() == permuted));
  run({&out}, [&](cudaStream_t s) {
    llmc::unpermute_heads<Variant, BlockSize>(out, inp, shape, parts, s);
  });
  CHECK((out.values() == unpermuted));
}

}  // namespace

TEMPLATE_TEST_CASE_SIG("permute_heads and unpermute_heads copy every bit to its place", "[permute]",
                       ((permute_heads_variant Variant, int BlockSize), Variant, BlockSize),
                       (permute_heads_variant::automatic, 32),
                       (permute_heads_variant::automatic, 1024),
                       (permute_heads_variant::element_per_thread, 96),
                       (permute_heads_variant::pack_per_thread, 96),
                       (permute_heads_variant::block_per_position, 32),
                       (permute_heads_variant::block_per_position, 1024)) {
  LLMC_REQUIRE_GPU();
  for (const std::int64_t T : sweep({1, 2, 3, 31, 65, 129})) {
    for (const std::int64_t HS : {1, 3, 4, 33, 64, 80}) {
      for (const int parts : {1, 3}) {
        check_both_directions<Variant, BlockSize>({2, T, 3, HS}, parts, 0);
        check_both_directions<Variant, BlockSize>({3, T, 2, HS}, parts, 1);
      }
    }
  }
  check_both_directions<Variant, BlockSize>({1, 70001, 1, 2}, 2, 0);
  check_both_directions<Variant, BlockSize>({2, 3, 1, 4100}, 5, 0);
}

TEST_CASE("permute_heads over nothing does nothing and refuses nothing", "[permute]") {
  llmc::permute_heads(nullptr, nullptr, {0, 5, 2, 4}, 3, nullptr);
  llmc::unpermute_heads(nullptr, nullptr, {3, 0, 2, 4}, 1, nullptr);
}

TEST_CASE("permute_heads refuses what it cannot do", "[permute]") {
  constexpr attention_shape shape{2, 3, 4, 5};
  check_refusals("llmc::permute_heads", llmc::permute_heads<>, array{"out"}, array{"inp"}, shape, 3,
                 nullptr);
  check_refusals("llmc::unpermute_heads", llmc::unpermute_heads<>, array{"out"}, array{"inp"},
                 shape, 3, nullptr);

  float x = 0;
  check_refused("llmc::permute_heads: heads must be at least 1, got 0", [&] {
    llmc::permute_heads(&x, &x, {1, 1, 0, 1}, 3, nullptr);
  });
  check_refused("llmc::permute_heads: parts must be at least 1, got 0", [&] {
    llmc::permute_heads(&x, &x, {1, 1, 1, 1}, 0, nullptr);
  });
  using variant = permute_heads_variant;
  CHECK_THROWS_WITH(
      (llmc::permute_heads<variant::block_per_position>(&x, &x, {1, 1, 1 << 20, 1 << 11}, 1,
                                                        nullptr)),
      "llmc::permute_heads: the variant block_per_position takes at most 2147483647 floats a "
      "position, got 2147483648");
}
