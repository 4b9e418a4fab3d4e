#include <llmc/reference/loss_sum.hpp>

#include <cstdint>
#include <limits>
#include <vector>

#include "../support/catch.hpp"

using llmc::accumulation;
using llmc::clip_state;

TEST_CASE("reference loss_sum: known values", "[loss_sum]") {
  const std::vector<float> losses{1.5f, 2, 4};
  double sum = 100;
  llmc::reference::loss_sum(&sum, losses.data(), 3, accumulation::overwrite);
  CHECK(sum == 7.5);
  llmc::reference::loss_sum(&sum, losses.data(), 2, accumulation::add);
  CHECK(sum == 11);
  llmc::reference::loss_sum(&sum, losses.data(), 0, accumulation::overwrite);
  CHECK(sum == 0);
}

TEST_CASE("reference skip_update_unless_sound: known values", "[loss_sum]") {
  const std::uint64_t one = 1;
  const double infinite = std::numeric_limits<double>::infinity(), sound = 3;
  clip_state clip{2, 0.5f, 1};
  llmc::reference::skip_update_unless_sound(&clip, &sound, nullptr);
  CHECK(clip.finite == 1);
  CHECK(clip.scale == 0.5f);
  llmc::reference::skip_update_unless_sound(&clip, &infinite, nullptr);
  CHECK(clip.finite == 0);
  CHECK(clip.scale == 0);
  CHECK(clip.norm == 2);
  clip = {2, 0.5f, 1};
  llmc::reference::skip_update_unless_sound(&clip, &sound, &one);
  CHECK(clip.finite == 0);
}
