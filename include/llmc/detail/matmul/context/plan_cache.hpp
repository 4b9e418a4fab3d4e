/// @file
/// Plans say who computes a product. They are found once for each kind of product and kept. Plain
/// C++.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <istream>
#include <limits>
#include <ostream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/matmul/context/cublaslt.hpp>
#include <llmc/detail/matmul/context/plan_file.hpp>
#include <llmc/detail/matmul/context/plan_key.hpp>
#include <llmc/detail/matmul/context/resources.hpp>
#include <llmc/detail/matmul/context/tuning.hpp>
#include <llmc/detail/matmul/kernels.hpp>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/namespace.hpp>

LLMC_TYPES_BEGIN

namespace products {

/// Who computes a kind of product. It names a kernel and does not point to it: each file that runs
/// the plan calls its own kernel of that name (catalogue.cuh).
struct plan {
  chosen choice;
  bool fixed = false;        ///< by tuning or a file
  cublaslt::plan library{};  ///< of cuBLASLt's algorithm, made at the first use
};

class plan_cache {
 public:
  /// The plan of a product. Unless tuning or a file has fixed it, it says the preferred kernel;
  /// while tuning, the fastest, which is then fixed. `run(product, plan)` runs a product as a plan
  /// says, and may itself find and run plans. The plan that is returned stays where it is until
  /// plans are loaded.
  template <class Run>
  [[gnu::visibility("hidden")]] const plan& find(const char* function, const product& p,
                                                 const candidates& among, const resources& on,
                                                 cudaStream_t stream, Run run) {
    plan& found = plans_[key_of(p, among)];
    if (watch_ != nullptr && !found.fixed) {
      plan fastest = fastest_of(function, p, among, on, stream, run);
      if (fastest.fixed) found = std::move(fastest);
    }
    if (!found.fixed) found.choice.by = among.preferred();
    if (found.choice.by == kernel::cublaslt && found.library.operation == nullptr) {
      const cublaslt::plan_maker maker(function, on.library(), p, resources::workspace_bytes);
      cublaslt::plan library = maker.make();
      if (!found.fixed) found.choice.algorithm = maker.first_deterministic(library);
      found.library = std::move(library);
    }
    return found;
  }

  /// The kernel that a tuned or loaded plan says, or null if there is none.
  const kernel* fixed_kernel(const product& p, const candidates& among) const {
    const auto found = plans_.find(key_of(p, among));
    return found == plans_.end() || !found->second.fixed ? nullptr : &found->second.choice.by;
  }

  /// While such an object lives, find() tunes with its watch.
  class tuning {
   public:
    tuning(plan_cache& plans, stopwatch& watch) : plans_(plans), before_(plans.watch_) {
      plans.watch_ = &watch;
    }
    ~tuning() { plans_.watch_ = before_; }
    tuning(const tuning&) = delete;
    tuning& operator=(const tuning&) = delete;

   private:
    plan_cache& plans_;
    stopwatch* before_;
  };

  /// The plans that were tuned or loaded, sorted.
  std::vector<saved_plan> fixed_plans() const {
    std::vector<saved_plan> saved;
    for (const auto& [key, one] : plans_) {
      if (one.fixed) saved.emplace_back(key, one.choice);
    }
    std::sort(saved.begin(), saved.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    return saved;
  }
  void fix(const std::vector<saved_plan>& saved) {
    for (const auto& [key, choice] : saved) {
      plan one;
      one.choice = choice;
      one.fixed = true;
      plans_.insert_or_assign(key, std::move(one));
    }
  }

 private:
  /// Times all candidates; those that fail are passed over. Not fixed if all fail.
  template <class Run>
  [[gnu::visibility("hidden")]] plan fastest_of(const char* function, const product& p,
                                                const candidates& among, const resources& on,
                                                cudaStream_t stream, Run run) const {
    if (stream != watch_->stream()) {
      checks::reject(function, "the stream must be the one given to tune until products are tuned");
    }
    require_not_capturing(function, stream);
    const scratch_product scratch(function, p);
    float best_time = std::numeric_limits<float>::infinity();
    plan best, candidate;
    const auto consider = [&] {
      const auto call = [&] { run(scratch.get(), candidate); };
      const float time = watch_->time_of(call, best_time);
      if (!(time < best_time)) return;
      best_time = time;
      best.choice = candidate.choice;
      best.fixed = true;
    };
    for (const kernel who : kernels) {
      if (who == kernel::cublaslt || !among.has(who)) continue;
      candidate.choice.by = who;
      consider();
    }
    if (among.has(kernel::cublaslt)) {
      const cublaslt::plan_maker maker(function, on.library(), scratch.get(),
                                       resources::workspace_bytes);
      candidate.choice.by = kernel::cublaslt;
      candidate.library = maker.make();
      const cublaslt::algorithms found = maker.deterministic(candidate.library);
      for (int i = 0; i < found.count; ++i) {
        candidate.choice.algorithm = found.list[static_cast<std::size_t>(i)];
        consider();
      }
    }
    check_cuda(function, "waiting for the stream", cudaStreamSynchronize(stream));
    return best;
  }

  std::unordered_map<plan_key, plan, plan_key_hash> plans_;
  stopwatch* watch_ = nullptr;  ///< while tuning
};

}  // namespace products

LLMC_TYPES_END
