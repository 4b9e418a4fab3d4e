/// @file
/// Products by cuBLASLt: descriptors, algorithms, and running them. Plain C++.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include <llmc/detail/matmul/context/plan_key.hpp>
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

/// The descriptors of one kind of product.
struct plan {
  operation_owner operation;
  layout_owner inp1;
  layout_owner inp2;
  layout_owner out;
};

/// Proposals of the heuristic, best first. Not in a std::vector: cuBLASLt's structs have no name of
/// their own, and nvcc 13.0 does not survive a vector of such structs in C++20.
struct algorithms {
  static constexpr int most = 32;
  std::array<cublasLtMatmulAlgo_t, most> list{};
  int count = 0;
};

/// cuBLASLt reads column-major matrices. The transpose of a row-major matrix is the same memory
/// read column by column, so out = inp1 inp2 is asked for as out' = inp2' inp1', and the operands
/// change places. Its first operand, inp2', is (columns, inner), and is column-major where ours is
/// outer first.
class plan_maker {
 public:
  plan_maker(const char* function, cublasLtHandle_t library, const products::product& p,
             std::size_t workspace)
      : function_(function), library_(library), product_(p), workspace_(workspace) {}

  plan make() const {
    const products::product& p = product_;
    plan result;
    result.operation = make_operation();
    result.inp1 = is_inner_first(p.inp1) ? make_layout(p.inp1, p.inner, p.rows)
                                         : make_layout(p.inp1, p.rows, p.inner);
    result.inp2 = is_inner_first(p.inp2) ? make_layout(p.inp2, p.inner, p.columns)
                                         : make_layout(p.inp2, p.columns, p.inner);
    result.out = make_layout(p.out, p.columns, p.rows);
    return result;
  }

  /// The heuristic's first proposal that adds partial sums in a fixed order. No timing, so every
  /// process makes the same choice and gets the same bits.
  ///
  /// In FP32 the heuristic proposes sums into the output in turns for short sums already, where
  /// they are 5% slower on an H100. They are up to 12% faster for the long sums of weight
  /// gradients, and are allowed there only.
  cublasLtMatmulAlgo_t first_deterministic(const plan& p) const {
    const bool in_turns = !rounds() && !is_inner_first(product_.inp1);
    const algorithms found = proposals(p, 1, in_turns ? any_fixed_order : separate_step);
    check(function_, "finding an algorithm",
          found.count == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS);
    return found.list[0];
  }

  /// All such proposals.
  algorithms deterministic(const plan& p) const {
    return proposals(p, algorithms::most, any_fixed_order);
  }

 private:
  /// How partial sums meet, both in a fixed order: in a separate step, or also in the output, where
  /// counters say whose turn it is.
  static constexpr std::uint32_t separate_step = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  static constexpr std::uint32_t any_fixed_order =
      CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_INPLACE;

  algorithms proposals(const plan& p, int most, std::uint32_t reductions) const {
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

    std::array<cublasLtMatmulHeuristicResult_t, algorithms::most> found;
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        library_, p.operation.get(), p.inp2.get(), p.inp1.get(), p.out.get(), p.out.get(), handle,
        most, found.data(), &count);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) {
      check(function_, "cublasLtMatmulAlgoGetHeuristic", status);
    }
    algorithms result;
    for (int i = 0; i < count; ++i) {
      const auto& one = found[static_cast<std::size_t>(i)];
      if (one.state != CUBLAS_STATUS_SUCCESS) continue;
      result.list[static_cast<std::size_t>(result.count++)] = one.algo;
    }
    return result;
  }

  operation_owner make_operation() const {
    cublasLtMatmulDesc_t handle = nullptr;
    check(function_, "cublasLtMatmulDescCreate",
          cublasLtMatmulDescCreate(
              &handle, rounds() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
    operation_owner operation(handle);
    const bool turns_1 = !is_inner_first(product_.inp1), turns_2 = is_inner_first(product_.inp2);
    set(handle, CUBLASLT_MATMUL_DESC_TRANSA, turns_2 ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(handle, CUBLASLT_MATMUL_DESC_TRANSB, turns_1 ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (product_.then.bias != nullptr) {
      set(handle, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(handle, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product_.then.bias);
    }
    return operation;
  }

  bool rounds() const { return !facts_of(product_.arithmetic).is_exact(); }
  static bool is_inner_first(const products::operand& m) {
    return m.order == products::layout::inner_first;
  }

  /// The layout of `lines` lines of `length` neighbours: columns, as cuBLASLt calls them.
  template <class Matrix>
  layout_owner make_layout(const Matrix& m, std::int64_t length, std::int64_t lines) const {
    cublasLtMatrixLayout_t handle = nullptr;
    check(function_, "cublasLtMatrixLayoutCreate",
          cublasLtMatrixLayoutCreate(&handle, CUDA_R_32F, static_cast<std::uint64_t>(length),
                                     static_cast<std::uint64_t>(lines), m.stride));
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

/// Runs a product as planned, by that algorithm.
inline void run(const char* function, cublasLtHandle_t library, const plan& plan,
                const cublasLtMatmulAlgo_t& algorithm, const products::product& p, void* workspace,
                std::size_t workspace_bytes, cudaStream_t stream) {
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
                       plan.out.get(), &algorithm, workspace, workspace_bytes, stream));
}

}  // namespace cublaslt

LLMC_TYPES_END
