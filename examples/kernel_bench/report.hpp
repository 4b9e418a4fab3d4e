/// @file
/// Writes the measurements as a table, JSON or CSV.
#pragma once

#include <string>
#include <vector>

#include "bench.hpp"

namespace kernel_bench {

/// The machine and how it was measured.
struct circumstances {
  std::string device;
  std::string compute_capability;
  std::string driver;   ///< the CUDA version that the driver supports
  std::string runtime;  ///< the CUDA version that this program was built with
  std::int64_t l2_bytes;
  int repeats;
};

circumstances describe_device(int repeats);

/// A table for people.
std::string as_table(const report& r);
/// One document, or one table with a header, for all operations.
std::string as_json(const circumstances& c, const std::vector<report>& reports);
std::string as_csv(const std::vector<report>& reports);

/// "rows 8192, channels 768" in the order of the names.
std::string to_string(const llmc_registry::extents& shape);

}  // namespace kernel_bench
