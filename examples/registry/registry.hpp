/// @file
/// Every variant of every layer with every block size it can be launched with. The tests check
/// them; kernel_bench checks and times them. Plain C++: each layer's .cu file instantiates its
/// variants.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <llmc/types.hpp>

#include "registry/problem.hpp"

namespace llmc_registry {

/// One extent of an operation's shape.
struct parameter {
  std::string name;
  std::int64_t value;         ///< in GPT-2 124M with 8192 rows
  std::int64_t most_checked;  ///< the largest for which the CPU reference does not take too long
};

/// The extents of a shape by their parameters' names.
using extents = std::map<std::string, std::int64_t>;

/// A variant with a block size and, where the operation takes one, a precision.
struct entry {
  std::string variant;
  int block_size;
  bool is_default;  ///< whether it is the block size that the library takes for the variant
  std::optional<llmc::precision> arithmetic;
  void (*launch)(problem&, cudaStream_t);
};

/// Runs the entry on a problem of its operation; throws what the launcher throws, llmc::unsupported
/// where the variant cannot do it.
void run(const entry& e, problem& p, cudaStream_t stream);

/// Such as "warp_per_row<256> tf32".
std::string to_string(const entry& e);

/// A launcher and all that can be asked of it.
struct operation {
  std::string name;  ///< the launcher's
  std::vector<parameter> parameters;
  std::vector<extents> awkward;  ///< shapes with tails of every kind, for tests
  std::vector<entry> entries;    ///< `automatic` first
  std::function<std::unique_ptr<problem>(const extents&, settings)> make_problem;
};

/// The shape that kernel_bench times where nothing else is said.
extents default_shape(const operation& o);

/// The largest shape within `shape` that the CPU reference checks in reasonable time.
extents checked_shape(const operation& o, const extents& shape);

/// All operations, in the order of a training step.
const std::vector<operation>& operations();

/// Throws std::invalid_argument if there is none.
const operation& operation_named(std::string_view name);

/// The names, shapes and variants of all operations, as text.
std::string listing();

}  // namespace llmc_registry
