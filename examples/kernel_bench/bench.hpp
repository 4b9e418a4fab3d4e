/// @file
/// Checks every entry of an operation, then times it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <llmc/types.hpp>

#include "registry/measure/stopwatch.hpp"
#include "registry/registry.hpp"

namespace kernel_bench {

using llmc_registry::stopwatch;
using llmc_registry::timing;

enum class verdict { right, wrong, unsupported };

/// What was found about one entry. Only a right one is timed.
struct result {
  llmc_registry::entry entry;
  verdict outcome = verdict::right;
  std::string reason;  ///< why the entry is not right
  double error = 0;    ///< the largest, in units of the tolerance
  timing time{0, 0};
  double rate = 0;          ///< GB/s, or TF/s where operations are counted
  double share = 0;         ///< of the ceiling
  bool is_fastest = false;  ///< of the named variants in this precision
};

/// What was found about an operation.
struct report {
  std::string operation;
  llmc_registry::extents shape;
  llmc_registry::extents checked_shape;  ///< that of the comparison with the reference
  std::int64_t bytes = 0;
  double flops = 0;
  std::map<std::string, double> ceilings;  ///< GB/s of "copy", or TF/s of each precision
  std::vector<result> results;

  /// What the rates are.
  const char* unit() const { return flops > 0 ? "TF/s" : "GB/s"; }
  bool all_right() const;
};

/// Measures; keeps the products' rates, which are the same for all operations.
class bench {
 public:
  explicit bench(int repeats) : watch_(repeats) {}

  report measure(const llmc_registry::operation& o, const llmc_registry::extents& shape);

 private:
  void measure_ceilings(report& r);
  void time_right_ones(report& r, llmc_registry::problem& full);
  double product_ceiling(llmc::precision arithmetic);

  stopwatch watch_;
  std::map<llmc::precision, double> product_rates_;
};

}  // namespace kernel_bench
