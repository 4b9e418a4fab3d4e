/// @file
/// An operation with all its arrays on the GPU. Different variants can run it, again and again; it
/// says whether the result is right, and what it costs.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <llmc/types.hpp>

#include "registry/costs.hpp"
#include "registry/device_memory.hpp"
#include "registry/tolerance.hpp"

LLMC_TYPES_BEGIN
class matmul_context;
LLMC_TYPES_END

namespace llmc_registry {

using llmc_test::tolerance;

/// Arrays on the GPU by the launcher's names for them.
using named_arrays = std::map<std::string, void*>;

/// How a problem's arrays lie and what its gradients meet.
struct settings {
  int misalignment = 0;  ///< of every array from a 256-byte boundary, in elements
  llmc::accumulation mode = llmc::accumulation::overwrite;
  /// Null: the problem makes its arrays. Else it takes all of them from here; an array may be null
  /// where the launcher takes null. Such a problem can only be launched, not checked.
  const named_arrays* callers = nullptr;
};

/// What an input is filled with.
struct normal {
  double deviation = 1;
  double mean = 0;
};

/// An array on the GPU: of floats, or of doubles for the few outputs that are in double.
class array {
 public:
  operator float*() const { return memory_ ? memory_->get() : callers_; }
  double* doubles() const { return reinterpret_cast<double*>(static_cast<float*>(*this)); }
  std::int64_t size() const { return count_; }

  /// What it holds, in double for the reference.
  std::vector<double> values() const;
  /// What it holds before a launch that updates it; zeros for an array that is overwritten.
  std::vector<double> values_before() const;

 private:
  friend class problem;
  std::int64_t floats() const { return in_double_ ? 2 * count_ : count_; }
  std::vector<double> widened(const llmc_test::buffer<float>& memory) const;
  enum class use { read, written, updated };

  std::string name_;
  std::int64_t count_ = 0;
  bool in_double_ = false;
  use use_ = use::read;
  std::unique_ptr<llmc_test::buffer<float>> memory_;  ///< null if it is the caller's
  float* callers_ = nullptr;
  tolerance allowed_{0, 0};
  tolerance allowed_rounded_{0, 0};
  std::unique_ptr<llmc_test::buffer<float>> before_;  ///< of an updated array
  std::unique_ptr<llmc_test::buffer<float>> kept_;
};

inline float* or_null(const array* a) {
  return a == nullptr ? nullptr : static_cast<float*>(*a);
}

/// The largest error among all outputs, as a multiple of what is allowed: right up to 1.
struct deviation {
  double ratio = 0;
  std::string text;  ///< says in which output it is, and where
};

/// The block sizes that are tried of a kernel that can be launched with any.
inline constexpr std::array any_block_size{32, 64, 96, 128, 256, 512, 1024};

/// Base of the problems of all operations. ladder.hpp says what such a class must have.
class problem {
 public:
  static constexpr bool has_precision = false;
  template <auto Variant>
  static constexpr auto block_sizes() {
    return any_block_size;
  }

  /// Whether the variant computes in FP32 whatever precision it is asked for. It is then swept over
  /// one precision only.
  template <auto Variant>
  static constexpr bool ignores_precision = false;

  virtual ~problem() = default;
  problem(const problem&) = delete;
  problem& operator=(const problem&) = delete;

  /// Says in which precision the next launches compute, where the operation takes one.
  void use(llmc::precision arithmetic) { arithmetic_ = arithmetic; }

  /// Calls `launches`, and for each of its products that has no plan yet times the ways to compute
  /// it; later launches take the fastest.
  void tune(cudaStream_t stream, const std::function<void()>& launches);

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
  /// Whether the outputs have the kept bits.
  bool holds_kept();

  /// Whether nothing was written outside the outputs.
  bool guards_intact() const;

  /// Its arrays, for another problem's `settings::callers`.
  named_arrays arrays() const;
  /// As the launcher calls them.
  const std::vector<std::string>& array_names() const { return array_names_; }

  /// What the operation must do at least.
  virtual call_cost cost() const = 0;
  /// The traffic if each array is read or written once, in full. `cost` cannot be more.
  std::int64_t array_bytes() const;

 protected:
  explicit problem(settings s) : settings_(s) {}

  /// Arrays live as long as the problem. Throws std::invalid_argument for one that the caller
  /// should have named.
  array& input(const std::string& name, std::int64_t count, normal contents = {});
  array& output(const std::string& name, std::int64_t count, tolerance allowed) {
    return output(name, count, allowed, allowed);
  }
  array& output(const std::string& name, std::int64_t count, tolerance allowed,
                tolerance allowed_rounded);
  array& updated(const std::string& name, std::int64_t count, tolerance allowed,
                 normal contents = {});
  /// Overwritten or added to, as the settings say.
  array& gradient(const std::string& name, std::int64_t count, tolerance allowed) {
    return gradient(name, count, allowed, allowed);
  }
  array& gradient(const std::string& name, std::int64_t count, tolerance allowed,
                  tolerance allowed_rounded);
  /// The same in double; not compared with what was kept.
  array& gradient_in_double(const std::string& name, std::int64_t count, tolerance allowed);
  const std::int32_t* integers(const std::string& name, const std::vector<std::int32_t>& values);

  /// Whether the arrays are its own, so that inputs may be made from other inputs.
  bool owns_arrays() const { return settings_.callers == nullptr; }

  /// Scratch of exactly that many bytes, with guards like every array.
  llmc::workspace scratch(std::size_t bytes);

  /// The context of its products, made when first asked for.
  llmc::matmul_context& context();

  llmc::accumulation mode() const { return settings_.mode; }
  llmc::precision arithmetic() const { return arithmetic_; }

 private:
  /// What every output must hold, in the order in which they were made.
  virtual std::vector<std::vector<double>> reference() const = 0;

  array& add(const std::string& name, array::use use, std::int64_t count, bool in_double = false);
  /// The caller's array of that name, if there are such.
  void* callers_array(const std::string& name);
  void make_updated(array& a, normal contents);
  tolerance allowed(const array& a) const;
  void fill(llmc_test::buffer<float>& memory, normal contents);
  template <class Body>
  void for_each_output(Body body);

  settings settings_;
  llmc::precision arithmetic_ = llmc::precision::ieee;
  std::uint64_t seed_ = 0;
  std::vector<std::string> array_names_;
  std::vector<std::unique_ptr<array>> arrays_;
  std::map<std::string, std::unique_ptr<llmc_test::buffer<std::int32_t>>> integers_;
  std::unique_ptr<llmc_test::scratch> scratch_;
  std::shared_ptr<llmc::matmul_context> context_;
  std::vector<std::vector<double>> expected_;
};

}  // namespace llmc_registry
