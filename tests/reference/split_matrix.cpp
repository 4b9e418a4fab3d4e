#include <llmc/reference/split_matrix.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

#include "../support/catch.hpp"
#include "../support/split_case.hpp"

using namespace llmc_test;

TEST_CASE("reference half_bits: undoes half_value for every finite half", "[split]") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if ((bits & 0x7c00) == 0x7c00) continue;  // infinity or NaN
    REQUIRE(llmc::reference::half_bits(llmc::reference::half_value(half)) == half);
  }
}

TEST_CASE("reference half_bits: rounds to the nearest half, ties to even", "[split]") {
  using llmc::reference::half_bits;
  CHECK(half_bits(1.0) == 0x3c00);
  CHECK(half_bits(-2.0) == 0xc000);
  CHECK(half_bits(1 + std::ldexp(1.0, -11)) == 0x3c00);
  CHECK(half_bits(1 + std::ldexp(3.0, -11)) == 0x3c02);
  CHECK(half_bits(1 + std::ldexp(1.01, -11)) == 0x3c01);
  CHECK(half_bits(2 - std::ldexp(1.0, -12)) == 0x4000);
  CHECK(half_bits(std::ldexp(1.0, -24)) == 1);
  CHECK(half_bits(std::ldexp(1.0, -25)) == 0);
  CHECK(half_bits(std::ldexp(1.5, -25)) == 1);
}

TEST_CASE("reference split: places are a permutation within 16", "[split]") {
  std::vector<bool> taken(64);
  for (std::int64_t i = 0; i < 64; ++i) {
    const std::int64_t place = llmc::split_layout::place(i);
    CHECK(place / 16 == i / 16);
    CHECK_FALSE(taken[static_cast<std::size_t>(place)]);
    taken[static_cast<std::size_t>(place)] = true;
  }
  // A thread of a warp has indices 4t to 4t + 3 at places 2t, 2t + 1, 2t + 8, 2t + 9.
  CHECK(llmc::split_layout::place(4) == 2);
  CHECK(llmc::split_layout::place(5) == 3);
  CHECK(llmc::split_layout::place(6) == 10);
  CHECK(llmc::split_layout::place(7) == 11);
}

TEST_CASE("reference split: every number is kept to 22 bits of it or of 2^-27 of its block's",
          "[split]") {
  for (const split_data& data : split_data_sets(70, 130)) {
    INFO(data.name);
    const llmc::row_shape shape{70, 130};
    host_halves halves(shape, data.values);
    const std::vector<double> joined = halves.joined();
    std::vector<double> most(2 * 3);
    const auto block = [&](std::size_t i) { return i / 130 / 64 * 3 + i % 130 / 64; };
    for (std::size_t i = 0; i < joined.size(); ++i) {
      const double size = std::fabs(data.values[i]);
      most[block(i)] = std::max(most[block(i)], std::isfinite(size) ? size : 0);
    }
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < joined.size(); ++i) {
      const double x = data.values[i];
      const double allowed =
          std::max(std::ldexp(std::fabs(x), -22), std::ldexp(most[block(i)], -49));
      const bool same = std::isnan(x) ? std::isnan(joined[i]) : joined[i] == x;
      if (!same && !(std::fabs(joined[i] - x) <= allowed)) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("reference split: blocks that halves cannot hold keep every bit", "[split]") {
  const llmc::row_shape shape{128, 192};  // 2 x 3 whole blocks
  for (const split_data& data : split_data_sets(shape.rows, shape.channels)) {
    INFO(data.name);
    host_halves halves(shape, data.values);
    const bool whole = data.name == "rows spread" || data.name == "columns spread" ||
                       data.name == "huge" || data.name == "below the limit";
    const bool one = data.name.substr(0, 4) == "one ";
    CHECK(halves.kept_whole() == (whole ? 6 : one ? 1 : 0));
    if (!whole) continue;
    const std::vector<double> joined = halves.joined();
    for (std::size_t i = 0; i < joined.size(); ++i) REQUIRE(joined[i] == data.values[i]);
  }
}
