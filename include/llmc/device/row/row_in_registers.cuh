/// @file
/// A row that stays in the registers of the threads that share it, so that memory sees each number
/// once however often it is needed.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/row.cuh>

LLMC_NAMESPACE_BEGIN
namespace device {

/// One thread's share of a row of at most Floats * Group::size() numbers, a multiple of Width: the
/// packs rank, rank + size, and so on. All 0 at first.
template <class Group, int Width, int Floats>
class row_in_registers {
  static constexpr int packs = Floats / Width;

 public:
  static constexpr bool keeps = true;

  /// A place of any such row of the same group.
  struct place {
    static constexpr int width = Width;
    int column;
    int number;  ///< of this thread's packs
    __device__ static constexpr bool holds(int) { return true; }
  };

  __device__ __forceinline__ explicit row_in_registers(int count) : count_(count) {}

  /// All loads are on their way before the first is waited for.
  __device__ __forceinline__ void load(const float* row) {
    for_each_place([&](place where) { at(where) = device::at(row, where); });
  }
  __device__ __forceinline__ void store(float* row) const {
    for_each_place([&](place where) { put(row, where.column, values_[where.number]); });
  }
  __device__ __forceinline__ void add(const row_in_registers& other) {
#pragma unroll
    for (int k = 0; k < packs; ++k) {
#pragma unroll
      for (int i = 0; i < Width; ++i) values_[k][i] += other.values_[k][i];
    }
  }

  __device__ __forceinline__ pack<Width>& at(place where) {
    return values_[where.number];
  }
  __device__ __forceinline__ const pack<Width>& at(place where) const {
    return values_[where.number];
  }

  template <class Body>
  __device__ __forceinline__ void for_each_place(Body body) const {
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      const int c = column(k);
      if (c < count_) body(place{c, k});
    }
  }
  template <class Body>
  __device__ __forceinline__ void visit(Body body) {
    for_each_place([&](place where) { body(at(where), where); });
  }
  template <class Body>
  __device__ __forceinline__ void update(Body body) {
    visit(body);
  }
  /// The stores come last: the compiler cannot move a load before a store that it may depend on.
  template <class Body>
  __device__ __forceinline__ void write(float* out, Body body) {
    visit(body);
    store(out);
  }
  /// The same without branches between the packs, so that the loads of several are on their way at
  /// once: `body(x, where, inside)` gets packs past the row's end, too, and must not load there.
  template <class Body>
  __device__ __forceinline__ void write_all(float* out, Body body) {
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      const int c = column(k);
      body(values_[k], place{c, k}, c < count_);
    }
    store(out);
  }

 private:
  __device__ __forceinline__ static int column(int k) {
    return (Group::rank() + k * Group::size()) * Width;
  }

  pack<Width> values_[packs] = {};
  int count_;
};

}  // namespace device
LLMC_NAMESPACE_END
