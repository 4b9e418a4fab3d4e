/// @file
/// Products by cuBLASLt: descriptors, algorithms, and running them. Plain C++.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <llmc/detail/matmul/plan_key.hpp>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/namespace.hpp>
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
  plan_maker(const char* function, cublasLtHandle_t library, const products::product& p,
             std::size_t workspace)
      : function_(function), library_(library), product_(p), workspace_(workspace) {}

  /// Descriptors, without an algorithm yet.
  plan make() const {
    plan result;
    result.operation = make_operation();
    result.inp1 = make_layout(product_.inp1, product_.inner, product_.rows);
    result.inp2 = make_layout(product_.inp2, product_.columns, product_.inner);
    result.out = make_layout(product_.out, product_.columns, product_.rows);
    return result;
  }

  /// The heuristic's first proposal that adds partial sums in a fixed order. No timing, so every
  /// process makes the same choice and gets the same bits.
  ///
  /// In FP32, sums into the output in turns are proposed too early for short sums (5% slower on an
  /// H100), but are up to 12% faster for the long ones of weight gradients.
  cublasLtMatmulAlgo_t first_deterministic(const plan& p) const {
    const bool in_turns = product_.arithmetic != precision::tf32 && product_.inp1.transposed;
    const std::vector<cublasLtMatmulAlgo_t> found =
        deterministic(p, 1, in_turns ? any_fixed_order : separate_step);
    check(function_, "finding an algorithm",
          found.empty() ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS);
    return found.front();
  }

  /// Up to `most` such proposals, best first.
  std::vector<cublasLtMatmulAlgo_t> deterministic(
      const plan& p, int most, std::uint32_t reductions = any_fixed_order) const {
    cublasLtMatmulPreference_t handle = nullptr;
    check(function_, "cublasLtMatmulPreferenceCreate", cublasLtMatmulPreferenceCreate(&handle));
    const preference_owner preference(handle);
    prefer(handle, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_);
    prefer(handle, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
    // A and B are our inp2 and inp1, see the class comment.
    const float* const added = product_.then.residual;
    const float* const addend = added == nullptr ? product_.out.data : added;
    prefer(handle, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
           products::alignment_of(product_.inp2.data));
    prefer(handle, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
           products::alignment_of(product_.inp1.data));
    prefer(handle, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, products::alignment_of(addend));
    prefer(handle, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
           products::alignment_of(product_.out.data));

    std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        library_, p.operation.get(), p.inp2.get(), p.inp1.get(), p.out.get(), p.out.get(), handle,
        most, found.data(), &count);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) {
      check(function_, "cublasLtMatmulAlgoGetHeuristic", status);
    }
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    for (int i = 0; i < count; ++i) {
      const auto& one = found[static_cast<std::size_t>(i)];
      if (one.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(one.algo);
    }
    return algorithms;
  }

 private:
  /// How partial sums meet, both in a fixed order: in a separate step, or also in the output, where
  /// counters say whose turn it is.
  static constexpr std::uint32_t separate_step = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  static constexpr std::uint32_t any_fixed_order =
      CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_INPLACE;

  operation_owner make_operation() const {
    const bool tf32 = product_.arithmetic == precision::tf32;
    cublasLtMatmulDesc_t handle = nullptr;
    check(function_, "cublasLtMatmulDescCreate",
          cublasLtMatmulDescCreate(
              &handle, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
    operation_owner operation(handle);
    set(handle, CUBLASLT_MATMUL_DESC_TRANSA, operation_of(product_.inp2.transposed));
    set(handle, CUBLASLT_MATMUL_DESC_TRANSB, operation_of(product_.inp1.transposed));
    if (product_.then.bias != nullptr) {
      set(handle, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(handle, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product_.then.bias);
    }
    return operation;
  }

  static cublasOperation_t operation_of(bool transposed) {
    return transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  }

  /// The layout of an operand that is (rows, columns) as the product takes it, column-major.
  template <class Float>
  layout_owner make_layout(const products::matrix<Float>& m, std::int64_t rows,
                           std::int64_t columns) const {
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

  const char* function_;
  cublasLtHandle_t library_;
  const products::product& product_;
  std::size_t workspace_;
};

/// Runs a product as planned.
inline void run(const char* function, cublasLtHandle_t library, const plan& plan,
                const products::product& p, void* workspace, std::size_t workspace_bytes,
                cudaStream_t stream) {
  if (p.then.bias != nullptr) {  // the descriptor is shared by all calls of this shape
    check(function, "setting the bias",
          cublasLtMatmulDescSetAttribute(plan.operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                         &p.then.bias, sizeof p.then.bias));
  }
  const bool adds = p.then.residual != nullptr;
  const float beta = adds ? 1.0f : 0.0f;
  const float* const addend = adds ? p.then.residual : p.out.data;
  check(function, "cublasLtMatmul",
        cublasLtMatmul(library, plan.operation.get(), &p.factor, p.inp2.data, plan.inp2.get(),
                       p.inp1.data, plan.inp1.get(), &beta, addend, plan.out.get(), p.out.data,
                       plan.out.get(), &plan.algorithm, workspace, workspace_bytes, stream));
}

}  // namespace cublaslt

LLMC_TYPES_END
