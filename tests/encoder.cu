#include <llmc/encoder.cuh>
#include <llmc/reference/encoder.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "support/compare.hpp"
#include "support/gpu.cuh"
#include "support/random.hpp"
#include "support/range_counter.cuh"
#include "support/refusal.hpp"
#include "support/sizes.hpp"
#include "support/spoilt_arguments.hpp"

using namespace llmc_test;
using llmc::accumulation;
using llmc::encoder_backward_variant;
using llmc::encoder_forward_variant;
using llmc::encoder_shape;

namespace {

/// How often the most frequent token occurs: the length of the longest sum.
std::int64_t most_frequent(std::vector<std::int32_t> tokens) {
  std::sort(tokens.begin(), tokens.end());
  std::int64_t longest = 0;
  for (auto begin = tokens.begin(); begin != tokens.end();) {
    const auto end = std::upper_bound(begin, tokens.end(), *begin);
    longest = std::max<std::int64_t>(longest, end - begin);
    begin = end;
  }
  return longest;
}

/// Random tokens, about one in five of them out of range.
std::vector<std::int32_t> random_tokens(encoder_shape s) {
  std::vector<std::int32_t> tokens =
      random_integers(s.batch * s.sequence, s.vocabulary + 2 + s.vocabulary / 4, 1);
  for (std::int32_t& token : tokens) --token;  // so that -1 is among them
  return tokens;
}

/// Small whole numbers, whose sums are exact in any order: atomics then give the same bits, too.
std::vector<float> whole_gradients(encoder_shape s) {
  std::vector<float> gradients;
  for (const std::int32_t value : random_integers(s.batch * s.sequence * s.channels, 17, 4)) {
    gradients.push_back(static_cast<float>(value - 8));
  }
  return gradients;
}

struct encoder_case {
  encoder_shape shape;
  std::int64_t longest_sum;
  std::vector<std::int32_t> tokens;
  std::vector<float> wte, wpe, dout;
  std::uint64_t out_of_range = 0;
  std::vector<double> out, dwte, dwpe;

  encoder_case(encoder_shape s, std::vector<std::int32_t> t, std::vector<float> gradients)
      : shape(s),
        longest_sum(most_frequent(t)),
        tokens(std::move(t)),
        wte(random_normal(s.vocabulary * s.channels, 2)),
        wpe(random_normal(s.sequence * s.channels, 3)),
        dout(std::move(gradients)) {
    out.resize(dout.size());
    dwte.resize(wte.size());
    dwpe.resize(wpe.size());
    llmc::reference::encoder_forward(out.data(), &out_of_range, tokens.data(), widen(wte).data(),
                                     widen(wpe).data(), shape);
    llmc::reference::encoder_backward(dwte.data(), dwpe.data(), tokens.data(), widen(dout).data(),
                                      shape, accumulation::overwrite, accumulation::overwrite);
  }
  encoder_case(encoder_shape s, std::vector<std::int32_t> t)
      : encoder_case(s, std::move(t), random_normal(s.batch * s.sequence * s.channels, 4)) {}
  explicit encoder_case(encoder_shape s) : encoder_case(s, random_tokens(s)) {}
};

template <encoder_forward_variant Variant, int BlockSize>
void check_forward(const encoder_case& c, int misalignment) {
  INFO("B " << c.shape.batch << ", T " << c.shape.sequence << ", C " << c.shape.channels << ", V "
            << c.shape.vocabulary << ", misalignment " << misalignment);
  const buffer<std::int32_t> tokens(c.tokens, misalignment);
  const buffer<float> wte(c.wte, misalignment), wpe(c.wpe, misalignment);
  const range_counter counter;
  output out(static_cast<std::int64_t>(c.out.size()), misalignment);
  run({&out}, [&](cudaStream_t s) {
    llmc::encoder_forward<Variant, BlockSize>(out, counter, tokens, wte, wpe, c.shape, s);
  });
  counter.check(c.out_of_range);
  check_close("out", out.values(), c.out, elementwise_tolerance());
}

template <encoder_backward_variant Variant, int BlockSize>
void check_backward(const encoder_case& c, accumulation dwte_mode, accumulation dwpe_mode,
                    int misalignment) {
  INFO("B " << c.shape.batch << ", T " << c.shape.sequence << ", C " << c.shape.channels << ", V "
            << c.shape.vocabulary << ", misalignment " << misalignment
            << (dwte_mode == accumulation::add ? ", add" : ", overwrite") << " dwte"
            << (dwpe_mode == accumulation::add ? ", add" : ", overwrite") << " dwpe");
  const buffer<std::int32_t> tokens(c.tokens, misalignment);
  const buffer<float> dout(c.dout, misalignment);
  const scratch workspace(llmc::encoder_backward_workspace_bytes(c.shape));
  output dwte(static_cast<std::int64_t>(c.dwte.size()), dwte_mode, misalignment);
  output dwpe(static_cast<std::int64_t>(c.dwpe.size()), dwpe_mode, misalignment);
  run({&dwte, &dwpe}, [&](cudaStream_t s) {
    llmc::encoder_backward<Variant, BlockSize>(dwte, dwpe, workspace, tokens, dout, c.shape,
                                               dwte_mode, dwpe_mode, s);
  });
  CHECK(workspace.guards_intact());
  check_close("dwte", dwte.values(), expected_gradient(c.dwte, dwte_mode),
              sum_tolerance(c.longest_sum));
  check_close("dwpe", dwpe.values(), expected_gradient(c.dwpe, dwpe_mode),
              sum_tolerance(c.shape.batch));
}

void check_backward_automatic(const encoder_case& c, accumulation mode) {
  check_backward<encoder_backward_variant::automatic, 256>(c, mode, mode, 0);
}

}  // namespace

TEMPLATE_TEST_CASE_SIG("encoder_forward agrees with the reference", "[encoder]",
                       ((encoder_forward_variant Variant, int BlockSize), Variant, BlockSize),
                       (encoder_forward_variant::automatic, 256),
                       (encoder_forward_variant::thread_per_row, 96),
                       (encoder_forward_variant::element_per_thread, 96),
                       (encoder_forward_variant::pack_per_thread, 96),
                       (encoder_forward_variant::pack_per_thread, 1024),
                       (encoder_forward_variant::warp_per_row, 32),
                       (encoder_forward_variant::warp_per_row, 96),
                       (encoder_forward_variant::warp_per_row, 1024)) {
  LLMC_REQUIRE_GPU();
  const std::int64_t sequence = GENERATE(1, 7, 33);
  for (const std::int64_t channels : awkward_sizes) {
    const encoder_case c({3, sequence, channels, 19});
    for (const int misalignment : {0, 1}) check_forward<Variant, BlockSize>(c, misalignment);
  }
}

TEMPLATE_TEST_CASE_SIG("encoder_forward does without a counter and takes any token", "[encoder]",
                       ((encoder_forward_variant Variant), Variant),
                       encoder_forward_variant::automatic, encoder_forward_variant::thread_per_row,
                       encoder_forward_variant::element_per_thread,
                       encoder_forward_variant::pack_per_thread) {
  LLMC_REQUIRE_GPU();
  const encoder_case c({1, 3, 5, 2}, {std::numeric_limits<std::int32_t>::min(), 1,
                                      std::numeric_limits<std::int32_t>::max()});
  const buffer<std::int32_t> tokens(c.tokens);
  const buffer<float> wte(c.wte), wpe(c.wpe);
  output out(15);
  run({&out}, [&](cudaStream_t s) {
    llmc::encoder_forward<Variant>(out, nullptr, tokens, wte, wpe, c.shape, s);
  });
  check_close("out", out.values(), c.out, elementwise_tolerance());
}

TEMPLATE_TEST_CASE_SIG("encoder_backward takes any token", "[encoder]",
                       ((encoder_backward_variant Variant), Variant),
                       encoder_backward_variant::automatic, encoder_backward_variant::atomics,
                       encoder_backward_variant::thread_per_channel) {
  LLMC_REQUIRE_GPU();
  const encoder_case c({1, 3, 5, 2}, {std::numeric_limits<std::int32_t>::min(), 1,
                                      std::numeric_limits<std::int32_t>::max()});
  check_backward<Variant, 256>(c, accumulation::overwrite, accumulation::overwrite, 0);
}

TEMPLATE_TEST_CASE_SIG("encoder_backward agrees with the reference", "[encoder]",
                       ((encoder_backward_variant Variant, int BlockSize), Variant, BlockSize),
                       (encoder_backward_variant::automatic, 256),
                       (encoder_backward_variant::thread_per_channel, 96),
                       (encoder_backward_variant::thread_per_channel, 1024),
                       (encoder_backward_variant::sorted_pieces, 32),
                       (encoder_backward_variant::sorted_pieces, 96),
                       (encoder_backward_variant::sorted_pieces, 1024)) {
  LLMC_REQUIRE_GPU();
  const std::int64_t vocabulary = GENERATE(1, 7, 300);  // tokens across pieces and inside them
  const accumulation mode = GENERATE(accumulation::overwrite, accumulation::add);
  const accumulation other =
      mode == accumulation::add ? accumulation::overwrite : accumulation::add;
  for (const std::int64_t channels : awkward_sizes) {
    const encoder_case c({5, 33, channels, vocabulary});
    check_backward<Variant, BlockSize>(c, mode, mode, 0);
    check_backward<Variant, BlockSize>(c, mode, other, 1);
  }
}

TEMPLATE_TEST_CASE_SIG("encoder_backward by atomics adds every gradient once", "[encoder]",
                       ((int BlockSize), BlockSize), 96, 1024) {
  LLMC_REQUIRE_GPU();
  constexpr auto atomics = encoder_backward_variant::atomics;
  const accumulation mode = GENERATE(accumulation::overwrite, accumulation::add);
  const accumulation other =
      mode == accumulation::add ? accumulation::overwrite : accumulation::add;
  for (const std::int64_t channels : awkward_sizes) {
    const encoder_shape shape{5, 33, channels, 7};
    const encoder_case c(shape, random_tokens(shape), whole_gradients(shape));
    check_backward<atomics, BlockSize>(c, mode, mode, 0);
    check_backward<atomics, BlockSize>(c, mode, other, 1);
  }
  const encoder_shape shape{8, 1024, 33, 11};
  const encoder_case one_token(shape, std::vector<std::int32_t>(8 * 1024, 5),
                               whole_gradients(shape));
  check_backward<atomics, BlockSize>(one_token, mode, other, 0);
}

TEST_CASE("encoder_backward takes any number of tokens", "[encoder]") {
  LLMC_REQUIRE_GPU();
  const accumulation mode = GENERATE(accumulation::overwrite, accumulation::add);
  for (const std::int64_t sequence : awkward_sizes) {
    check_backward_automatic(encoder_case({1, sequence, 8, 11}), mode);
  }
  for (const std::int64_t sequence : {8191, 8192, 8193}) {  // on both sides of a way of sorting
    check_backward_automatic(encoder_case({1, sequence, 8, 3000}), mode);
  }
  const encoder_shape long_pieces{3, 23333, 4, 1000};
  for (const encoder_shape& shape : unless_few<encoder_shape>({long_pieces, {70001, 1, 3, 70}})) {
    check_backward_automatic(encoder_case(shape), mode);
  }
}

TEST_CASE("encoder_backward with one token everywhere", "[encoder]") {
  LLMC_REQUIRE_GPU();
  const std::int32_t token = GENERATE(0, 5, 10, 11);  // 11 is out of range: dwte gets nothing
  for (const std::int64_t channels : {33, 128}) {
    const encoder_case c({8, 1024, channels, 11}, std::vector<std::int32_t>(8 * 1024, token));
    check_backward_automatic(c, accumulation::overwrite);
    check_backward_automatic(c, accumulation::add);
  }
}

TEST_CASE("encoder_backward: a hundred runs give the same bits", "[encoder]") {
  LLMC_REQUIRE_GPU();
  if (wants_few_sizes()) LLMC_SKIP("few sizes are wanted");
  const encoder_case c({8, 1024, 33, 11}, std::vector<std::int32_t>(8 * 1024, 7));
  const buffer<std::int32_t> tokens(c.tokens);
  const buffer<float> dout(c.dout);
  const scratch workspace(llmc::encoder_backward_workspace_bytes(c.shape));
  output dwte(static_cast<std::int64_t>(c.dwte.size()));
  output dwpe(static_cast<std::int64_t>(c.dwpe.size()));
  const stream s;
  check_cuda(cudaDeviceSynchronize());
  std::vector<std::vector<float>> first;
  for (int i = 0; i < 100; ++i) {
    llmc::encoder_backward(dwte, dwpe, workspace, tokens, dout, c.shape, accumulation::overwrite,
                           accumulation::overwrite, s);
    s.synchronize();
    if (i == 0) first = snapshot({&dwte, &dwpe});
    REQUIRE(same_bits(first, snapshot({&dwte, &dwpe})));
  }
}

TEMPLATE_TEST_CASE_SIG("encoder_backward touches no row of a token that does not occur, if it adds",
                       "[encoder]", ((encoder_backward_variant Variant), Variant),
                       encoder_backward_variant::automatic, encoder_backward_variant::atomics,
                       encoder_backward_variant::thread_per_channel) {
  LLMC_REQUIRE_GPU();
  const encoder_shape shape{2, 40, 12, 9};
  const encoder_case c(shape, std::vector<std::int32_t>(80, 4), whole_gradients(shape));
  const buffer<std::int32_t> tokens(c.tokens);
  const buffer<float> dout(c.dout);
  const scratch workspace(llmc::encoder_backward_workspace_bytes(c.shape));
  // -0 becomes +0 if 0 is added to it.
  output dwte(std::vector<float>(c.dwte.size(), -0.0f)), dwpe(40 * 12);
  run({&dwte, &dwpe}, [&](cudaStream_t s) {
    llmc::encoder_backward<Variant>(dwte, dwpe, workspace, tokens, dout, c.shape, accumulation::add,
                                    accumulation::overwrite, s);
  });
  const std::vector<float> values = dwte.values();
  check_close("dwte", values, c.dwte, sum_tolerance(80));
  for (std::size_t i = 0; i < values.size(); ++i) CHECK((i / 12 == 4 || std::signbit(values[i])));
}

TEMPLATE_TEST_CASE_SIG("encoder_backward over no tokens gives zero or leaves what was there",
                       "[encoder]", ((encoder_backward_variant Variant), Variant),
                       encoder_backward_variant::automatic, encoder_backward_variant::atomics,
                       encoder_backward_variant::thread_per_channel) {
  LLMC_REQUIRE_GPU();
  const accumulation mode = GENERATE(accumulation::overwrite, accumulation::add);
  output dwte(6, mode), dwpe(9, mode);
  run({&dwte, &dwpe}, [&](cudaStream_t s) {
    llmc::encoder_backward<Variant>(dwte, dwpe, {}, nullptr, nullptr, {0, 3, 3, 2}, mode, mode, s);
  });
  check_close("dwte", dwte.values(), expected_gradient(std::vector<double>(6), mode), {0, 0});
  check_close("dwpe", dwpe.values(), expected_gradient(std::vector<double>(9), mode), {0, 0});
}

TEMPLATE_TEST_CASE_SIG(
    "encoder takes more than 2^31 elements", "[encoder][large]",
    ((encoder_forward_variant Forward, encoder_backward_variant Backward), Forward, Backward),
    (encoder_forward_variant::automatic, encoder_backward_variant::automatic),
    (encoder_forward_variant::thread_per_row, encoder_backward_variant::atomics),
    (encoder_forward_variant::element_per_thread, encoder_backward_variant::thread_per_channel),
    (encoder_forward_variant::pack_per_thread, encoder_backward_variant::automatic)) {
  LLMC_REQUIRE_GPU();
  const encoder_shape shape{4100, 1024, 512, 3};
  const std::int64_t positions = shape.batch * shape.sequence;
  const std::int64_t count = positions * shape.channels;
  const std::size_t workspace_bytes = llmc::encoder_backward_workspace_bytes(shape);
  LLMC_REQUIRE_GPU_BYTES(static_cast<std::size_t>(count) * sizeof(float) + workspace_bytes);

  // Ones everywhere: every gradient is then a number of positions, and exact.
  const std::vector<std::int32_t> token_values = random_integers(positions, shape.vocabulary, 1);
  const buffer<std::int32_t> tokens(token_values);
  const buffer<float> wte(std::vector<float>(3 * 512, 1.0f)),
      wpe(std::vector<float>(1024 * 512, 0.0f)), out(count), dwte(3 * 512), dwpe(1024 * 512);
  const scratch workspace(workspace_bytes);
  check_cuda(cudaDeviceSynchronize());
  const stream s;
  llmc::encoder_forward<Forward>(out, nullptr, tokens, wte, wpe, shape, s);
  llmc::encoder_backward<Backward>(dwte, dwpe, workspace, tokens, out, shape,
                                   accumulation::overwrite, accumulation::overwrite, s);
  s.synchronize();

  std::vector<double> occurrences(3 * 512);
  for (std::size_t i = 0; i < occurrences.size(); ++i) {
    occurrences[i] = static_cast<double>(
        std::count(token_values.begin(), token_values.end(), static_cast<std::int32_t>(i / 512)));
  }
  check_close("dwte", dwte.values(), occurrences, {0, 0});
  check_close("dwpe", dwpe.values(), std::vector<double>(1024 * 512, 4100), {0, 0});
}

TEST_CASE("encoder_backward keeps an earlier error of the user's", "[encoder]") {
  LLMC_REQUIRE_GPU();
  const std::int64_t batch = GENERATE(1, 9);  // sorted by counting, and by CUB
  const encoder_case c({batch, 1024, 4, 100});
  const buffer<std::int32_t> tokens(c.tokens);
  const buffer<float> dout(c.dout), dwte(100 * 4), dwpe(1024 * 4);
  const stream s;
  const cudaError_t earlier = cudaSetDevice(-1);
  REQUIRE(earlier != cudaSuccess);
  const std::size_t bytes = llmc::encoder_backward_workspace_bytes(c.shape);
  CHECK(cudaPeekAtLastError() == earlier);
  const scratch workspace(bytes);
  llmc::encoder_backward(dwte, dwpe, workspace, tokens, dout, c.shape, accumulation::overwrite,
                         accumulation::overwrite, s);
  CHECK(cudaPeekAtLastError() == earlier);
  cudaGetLastError();
  s.synchronize();
  check_close("dwte", dwte.values(), c.dwte, sum_tolerance(c.longest_sum));
}

TEST_CASE("encoder_forward refuses what it cannot do", "[encoder]") {
  check_refusals("llmc::encoder_forward", llmc::encoder_forward<>, array{"out"}, optional_array{},
                 array{"tokens"}, array{"wte"}, array{"wpe"}, encoder_shape{2, 3, 4, 5}, nullptr);
  const auto call = [](encoder_shape shape) {
    return
        [=] { llmc::encoder_forward(nullptr, nullptr, nullptr, nullptr, nullptr, shape, nullptr); };
  };
  check_refused("llmc::encoder_forward: channels must be at least 1, got 0", call({1, 1, 0, 1}));
  check_refused("llmc::encoder_forward: vocabulary must be at least 1, got 0", call({1, 1, 1, 0}));
  call({0, 1, 1, 1})();  // nothing to do
}

TEST_CASE("encoder_backward refuses what it cannot do", "[encoder]") {
  constexpr encoder_shape shape{2, 3, 4, 5};
  check_refusals("llmc::encoder_backward", llmc::encoder_backward<>, array{"dwte"}, array{"dwpe"},
                 needed_scratch{llmc::encoder_backward_workspace_bytes(shape)}, array{"tokens"},
                 array{"dout"}, shape, accumulation::overwrite, accumulation::overwrite, nullptr);
  check_refused("llmc::encoder_backward_workspace_bytes: channels must be at least 1, got 0", [] {
    llmc::encoder_backward_workspace_bytes({1, 1, 0, 1});
  });
}
