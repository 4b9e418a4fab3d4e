#include <llmc/reference/cached_attention.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include <llmc/reference/attention.hpp>
#include <llmc/reference/encoder.hpp>
#include <llmc/reference/matmul_few_rows.hpp>
#include <llmc/reference/placed_encoder.hpp>

#include "../support/catch.hpp"
#include "../support/random.hpp"

using namespace llmc_test;
using llmc::cache_place;
namespace reference = llmc::reference;

namespace {

constexpr std::int64_t B = 3, T = 11, NH = 2, HS = 5, C = NH * HS;

/// Texts whose attention is known as a whole, and a cache for them with some more room.
struct known_texts {
  std::vector<double> qkv = widen(random_normal(B * T * 3 * C, 1));
  std::vector<double> out = std::vector<double>(B * T * C);
  std::vector<double> keys = std::vector<double>(B * (T + 2) * C, std::nan(""));
  std::vector<double> values = keys;

  known_texts() {
    std::vector<double> lse(B * NH * T);
    reference::attention_forward(out.data(), lse.data(), qkv.data(), {B, T, NH, HS});
  }

  /// What becomes of these tokens.
  std::vector<double> add(const std::vector<cache_place>& places) {
    std::vector<double> rows;
    for (const cache_place at : places) {
      const auto row = qkv.begin() + std::max<std::ptrdiff_t>(at.text * T + at.position, 0) * 3 * C;
      rows.insert(rows.end(), row, row + 3 * C);
    }
    const auto count = static_cast<std::int64_t>(places.size());
    std::vector<double> result(places.size() * C, std::nan(""));
    reference::cached_attention_forward(result.data(), keys.data(), values.data(), rows.data(),
                                        places.data(), {count, B, T + 2, NH, HS});
    return result;
  }

  /// The same from the whole text.
  std::vector<double> wanted(const std::vector<cache_place>& places) const {
    std::vector<double> result;
    for (const cache_place at : places) {
      const auto row = out.begin() + (at.text * T + at.position) * C;
      result.insert(result.end(), row, row + C);
    }
    return result;
  }
};

}  // namespace

TEST_CASE("reference cached attention: token by token as over the whole text", "[cache]") {
  known_texts texts;
  for (std::int32_t t = 0; t < T; ++t) {
    const std::vector<cache_place> places{{2, t}, {0, t}, {1, t}};
    CHECK(texts.add(places) == texts.wanted(places));
  }
}

TEST_CASE("reference cached attention: several tokens of several texts in one call", "[cache]") {
  known_texts texts;
  const std::vector<std::vector<cache_place>> calls{
      {{1, 0}, {1, 1}, {1, 2}, {1, 3}},          // a prompt
      {{0, 0}, {1, 4}, {0, 2}, {0, 1}, {2, 0}},  // texts of different lengths, in any order
      {{0, 3}},
      {{1, 5}, {0, 4}, {2, 2}, {2, 1}}};
  for (const std::vector<cache_place>& places : calls) {
    CHECK(texts.add(places) == texts.wanted(places));
  }
}

TEST_CASE("reference cached attention: a row outside the cache takes no part", "[cache]") {
  known_texts texts;
  texts.add({{0, 0}, {1, 0}});
  const std::vector<double> keys = texts.keys;
  for (const cache_place outside :
       {cache_place{-1, 0}, cache_place{B, 0}, cache_place{0, -1}, cache_place{1, T + 2}}) {
    CHECK(texts.add({outside}) == std::vector<double>(C, 0.0));
    // NaN, where there are no tokens yet, differs from itself.
    CHECK(std::equal(keys.begin(), keys.end(), texts.keys.begin(), [](double a, double b) {
      return a == b || (std::isnan(a) && std::isnan(b));
    }));
  }
  CHECK(texts.add({}).empty());
}

TEST_CASE("reference products of few rows: those of matmul_forward", "[cache]") {
  for (const std::int64_t rows : {0, 1, 3, 17}) {
    const llmc::matmul_shape shape{rows, 19, 7};
    const std::vector<float> inp = random_normal(rows * 19, 1), weight = random_normal(19 * 7, 2),
                             bias = random_normal(7, 3);
    for (const float* some_bias : {bias.data(), static_cast<const float*>(nullptr)}) {
      std::vector<float> out(static_cast<std::size_t>(rows * 7)), wanted = out;
      reference::matmul_few_rows_forward(out.data(), inp.data(), weight.data(), some_bias, shape);
      reference::matmul_forward(wanted.data(), inp.data(), weight.data(), some_bias, shape);
      CHECK(out == wanted);
    }
  }
}

TEST_CASE("reference placed encoder: that of the whole text, at any place", "[cache]") {
  const std::vector<std::int32_t> tokens{3, 0, 9, 1, -4};  // two are out of range
  const llmc::encoder_shape shape{1, 5, 6, 8};
  const std::vector<float> wte = random_normal(8 * 6, 1), wpe = random_normal(5 * 6, 2);
  std::vector<float> whole(30), out(24);
  reference::encoder_forward(whole.data(), static_cast<std::uint64_t*>(nullptr), tokens.data(),
                             wte.data(), wpe.data(), shape);
  const std::vector<std::int32_t> some{1, 3, -4};
  const std::vector<cache_place> places{{0, 3}, {5, 0}, {0, 4}};
  reference::placed_encoder_forward(out.data(), some.data(), places.data(), wte.data(), wpe.data(),
                                    {3, 5, 6, 8});
  for (std::size_t r = 0; r < places.size(); ++r) {
    const auto row = whole.begin() + places[r].position * 6;
    CHECK(std::equal(row, row + 6, out.begin() + static_cast<std::ptrdiff_t>(r) * 6));
  }
}
