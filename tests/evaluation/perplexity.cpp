#include "gpt2/evaluation/perplexity.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "../support/catch.hpp"
#include "gpt2/evaluation/text_tokens.hpp"
#include "oracle.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

namespace {

/// Shards of tokens that differ within a window: their place times 7.
class counting_source : public token_source {
 public:
  counting_source(std::vector<std::int64_t> shards, std::int64_t vocabulary)
      : token_source(std::move(shards), {}), vocabulary_(vocabulary) {}

  std::string name(std::size_t) const override { return "counting"; }
  void read(std::int32_t* to, std::size_t shard, std::int64_t offset,
            std::int64_t count) const override {
    if (offset < 0 || offset + count > shards()[shard]) throw std::logic_error("no such tokens");
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = static_cast<std::int32_t>((offset + i) * 7 % vocabulary_);
    }
  }

 private:
  std::int64_t vocabulary_;
};

const std::vector<std::int64_t> sizes{9, 0, 1, 2, 30, 17, 8};

template <class Real>
prediction predicted(gpt2<Real>& model, const token_source& source, std::int64_t batch,
                     std::int64_t sequence, std::int64_t stride) {
  return predict(model, batch, window_walk(source, sequence, stride), {}, [](std::int64_t) {});
}

/// By the definition: each token from what its window has before it.
double loss_of(gpt2<double>& model, const token_source& source, std::int64_t sequence,
               std::int64_t stride) {
  double sum = 0;
  for (std::size_t shard = 0; shard < source.shards().size(); ++shard) {
    for (std::int64_t place = 1; place < source.shards()[shard]; ++place) {
      std::int64_t begin = 0;
      while (place - begin > sequence) begin += stride;
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(place + 1 - begin));
      source.read(tokens.data(), shard, begin, place + 1 - begin);
      sum += loss_at(model, tokens, tokens.size() - 1);
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("evaluation: each token but a shard's first is scored once, from enough before it") {
  const std::int64_t sequence = GENERATE(1, 4, 8, 40);
  const std::int64_t stride = GENERATE(1, 3, 8, 40);
  if (stride > sequence) return;
  const counting_source source(sizes, 1 << 20);
  window_walk windows(source, sequence, stride);
  for (std::size_t shard = 0; shard < sizes.size(); ++shard) {
    for (std::int64_t next = 1; next < sizes[shard];) {
      const auto row = windows.next();
      REQUIRE(row);
      CHECK(static_cast<std::int64_t>(row->tokens.size()) <= sequence + 1);
      CHECK(row->tokens[static_cast<std::size_t>(row->first)] == next * 7);
      CHECK(row->first >= std::min(next, sequence - stride + 1));
      CHECK(row->tokens.front() == (next - row->first) * 7);
      CHECK(row->scored() > 0);
      next += row->scored();
    }
  }
  CHECK(!windows.next());
  CHECK(scored_tokens(source) == 8 + 0 + 0 + 1 + 29 + 16 + 7);
}

TEST_CASE("evaluation: the loss is that of the definition, whatever the batch") {
  const counting_source source(sizes, 61);
  const std::int64_t sequence = GENERATE(5, 8);
  const std::int64_t stride = GENERATE(1, 3, 5);
  small_network network(8, 61, 7);
  const double wanted = loss_of(network.model, source, sequence, stride);
  for (const std::int64_t batch : {1, 2, 3, 7}) {
    const prediction found = predicted(network.model, source, batch, sequence, stride);
    CHECK(found.tokens == 61);
    CHECK(std::fabs(found.loss - wanted) <= 1e-12 * wanted);
    CHECK(!found.bytes);
    CHECK(!found.bits_per_byte());
    CHECK(found.mean_loss() == Approx(wanted / 61));
    CHECK(found.perplexity() == Approx(std::exp(wanted / 61)));
  }
}

TEST_CASE("evaluation: in single precision, too, the batch changes no bit on the CPU") {
  const counting_source source(sizes, 61);
  const auto machine = make_reference_backend<float>();
  gpt2<float> model({8, 61, 128, 1, 2, 12}, *machine, 5, 8);
  model.set_parameters(strong_parameters(model.layout(), 9));
  const double one = predicted(model, source, 1, 8, 2).loss;
  CHECK(predicted(model, source, 2, 8, 2).loss == one);
  CHECK(predicted(model, source, 5, 8, 2).loss == one);
}

TEST_CASE("evaluation: a model's losses are those that it sums, one for each position") {
  small_network network(8, 61, 3);
  batch x(3, 7, 61, 1);
  x.targets[4] = x.targets[20] = llmc::ignored_target;
  const std::vector<double> losses =
      network.model.losses(x.tokens.data(), x.targets.data(), x.b, x.t);
  REQUIRE(losses.size() == 21);
  CHECK(losses[4] == 0);
  CHECK(losses[20] == 0);
  double sum = 0;
  for (const double loss : losses) sum += loss;
  CHECK(sum == Approx(network.model.evaluate(x.tokens.data(), x.targets.data(), 3, 7).sum));
  x.targets[3] = 61;
  CHECK_THROWS_WITH(network.model.losses(x.tokens.data(), x.targets.data(), x.b, x.t),
                    "1 tokens or targets of this batch are not between 0 and 60");
}

TEST_CASE("evaluation: documents of bytes begin with a separator, which is no byte of text") {
  const text_corpus corpus{std::string("\0one\0\0three", 11),
                           {{"1", 3, "", {}}, {"2", 0, "", {}}, {"3", 5, "", {}}},
                           3,
                           {}};
  const text_tokens text;
  const auto source = make_documents(corpus, text);
  CHECK(source->shards() == std::vector<std::int64_t>{4, 1, 6});
  CHECK(source->name(2) == "3");
  std::vector<std::int32_t> tokens(6);
  source->read(tokens.data(), 2, 0, 6);
  CHECK(tokens == std::vector<std::int32_t>{0, 't', 'h', 'r', 'e', 'e'});
  source->read(tokens.data(), 0, 1, 3);
  CHECK(tokens[0] == 'o');

  small_network network(4, 256, 2);
  const prediction found =
      predict(network.model, 2, window_walk(*source, 4, 4), text.bytes(256), [](std::int64_t) {});
  CHECK(found.tokens == 8);
  REQUIRE(found.bytes);
  CHECK(*found.bytes == 8);
  CHECK(*found.bits_per_byte() == Approx(found.mean_loss() / std::log(2.0)));
}
