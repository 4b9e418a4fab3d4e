/// @file
/// Which rung of the ladder computes a product, as a type: only the kernel that a program names is
/// compiled into it. Plain C++.
#pragma once

#include <string>

#include <llmc/detail/namespace.hpp>
#include <llmc/error.hpp>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN

namespace products {

/// A variant that is a kernel of its own, with its block size. It takes the place that
/// `products::engines` has for the other variants.
template <auto Variant, int BlockSize, bool OfGradients>
struct rung {};

/// Whether a variant is a rung.
template <auto Variant>
inline constexpr bool is_rung = (Variant != decltype(Variant)::automatic) &&
                                (Variant != decltype(Variant)::cublaslt) &&
                                (Variant != decltype(Variant)::tensor_core);

}  // namespace products

namespace checks {

/// Rungs compute in FP32 for every precision, which is at least as exact. The rung on tensor cores,
/// wmma, has tf32 only.
template <auto Variant, int BlockSize>
void require_engines(const char* function, products::rung<Variant, BlockSize, false>,
                     precision arithmetic) {
  if constexpr (Variant == decltype(Variant)::wmma) {
    if (arithmetic == precision::tf32) return;
    throw unsupported(std::string(function) + ": the variant wmma has only tf32 arithmetic, got " +
                      to_string(arithmetic));
  }
}
template <auto Variant, int BlockSize>
void require_engines(const char*, products::rung<Variant, BlockSize, true>, precision) {}

}  // namespace checks

LLMC_TYPES_END
