/// @file
/// An operation with all its arrays on the GPU, which can be run again and again by different
/// variants and says whether the result is right and how much work it is.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <llmc/types.hpp>

#include "registry/costs.hpp"
#include "registry/device_memory.hpp"
#include "registry/tolerance.hpp"

namespace llmc_registry {

using llmc_test::tolerance;

/// How a problem's arrays lie and what its gradients meet.
struct settings {
  int misalignment = 0;  ///< of every array from a 256-byte boundary, in elements
  llmc::accumulation mode = llmc::accumulation::overwrite;
};

/// What an input is filled with.
struct normal {
  double deviation = 1;
  double mean = 0;
};

/// An array of floats on the GPU.
class array {
 public:
  array(std::int64_t count, int misalignment) : memory_(count, misalignment) {}

  operator float*() const { return memory_; }
  std::int64_t size() const { return static_cast<std::int64_t>(memory_.size()); }

  /// What it holds, in double for the reference.
  std::vector<double> values() const;
  /// What it holds before a launch that updates it; zeros for an array that is overwritten.
  std::vector<double> values_before() const;

 private:
  friend class problem;
  enum class use { read, written, updated };

  llmc_test::buffer<float> memory_;
  use use_ = use::read;
  std::string name_;
  tolerance allowed_{0, 0};
  tolerance allowed_in_tf32_{0, 0};
  std::unique_ptr<llmc_test::buffer<float>> before_;  ///< of an updated array
  std::unique_ptr<llmc_test::buffer<float>> kept_;
};

/// The largest error among all outputs, as a multiple of what is allowed: right up to 1.
struct deviation {
  double ratio = 0;
  std::string text;  ///< says of which output, and where
};

/// The block sizes for which every kernel is instantiated that can be launched with any.
inline constexpr std::array any_block_size{32, 64, 96, 128, 256, 512, 1024};

/// Base of the problems of all operations. What ladder.hpp asks of such a class is said there.
class problem {
 public:
  static constexpr bool has_precision = false;
  template <auto Variant>
  static constexpr auto block_sizes() {
    return any_block_size;
  }

  /// Whether the variant computes in FP32 whatever precision it is asked for, so that one will do.
  template <auto Variant>
  static constexpr bool ignores_precision = false;

  virtual ~problem() = default;
  problem(const problem&) = delete;
  problem& operator=(const problem&) = delete;

  /// Says in which precision the next launches compute, where the operation takes one.
  void use(llmc::precision arithmetic) { arithmetic_ = arithmetic; }

  /// Makes ready for a launch that is checked: outputs become NaN, so that what is not written is
  /// wrong, and what is updated gets its first contents back.
  void reset(cudaStream_t stream);
  /// Makes ready for a launch that is timed: only what is updated.
  void restore(cudaStream_t stream);

  /// Compares every output with the reference on the CPU in double, which runs once.
  deviation compare_with_reference();
  /// Keeps the outputs, and compares the next ones with them, for shapes that are too large for the
  /// reference.
  void keep(cudaStream_t stream);
  deviation compare_with_kept(cudaStream_t stream);

  /// Whether nothing was written outside the outputs.
  bool guards_intact() const;

  /// What the operation must do at least.
  virtual call_cost cost() const = 0;
  /// The traffic of all arrays, each read or written once: the most that `cost` can say.
  std::int64_t array_bytes() const;

 protected:
  explicit problem(settings s) : settings_(s) {}

  /// Arrays live as long as the problem.
  array& input(std::int64_t count, normal contents = {});
  array& output(std::string name, std::int64_t count, tolerance allowed) {
    return output(std::move(name), count, allowed, allowed);
  }
  array& output(std::string name, std::int64_t count, tolerance allowed, tolerance allowed_in_tf32);
  array& updated(std::string name, std::int64_t count, tolerance allowed, normal contents = {});
  /// Overwritten or added to, as the settings say.
  array& gradient(std::string name, std::int64_t count, tolerance allowed) {
    return gradient(std::move(name), count, allowed, allowed);
  }
  array& gradient(std::string name, std::int64_t count, tolerance allowed,
                  tolerance allowed_in_tf32);
  const std::int32_t* integers(const std::vector<std::int32_t>& values);

  /// Scratch of at least that many bytes, with guards like every array.
  void* workspace(std::size_t bytes);

  llmc::accumulation mode() const { return settings_.mode; }
  llmc::precision arithmetic() const { return arithmetic_; }

 private:
  /// What every output must hold, in the order in which they were made.
  virtual std::vector<std::vector<double>> reference() const = 0;

  array& add(array::use use, std::int64_t count);
  void make_updated(array& a, normal contents);
  tolerance allowed(const array& a) const;
  void fill(llmc_test::buffer<float>& memory, normal contents);
  template <class Body>
  void for_each_output(Body body);

  settings settings_;
  llmc::precision arithmetic_ = llmc::precision::ieee;
  std::uint64_t seed_ = 0;
  std::vector<std::unique_ptr<array>> arrays_;
  std::vector<std::unique_ptr<llmc_test::buffer<std::int32_t>>> integers_;
  std::unique_ptr<llmc_test::buffer<unsigned char>> workspace_;
  std::vector<std::vector<double>> expected_;
};

}  // namespace llmc_registry
