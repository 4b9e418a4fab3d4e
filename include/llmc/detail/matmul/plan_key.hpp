/// @file
/// What the choice of a product's kernel depends on, as numbers that can be compared and written to
/// a file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <llmc/detail/matmul/candidates.hpp>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/namespace.hpp>

LLMC_TYPES_BEGIN

namespace products {

using plan_key = std::array<std::int64_t, 22>;

/// The alignment that may be promised for a pointer. No kernel asks for more than 16 bytes, and a
/// cap keeps the number of different plans small.
inline std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return address % 16 == 0 ? 16 : address % 8 == 0 ? 8 : 4;
}

/// 0 for what is not there, 1 to 3 by alignment.
inline std::int64_t presence_of(const void* pointer) {
  return pointer == nullptr           ? 0
         : alignment_of(pointer) == 4 ? 1
         : alignment_of(pointer) == 8 ? 2
                                      : 3;
}

inline plan_key key_of(const product& p, engines allowed) {
  const epilogue& e = p.then;
  const bool in_place = e.residual == p.out.data;
  return {p.rows,
          p.columns,
          p.inner,
          p.batch,
          p.factor == 1.0f,
          p.out.stride,
          p.inp1.stride,
          p.inp2.stride,
          p.out.batch_stride,
          p.inp1.batch_stride,
          p.inp2.batch_stride,
          (p.inp1.transposed ? 1 : 0) + (p.inp2.transposed ? 2 : 0),
          presence_of(p.out.data),
          presence_of(p.inp1.data),
          presence_of(p.inp2.data),
          presence_of(e.bias),
          presence_of(e.before_gelu),
          presence_of(e.gelu_inp),
          in_place ? 4 : presence_of(e.residual),
          presence_of(e.column_sums),
          static_cast<std::int64_t>(p.arithmetic),
          static_cast<std::int64_t>(allowed)};
}

struct plan_key_hash {
  std::size_t operator()(const plan_key& key) const {
    std::uint64_t hash = 0;
    for (const std::int64_t value : key) {
      hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 32;
    }
    return static_cast<std::size_t>(hash);
  }
};

}  // namespace products

LLMC_TYPES_END
