/// @file
/// How each precision multiplies on tensor cores. Kernels are written over `precision_traits`, so
/// that a precision is added by a row of precision_table (types.hpp), its traits here, and the tile
/// sizes of the kernels that take it.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/tensor_core/mma.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

/// One lane's registers of an operand. In one part, `high` is the rounded number. In two parts,
/// high + low is nearly the whole number, and a product is high * high + (high * low + low * high).
/// The two small products must be summed before the large one or apart from it: the tensor core's
/// adder truncates and would drop them.
template <int Count, int Parts>
struct operand_parts;
template <int Count>
struct operand_parts<Count, 1> {
  std::uint32_t high[Count];
};
template <int Count>
struct operand_parts<Count, 2> {
  std::uint32_t high[Count];
  std::uint32_t low[Count];
};

/// How numbers of one format are multiplied: by `Products` products of their parts.
template <operand_format Operands, int Products>
struct operand_traits;

/// What to ask of a precision.
template <precision Arithmetic>
struct precision_traits
    : operand_traits<facts_of(Arithmetic).operands, facts_of(Arithmetic).products> {
  static constexpr bool on_tensor_cores = facts_of(Arithmetic).on_tensor_cores();
  static constexpr bool is_exact = facts_of(Arithmetic).is_exact();
};

template <precision Arithmetic, int Count>
using operand_fragment = typename precision_traits<Arithmetic>::template fragment<Count>;

template <>
struct operand_traits<operand_format::fp32, 1> {};

template <int Products>
struct operand_traits<operand_format::tf32, Products> {
  static_assert(Products == 1 || Products == 3, "an operand has one part or two");

  /// Code for earlier architectures has none of these products.
  static constexpr int least_architecture = 80;
  static constexpr bool is_compiled = has_tf32_mma;

  using element = float;  ///< of a tile in shared memory, whole: its readers split it
  static constexpr int parts = Products == 1 ? 1 : 2;
  static constexpr bool is_split = parts == 2;
  template <int Count>
  using fragment = operand_parts<Count, parts>;

  /// The tensor core reads the upper 19 bits of a float and drops the rest. Multiplying by this
  /// factor first adds 0.34 to 0.69 of the last bit that stays, so that dropping the rest then
  /// rounds: without bias on average, to an rms of 0.32 of that bit (0.29 would be the best, 0.58
  /// is plain dropping). Numbers that are TF32 already, infinities and NaN stay what they are. The
  /// factor costs one instruction where cvt.rna.tf32 costs four on sm_90.
  static constexpr float rounding = 1.000339f;
  static constexpr float log2_rounding = 4.889907e-4f;

  /// Floats as operands: rounded, or in two parts whose sum differs from x by 2^-22 of it at most
  /// (`low` is not rounded: the tensor core drops what it cannot hold).
  template <int Count>
  static __device__ __forceinline__ fragment<Count> split(const float (&x)[Count]) {
    fragment<Count> result;
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      result.high[i] = __float_as_uint(x[i] * rounding);
      if constexpr (is_split) {
        constexpr std::uint32_t kept_bits = 0xffffe000u;
        result.low[i] = __float_as_uint(x[i] - __uint_as_float(result.high[i] & kept_bits));
      }
    }
    return result;
  }

  /// The same, but for operands in one part `x` has been multiplied by `rounding` already.
  template <int Count>
  static __device__ __forceinline__ fragment<Count> split_rounded(const float (&x)[Count]) {
    if constexpr (is_split) {
      return split(x);
    } else {
      fragment<Count> result;
#pragma unroll
      for (int i = 0; i < Count; ++i) result.high[i] = __float_as_uint(x[i]);
      return result;
    }
  }

  /// sum += a b, of one part of each. The tensor core truncates when it adds, so a long sum wants a
  /// fresh `sum` now and then, added to the rest by an ordinary FP32 addition.
  static __device__ __forceinline__ void multiply(float (&sum)[4], const std::uint32_t (&a)[4],
                                                  const std::uint32_t (&b)[2]) {
    mma_tf32(sum, a, b);
  }

  /// What to multiply a sum of split operands by, because the tensor core truncated. Truncating
  /// takes `ulps` * 2^-23 of the sum off on average (measured), towards 0, and a long sum of
  /// positive numbers would be off by as much. Sums of numbers without low parts are often exact
  /// and must stay so: the factor is 1 where `sample`, a fragment of one operand, has no low parts.
  /// It is 1 for operands in one part, too: their rounding is a far larger error.
  static __device__ __forceinline__ float truncation_factor(const fragment<4>& sample, int ulps) {
    if constexpr (is_split) {
      const std::uint32_t low = sample.low[0] | sample.low[1] | sample.low[2] | sample.low[3];
      constexpr float ulp = 1.1920929e-7f;
      return low == 0 ? 1.0f : 1.0f + static_cast<float>(ulps) * ulp;
    } else {
      return 1.0f;
    }
  }
};

}  // namespace device
LLMC_NAMESPACE_END
