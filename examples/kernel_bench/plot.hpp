/// @file
/// Pictures of what was measured.
#pragma once

#include <string>
#include <vector>

#include "bench.hpp"

namespace kernel_bench {

/// One SVG document; for each operation the time of every variant at its fastest block size, as
/// bars, and beside it the speed of every variant over the block sizes.
std::string as_svg(const std::string& title, const std::vector<report>& reports);

}  // namespace kernel_bench
