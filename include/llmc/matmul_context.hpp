/// @file
/// What matrix products need between calls: a cuBLASLt handle, its workspace and a cache of plans.
/// Plain C++, so that a .cpp file can own a context and hand it to .cu files.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <type_traits>

#include <llmc/detail/checks.hpp>
#include <llmc/error.hpp>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN

namespace cublaslt {

inline void check(const char* function, const char* action, cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw cublas_error(
      std::string(function) + ": " + action + " failed: " + cublasLtGetStatusString(status),
      static_cast<int>(status));
}

/// A matrix as it lies in memory: row-major with `stride` floats between rows and `batch_stride`
/// between the matrices of a batch; `transposed` says that the product takes it the other way.
template <class Float>
struct matrix {
  Float* data;
  std::int64_t stride;
  bool transposed = false;
  std::int64_t batch_stride = 0;
};

/// out = factor * inp1 inp2 (+ bias in every row) (+ out): inp1 is (rows, inner), inp2 is
/// (inner, columns), out is (rows, columns), `batch` times.
struct product {
  matrix<float> out;
  matrix<const float> inp1;
  matrix<const float> inp2;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t inner;
  std::int64_t batch = 1;
  float factor = 1.0f;
  const float* bias = nullptr;
  accumulation mode = accumulation::overwrite;
  precision arithmetic = precision::ieee;
};

/// cuBLASLt's descriptors, destroyed with their owner.
template <class Handle, cublasStatus_t (*Destroy)(Handle)>
struct destroyer {
  void operator()(std::remove_pointer_t<Handle>* handle) const { Destroy(handle); }
};
template <class Handle, cublasStatus_t (*Destroy)(Handle)>
using owner = std::unique_ptr<std::remove_pointer_t<Handle>, destroyer<Handle, Destroy>>;

using library_owner = owner<cublasLtHandle_t, cublasLtDestroy>;
using operation_owner = owner<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using layout_owner = owner<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using preference_owner = owner<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

/// How one kind of product is run: descriptors and the algorithm chosen for them.
struct plan {
  operation_owner operation;
  layout_owner inp1;
  layout_owner inp2;
  layout_owner out;
  cublasLtMatmulAlgo_t algorithm;
};

/// cuBLASLt reads column-major matrices. The transpose of a row-major matrix is the same memory
/// read column by column, so out = inp1 inp2 is asked for as out' = inp2' inp1': the operands
/// change places, and each is transposed for cuBLASLt exactly if it is for us.
class plan_maker {
 public:
  plan_maker(const char* function, cublasLtHandle_t library, const product& p,
             std::size_t workspace)
      : function_(function), library_(library), product_(p), workspace_(workspace) {}

  plan make() const {
    plan result;
    result.operation = make_operation();
    result.inp1 = make_layout(product_.inp1, product_.inner, product_.rows);
    result.inp2 = make_layout(product_.inp2, product_.columns, product_.inner);
    result.out = make_layout(product_.out, product_.columns, product_.rows);
    result.algorithm = first_deterministic(result);
    return result;
  }

 private:
  operation_owner make_operation() const {
    const bool tf32 = product_.arithmetic == precision::tf32;
    cublasLtMatmulDesc_t handle = nullptr;
    check(function_, "cublasLtMatmulDescCreate",
          cublasLtMatmulDescCreate(
              &handle, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
    operation_owner operation(handle);
    set(handle, CUBLASLT_MATMUL_DESC_TRANSA, operation_of(product_.inp2.transposed));
    set(handle, CUBLASLT_MATMUL_DESC_TRANSB, operation_of(product_.inp1.transposed));
    if (product_.bias != nullptr) {
      set(handle, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(handle, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product_.bias);
    }
    return operation;
  }

  static cublasOperation_t operation_of(bool transposed) {
    return transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  }

  /// The layout of an operand that is (rows, columns) as the product takes it, column-major.
  template <class Float>
  layout_owner make_layout(const matrix<Float>& m, std::int64_t rows, std::int64_t columns) const {
    cublasLtMatrixLayout_t handle = nullptr;
    check(function_, "cublasLtMatrixLayoutCreate",
          cublasLtMatrixLayoutCreate(
              &handle, CUDA_R_32F, static_cast<std::uint64_t>(m.transposed ? columns : rows),
              static_cast<std::uint64_t>(m.transposed ? rows : columns), m.stride));
    layout_owner layout(handle);
    const auto batch = static_cast<std::int32_t>(product_.batch);
    check(function_, "setting the batch count",
          cublasLtMatrixLayoutSetAttribute(handle, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                           sizeof batch));
    check(function_, "setting the batch stride",
          cublasLtMatrixLayoutSetAttribute(handle, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                           &m.batch_stride, sizeof m.batch_stride));
    return layout;
  }

  /// The heuristic's first proposal that adds partial sums in a fixed order. No timing, so every
  /// process makes the same choice and gets the same bits.
  cublasLtMatmulAlgo_t first_deterministic(const plan& p) const {
    cublasLtMatmulPreference_t handle = nullptr;
    check(function_, "cublasLtMatmulPreferenceCreate", cublasLtMatmulPreferenceCreate(&handle));
    const preference_owner preference(handle);
    prefer(handle, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_);
    prefer(handle, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    // A and B are our inp2 and inp1, see the class comment.
    prefer(handle, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(product_.inp2.data));
    prefer(handle, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(product_.inp1.data));
    prefer(handle, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(product_.out.data));
    prefer(handle, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(product_.out.data));

    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    check(function_, "cublasLtMatmulAlgoGetHeuristic",
          cublasLtMatmulAlgoGetHeuristic(library_, p.operation.get(), p.inp2.get(), p.inp1.get(),
                                         p.out.get(), p.out.get(), handle, 1, &found, &count));
    check(function_, "finding an algorithm", count > 0 ? found.state : CUBLAS_STATUS_NOT_SUPPORTED);
    return found.algo;
  }

  template <class Value>
  void set(cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t attribute,
           const Value& value) const {
    check(function_, "cublasLtMatmulDescSetAttribute",
          cublasLtMatmulDescSetAttribute(handle, attribute, &value, sizeof value));
  }
  template <class Value>
  void prefer(cublasLtMatmulPreference_t handle, cublasLtMatmulPreferenceAttributes_t attribute,
              const Value& value) const {
    check(function_, "cublasLtMatmulPreferenceSetAttribute",
          cublasLtMatmulPreferenceSetAttribute(handle, attribute, &value, sizeof value));
  }

 public:
  /// The alignment that may be promised for a pointer. No kernel asks for more than 16 bytes, and a
  /// cap keeps the number of different plans small.
  static std::uint32_t alignment(const void* pointer) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    return address % 16 == 0 ? 16 : address % 8 == 0 ? 8 : 4;
  }

 private:
  const char* function_;
  cublasLtHandle_t library_;
  const product& product_;
  std::size_t workspace_;
};

}  // namespace cublaslt

/// Owns a cuBLASLt handle, 32 MiB of device memory for it, and the plans made so far.
///
/// A context belongs to the device that is current when it is made, and to one stream at a time:
/// two streams that run at once need two contexts, because products share the context's workspace.
///
/// The plan of a product is the heuristic's first deterministic proposal, found at the first call
/// with that shape. No call allocates device memory, so that products can be captured in a graph.
class matmul_context {
 public:
  /// Throws cuda_error or cublas_error if the device, the memory or the handle cannot be had.
  matmul_context() {
    constexpr const char* function = "llmc::matmul_context";
    check_cuda(function, "cudaGetDevice", cudaGetDevice(&device_));
    cublasLtHandle_t library = nullptr;
    cublaslt::check(function, "cublasLtCreate", cublasLtCreate(&library));
    library_.reset(library);
    void* memory = nullptr;
    check_cuda(function, "allocating the workspace", cudaMalloc(&memory, workspace_bytes));
    workspace_.reset(memory);
  }

  /// The device on which this context works.
  int device() const noexcept { return device_; }

  /// Runs a product; see cublaslt::product. An implementation detail of the layers, public for
  /// those who write layers of their own.
  void multiply(const char* function, const cublaslt::product& p, cudaStream_t stream) {
    require_current_device(function);
    const cublaslt::plan& plan = find_plan(function, p);
    if (p.bias != nullptr) {  // the descriptor is shared by all calls of this shape
      cublaslt::check(
          function, "setting the bias",
          cublasLtMatmulDescSetAttribute(plan.operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                         &p.bias, sizeof p.bias));
    }
    const float beta = p.mode == accumulation::add ? 1.0f : 0.0f;
    cublaslt::check(function, "cublasLtMatmul",
                    cublasLtMatmul(library_.get(), plan.operation.get(), &p.factor, p.inp2.data,
                                   plan.inp2.get(), p.inp1.data, plan.inp1.get(), &beta, p.out.data,
                                   plan.out.get(), p.out.data, plan.out.get(), &plan.algorithm,
                                   workspace_.get(), workspace_bytes, stream));
  }

 private:
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

  /// Everything that a plan depends on.
  using plan_key = std::array<std::int64_t, 18>;

  static plan_key key_of(const cublaslt::product& p) {
    const auto alignment = [](const void* pointer) -> std::int64_t {
      return cublaslt::plan_maker::alignment(pointer);
    };
    return {p.rows,
            p.columns,
            p.inner,
            p.batch,
            p.out.stride,
            p.inp1.stride,
            p.inp2.stride,
            p.out.batch_stride,
            p.inp1.batch_stride,
            p.inp2.batch_stride,
            p.inp1.transposed,
            p.inp2.transposed,
            alignment(p.out.data),
            alignment(p.inp1.data),
            alignment(p.inp2.data),
            p.bias != nullptr,
            p.mode == accumulation::add,
            static_cast<std::int64_t>(p.arithmetic)};
  }

  const cublaslt::plan& find_plan(const char* function, const cublaslt::product& p) {
    const plan_key key = key_of(p);
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
    cublaslt::plan_maker maker(function, library_.get(), p, workspace_bytes);
    return plans_.emplace(key, maker.make()).first->second;
  }

  void require_current_device(const char* function) const {
    int current = -1;
    check_cuda(function, "cudaGetDevice", cudaGetDevice(&current));
    if (current != device_) {
      checks::reject(function, "the context must be of the current device, " +
                                   std::to_string(current) + ", got one of device " +
                                   std::to_string(device_));
    }
  }

  static void check_cuda(const char* function, const char* action, cudaError_t code) {
    if (code == cudaSuccess) return;
    throw cuda_error(std::string(function) + ": " + action + " failed: " + cudaGetErrorString(code),
                     static_cast<int>(code));
  }

  struct device_memory_deleter {
    void operator()(void* memory) const { cudaFree(memory); }
  };

  int device_ = -1;
  cublaslt::library_owner library_;
  std::unique_ptr<void, device_memory_deleter> workspace_;
  std::map<plan_key, cublaslt::plan> plans_;
};

LLMC_TYPES_END
