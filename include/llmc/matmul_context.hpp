/// @file
/// What matrix products need between calls: a cuBLASLt handle, a workspace and a cache of plans.
/// Plain C++, so that a .cpp file can own a context and hand it to .cu files.
#pragma once

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <limits>
#include <map>
#include <ostream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/matmul/candidates.hpp>
#include <llmc/detail/matmul/cublaslt_plan.hpp>
#include <llmc/detail/matmul/device_memory.hpp>
#include <llmc/detail/matmul/plan_file.hpp>
#include <llmc/detail/matmul/plan_key.hpp>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/matmul/tensor_map.hpp>
#include <llmc/detail/matmul/tuning.hpp>
#include <llmc/error.hpp>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN

/// Owns a cuBLASLt handle, 32 MiB of device memory as workspace, and the plans made so far.
///
/// A context belongs to the device that is current when it is made, and to one stream at a time:
/// two streams that run at once need two contexts, because products share the context's workspace.
///
/// A plan says who computes a product of some shape: an algorithm of cuBLASLt or a kernel of llmc's
/// own. Without tuning it is a fixed rule, found at the first call without timing anything, so that
/// every process gets the same bits. `tune` times all candidates instead; keep its plans with
/// `save_plans` and `load_plans` where a later run shall have the same bits.
///
/// No product allocates device memory or waits, so that products can be captured in a graph.
class matmul_context {
 public:
  /// Throws cuda_error or cublas_error if the device, the memory or the handle cannot be had.
  matmul_context() {
    constexpr const char* function = "llmc::matmul_context";
    products::check_cuda(function, "cudaGetDevice", cudaGetDevice(&device_));
    cublasLtHandle_t library = nullptr;
    cublaslt::check(function, "cublasLtCreate", cublasLtCreate(&library));
    library_.reset(library);
    multiprocessors_ = attribute(function, cudaDevAttrMultiProcessorCount);
    compute_capability_ = 10 * attribute(function, cudaDevAttrComputeCapabilityMajor) +
                          attribute(function, cudaDevAttrComputeCapabilityMinor);
    workspace_ = products::allocate_zeroed(function, "allocating the workspace", workspace_bytes);
    flags_ =
        products::allocate_zeroed(function, "allocating flags", flag_count * sizeof(std::int32_t));
  }

  /// The device on which this context works.
  int device() const noexcept { return device_; }

  // ---- plans ----

  /// Calls `body`, which runs layers with this context on `stream`: a training step, say. Every
  /// product whose plan is not yet from a tuning or a file is first timed with all candidates, on
  /// scratch outputs, and the fastest becomes its plan; then it runs for real, so that `body` has
  /// the effects it always has.
  ///
  /// Allocates and synchronises. Throws invalid_argument if `stream` is being captured or `body`
  /// runs a product that is to be tuned on another stream, cuda_error if there is no memory for the
  /// scratch, and whatever `body` throws; plans found until then are kept.
  template <class Body>
  void tune(cudaStream_t stream, Body body) {
    constexpr const char* function = "llmc::matmul_context::tune";
    require_current_device(function);
    products::require_not_capturing(function, stream);
    products::stopwatch watch(function, device_, stream);
    struct restorer {
      products::stopwatch*& place;
      products::stopwatch* before;
      ~restorer() { place = before; }
    } const restore{watch_, watch_};
    watch_ = &watch;
    body();
    products::check_cuda(function, "waiting for the stream", cudaStreamSynchronize(stream));
  }

  /// Writes the plans that `tune` found or `load_plans` read, as text.
  void save_plans(std::ostream& to) const {
    std::vector<products::saved_plan> saved;
    for (const auto& [key, plan] : plans_) {
      if (plan.fixed) saved.emplace_back(key, plan.choice);
    }
    std::sort(saved.begin(), saved.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    products::write_plans(
        to, products::plan_file_header("llmc::matmul_context::save_plans", device_), saved);
  }

  /// Reads plans that `save_plans` wrote; `name` is what errors call the file. Throws
  /// invalid_argument, and changes nothing, if they are of another version of llmc or cuBLASLt or
  /// of another card, or if the text is not whole.
  void load_plans(std::istream& from, const std::string& name) {
    constexpr const char* function = "llmc::matmul_context::load_plans";
    products::plan_reader reader(function, from, name);
    for (auto& [key, choice] : reader.read(products::plan_file_header(function, device_))) {
      plans_.insert_or_assign(key, fixed_plan(std::move(choice)));
    }
  }

  // ---- for layers, and for those who write layers of their own ----

  /// Runs a product by cuBLASLt, which knows a bias and a residual only.
  void multiply(const char* function, const products::product& p, cudaStream_t stream) {
    run(
        function, p, products::engines::library, [] { return products::candidates{}; }, stream);
  }

  /// Runs a product by one of the candidates that `list` returns. It is asked only where there is
  /// no plan yet, and the names and launchers in it must outlive the context. A launcher may itself
  /// run products.
  template <class ListCandidates>
  void run(const char* function, const products::product& p, products::engines allowed,
           ListCandidates list, cudaStream_t stream) {
    require_current_device(function);
    product_plan& chosen = plans_[products::key_of(p, allowed)];  // stays where it is
    if (watch_ != nullptr && !chosen.fixed) {
      chosen = fixed_plan(fastest(function, p, list(), stream));
    }
    if (!chosen.ready) make_ready(function, chosen, p, list());
    run_as_planned(function, chosen, p, stream);
  }

  /// The kernel that a tuned or loaded plan says, or null if there is none.
  const char* planned_kernel(const products::product& p, products::engines allowed) const {
    const auto found = plans_.find(products::key_of(p, allowed));
    if (found == plans_.end() || !found->second.fixed) return nullptr;
    const products::chosen& choice = found->second.choice;
    return choice.library ? "cublaslt" : choice.kernel.c_str();
  }

  /// Scratch of a product while it runs, shared with cuBLASLt.
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;
  void* workspace() const noexcept { return workspace_.get(); }

  /// Device memory that is zero whenever no product runs: who sets a flag clears it.
  static constexpr int flag_count = 1024;
  std::int32_t* flags() const noexcept { return static_cast<std::int32_t*>(flags_.get()); }

  int multiprocessors() const noexcept { return multiprocessors_; }
  /// 10 * major + minor.
  int compute_capability() const noexcept { return compute_capability_; }

  /// Whether this kernel was built for the device in such a way that it takes blocks of that size.
  /// Kernels that need more than an architecture has are compiled for it empty, with smaller launch
  /// bounds.
  bool has_kernel(const void* kernel, int block_size) {
    const auto [found, is_new] = most_threads_.try_emplace(kernel, 0);
    if (is_new) {
      cudaFuncAttributes attributes{};
      if (cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess) {
        found->second = attributes.maxThreadsPerBlock;
      } else {
        cudaGetLastError();  // asking was no error of the program's
      }
    }
    return found->second >= block_size;
  }

  /// How bulk copies are told of a matrix.
  CUtensorMap tensor_map(const char* function, const products::tensor_box& box) {
    return tensor_maps_.find(function, box);
  }

 private:
  /// Who computes a kind of product.
  struct product_plan {
    products::chosen choice;
    bool fixed = false;  ///< by tuning or a file
    bool ready = false;  ///< what follows is set, and so is a choice of cuBLASLt's algorithm
    products::kernel_candidate own{};
    cublaslt::plan library{};
  };

  static product_plan fixed_plan(products::chosen choice) {
    product_plan plan;
    plan.choice = std::move(choice);
    plan.fixed = true;
    return plan;
  }

  cublaslt::plan_maker maker(const char* function, const products::product& p) const {
    return {function, library_.get(), p, workspace_bytes};
  }

  /// Makes the choice, if there is none yet, and what it needs.
  void make_ready(const char* function, product_plan& plan, const products::product& p,
                  const products::candidates& list) {
    if (!plan.fixed) {
      plan.choice.library = list.preferred < 0;
      if (!plan.choice.library) plan.choice.kernel = kernel_at(list, list.preferred).name;
    }
    if (plan.choice.library) {
      const cublaslt::plan_maker make = maker(function, p);
      plan.library = make.make();
      if (!plan.fixed) plan.choice.algorithm = make.first_deterministic(plan.library);
      plan.library.algorithm = plan.choice.algorithm;
    } else {
      plan.own = kernel_named(function, plan.choice.kernel, list);
    }
    plan.ready = true;
  }

  static const products::kernel_candidate& kernel_at(const products::candidates& list, int i) {
    return list.kernels[static_cast<std::size_t>(i)];
  }

  static products::kernel_candidate kernel_named(const char* function, const std::string& name,
                                                 const products::candidates& list) {
    for (int i = 0; i < list.count; ++i) {
      if (kernel_at(list, i).name == name) return kernel_at(list, i);
    }
    throw unsupported(std::string(function) + ": the plan says kernel '" + name +
                      "', which cannot do this product in this build on this device");
  }

  void run_as_planned(const char* function, const product_plan& plan, const products::product& p,
                      cudaStream_t stream) {
    if (plan.choice.library) {
      cublaslt::run(function, library_.get(), plan.library, p, workspace_.get(), workspace_bytes,
                    stream);
    } else {
      plan.own.launch(function, p, *this, stream);
    }
  }

  /// Times all candidates. One that fails is passed over.
  products::chosen fastest(const char* function, const products::product& p,
                           const products::candidates& list, cudaStream_t stream) {
    if (stream != watch_->stream()) {
      checks::reject(function, "the stream must be the one given to tune until products are tuned");
    }
    products::require_not_capturing(function, stream);
    const products::scratch_product scratch(function, p);
    constexpr float never = std::numeric_limits<float>::infinity();
    float best_time = never;
    products::chosen best;
    product_plan candidate;
    const auto consider = [&] {
      const auto call = [&] { run_as_planned(function, candidate, scratch.get(), stream); };
      const float time = watch_->time_of(call, best_time);
      if (time < best_time) {
        best_time = time;
        best = candidate.choice;
      }
    };
    candidate.choice.library = false;
    for (int i = 0; i < list.count; ++i) {
      candidate.own = kernel_at(list, i);
      candidate.choice.kernel = candidate.own.name;
      consider();
    }
    if (list.library) {
      constexpr int most_algorithms = 32;
      const cublaslt::plan_maker make = maker(function, scratch.get());
      candidate.choice = {};
      candidate.library = make.make();
      for (const auto& algorithm : make.deterministic(candidate.library, most_algorithms)) {
        candidate.library.algorithm = candidate.choice.algorithm = algorithm;
        consider();
      }
    }
    products::check_cuda(function, "waiting for the stream", cudaStreamSynchronize(stream));
    if (best_time == never) {
      throw unsupported(std::string(function) + ": no candidate can do this product");
    }
    return best;
  }

  void require_current_device(const char* function) const {
    int current = -1;
    products::check_cuda(function, "cudaGetDevice", cudaGetDevice(&current));
    if (current != device_) {
      checks::reject(function, "the context must be of the current device, " +
                                   std::to_string(current) + ", got one of device " +
                                   std::to_string(device_));
    }
  }

  int attribute(const char* function, cudaDeviceAttr which) const {
    int value = 0;
    products::check_cuda(function, "cudaDeviceGetAttribute",
                         cudaDeviceGetAttribute(&value, which, device_));
    return value;
  }

  int device_ = -1;
  int multiprocessors_ = 0;
  int compute_capability_ = 0;
  cublaslt::library_owner library_;
  products::device_memory workspace_;
  products::device_memory flags_;
  std::unordered_map<products::plan_key, product_plan, products::plan_key_hash> plans_;
  std::map<const void*, int> most_threads_;  ///< in a block of each kernel that was asked for
  products::tensor_map_cache tensor_maps_;
  products::stopwatch* watch_ = nullptr;  ///< while tuning
};

LLMC_TYPES_END
