/// @file
/// What the choice of a product's kernel, and so its bits, depends on. Plain C++.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <llmc/detail/matmul/kernels.hpp>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/namespace.hpp>

LLMC_TYPES_BEGIN

namespace products {

/// All are numbers, so that keys can be compared, hashed and written to a file.
struct plan_key {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t inner;
  std::int64_t batch;
  std::int64_t scaled;  ///< 1 if the factor is not 1
  std::int64_t out_stride;
  std::int64_t inp1_stride;
  std::int64_t inp2_stride;
  std::int64_t out_batch_stride;
  std::int64_t inp1_batch_stride;
  std::int64_t inp2_batch_stride;
  std::int64_t inp1_layout;
  std::int64_t inp2_layout;
  std::int64_t out;  ///< this and the next ones: see presence_of
  std::int64_t inp1;
  std::int64_t inp2;
  std::int64_t bias;
  std::int64_t before_gelu;
  std::int64_t gelu_inp;
  std::int64_t residual;  ///< also in_place
  std::int64_t column_sums;
  std::int64_t arithmetic;
  std::int64_t allowed;     ///< engines
  std::int64_t candidates;  ///< what this build has on this device, see candidates::set
};

/// The same in the order of plan files, to go through.
using plan_numbers = std::array<std::int64_t, sizeof(plan_key) / sizeof(std::int64_t)>;
inline plan_numbers numbers_of(const plan_key& key) {
  plan_numbers numbers;
  std::memcpy(numbers.data(), &key, sizeof key);
  return numbers;
}
inline plan_key key_of(const plan_numbers& numbers) {
  plan_key key;
  std::memcpy(&key, numbers.data(), sizeof key);
  return key;
}

inline bool operator==(const plan_key& a, const plan_key& b) {
  return numbers_of(a) == numbers_of(b);
}
inline bool operator<(const plan_key& a, const plan_key& b) {
  return numbers_of(a) < numbers_of(b);
}

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

inline plan_key key_of(const product& p, const candidates& among) {
  constexpr std::int64_t in_place = 4;
  const epilogue& e = p.then;
  plan_key key{};
  key.rows = p.rows;
  key.columns = p.columns;
  key.inner = p.inner;
  key.batch = p.batch;
  key.scaled = p.factor == 1.0f ? 0 : 1;
  key.out_stride = p.out.stride;
  key.inp1_stride = p.inp1.stride;
  key.inp2_stride = p.inp2.stride;
  key.out_batch_stride = p.out.batch_stride;
  key.inp1_batch_stride = p.inp1.batch_stride;
  key.inp2_batch_stride = p.inp2.batch_stride;
  key.inp1_layout = static_cast<std::int64_t>(p.inp1.order);
  key.inp2_layout = static_cast<std::int64_t>(p.inp2.order);
  key.out = presence_of(p.out.data);
  key.inp1 = presence_of(p.inp1.data);
  key.inp2 = presence_of(p.inp2.data);
  key.bias = presence_of(e.bias);
  key.before_gelu = presence_of(e.before_gelu);
  key.gelu_inp = presence_of(e.gelu_inp);
  key.residual = e.residual == p.out.data ? in_place : presence_of(e.residual);
  key.column_sums = presence_of(e.column_sums);
  key.arithmetic = static_cast<std::int64_t>(p.arithmetic);
  key.allowed = static_cast<std::int64_t>(among.allowed());
  key.candidates = among.set();
  return key;
}

struct plan_key_hash {
  std::size_t operator()(const plan_key& key) const {
    std::uint64_t hash = 0;
    for (const std::int64_t number : numbers_of(key)) {
      hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 32;
    }
    return static_cast<std::size_t>(hash);
  }
};

}  // namespace products

LLMC_TYPES_END
