/// @file
/// What matrix products need between calls: a cuBLASLt handle, a workspace and a cache of plans.
/// Plain C++, so that a .cpp file can own a context and hand it to .cu files.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <istream>
#include <ostream>
#include <string>

#include <llmc/detail/matmul/context/cublaslt.hpp>
#include <llmc/detail/matmul/context/device_memory.hpp>
#include <llmc/detail/matmul/context/plan_cache.hpp>
#include <llmc/detail/matmul/context/plan_file.hpp>
#include <llmc/detail/matmul/context/resources.hpp>
#include <llmc/detail/matmul/context/tuning.hpp>
#include <llmc/detail/matmul/kernels.hpp>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/namespace.hpp>

LLMC_TYPES_BEGIN

/// Owns a cuBLASLt handle, 32 MiB of device memory as workspace, and the plans made so far.
///
/// A context belongs to the device that is current when it is made, and to one stream at a time:
/// two streams that run at once need two contexts, because products share the context's workspace.
/// Files that are compiled for different architectures may share a context: each computes its
/// products by the kernels that it has, whichever file came first.
///
/// A plan says who computes a product of some shape: an algorithm of cuBLASLt or a kernel of llmc's
/// own. Without tuning the first call makes it by a fixed rule and times nothing, so that every
/// process gets the same bits. `tune` times all candidates instead. Where a later run must have the
/// same bits, keep the tuned plans with `save_plans` and `load_plans`.
///
/// Outside `tune` no product allocates device memory or waits, so that products can be captured in
/// a graph.
class matmul_context {
 public:
  /// Throws cuda_error or cublas_error if the device, the memory or the handle cannot be had.
  matmul_context() : resources_("llmc::matmul_context") {}

  /// The device on which this context works.
  int device() const noexcept { return resources_.device(); }
  /// 10 * major + minor.
  int compute_capability() const noexcept { return resources_.compute_capability(); }
  /// The size of the workspace, nearly all of the device memory that a context takes.
  static constexpr std::size_t workspace_bytes = products::resources::workspace_bytes;

  /// Calls `body`, which runs layers with this context on `stream`: a training step, say. A product
  /// whose plan is not yet from a tuning or a file is first timed with all candidates, on scratch
  /// outputs, and the fastest becomes its plan. Then the product runs on its own outputs, so that
  /// `body` has the effects it always has.
  ///
  /// Allocates and synchronises. Throws invalid_argument if `stream` is being captured, or if
  /// `body` runs a product that is to be tuned on another stream; cuda_error if there is no memory
  /// for the scratch; and whatever `body` throws. Plans found until then are kept.
  template <class Body>
  [[gnu::visibility("hidden")]] void tune(cudaStream_t stream, Body body) {
    constexpr const char* function = "llmc::matmul_context::tune";
    resources_.require_current_device(function);
    products::require_not_capturing(function, stream);
    products::stopwatch watch(function, device(), stream);
    const products::plan_cache::tuning while_it_lives(plans_, watch);
    body();
    products::check_cuda(function, "waiting for the stream", cudaStreamSynchronize(stream));
  }

  /// Writes the plans that `tune` found or `load_plans` read, as text.
  void save_plans(std::ostream& to) const {
    products::write_plans(to,
                          products::plan_file_header("llmc::matmul_context::save_plans", device()),
                          plans_.fixed_plans());
  }

  /// Reads plans that `save_plans` wrote; `name` is what errors call the file. Throws
  /// invalid_argument, and changes nothing, if they are of another version of llmc or cuBLASLt or
  /// of another card, or if the text is not whole. A plan counts only for builds that have the same
  /// kernels to choose from; `save_plans` writes the other plans again, too.
  void load_plans(std::istream& from, const std::string& name) {
    constexpr const char* function = "llmc::matmul_context::load_plans";
    products::plan_reader reader(function, from, name);
    plans_.fix(reader.read(products::plan_file_header(function, device())));
  }

  // ---- for layers, llmc's and your own ----

  products::resources& resources() noexcept { return resources_; }
  products::plan_cache& plans() noexcept { return plans_; }
  const products::plan_cache& plans() const noexcept { return plans_; }

  /// Runs a product by cuBLASLt, whose only epilogues are a bias and a residual.
  void multiply(const char* function, const products::product& p, cudaStream_t stream) {
    products::candidates library(products::engines::library);
    library.add(products::kernel::cublaslt);
    run(function, p, library, stream, [&](const products::product& q, const products::plan& plan) {
      run_library(function, q, plan, stream);
    });
  }

  /// Finds a product's plan and calls `run_as(product, plan)`, see plan_cache::find.
  template <class Run>
  [[gnu::visibility("hidden")]] void run(const char* function, const products::product& p,
                                         const products::candidates& among, cudaStream_t stream,
                                         Run run_as) {
    resources_.require_current_device(function);
    run_as(p, plans_.find(function, p, among, resources_, stream, run_as));
  }

  /// Runs a plan of cuBLASLt's.
  void run_library(const char* function, const products::product& p, const products::plan& plan,
                   cudaStream_t stream) const {
    cublaslt::run(function, resources_.library(), plan.library, plan.choice.algorithm, p,
                  resources_.workspace(), workspace_bytes, stream);
  }

 private:
  products::resources resources_;
  products::plan_cache plans_;
};

LLMC_TYPES_END
