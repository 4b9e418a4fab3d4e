/// @file
/// A row: numbers that a group shares, wherever they live, and the one way to visit them. A thread
/// sees its packs and where each one is:
///
///     row.visit([&](auto& x, auto where) { ... });         // changes to x may be lost
///     row.update([&](auto& x, auto where) { ... });        // and are kept where the row `keeps`
///     row.write(out, [&](auto& x, auto where) { ... });    // and go to out; the last visit
///
/// x is a pack of where.width numbers, where.column is the column of the first, and where.holds(i)
/// tells whether x[i] is one of the row's: rows that are read in whole packs may end within one.
/// at(other, where) is what lies at the same place of another row, or of an array in memory.
///
/// This file has rows in memory, which may be shared memory. row_in_registers.cuh, row_on_chip.cuh
/// and row_partly_kept.cuh have the others.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/group.cuh>

LLMC_NAMESPACE_BEGIN
namespace device {

/// The pack of an array in memory that is at this place of a row.
template <class Place>
__device__ __forceinline__ pack<Place::width> at(const float* array, Place where) {
  return load<Place::width>(array + where.column);
}
/// The same for a row, or for anything else that has a member `at`.
template <class Row, class Place>
__device__ __forceinline__ decltype(auto) at(Row& row, Place where) {
  return row.at(where);
}

/// An array for results that nobody reads soon.
struct streamed {
  float* array;
};

template <int Width>
__device__ __forceinline__ void put(float* array, std::int64_t column, pack<Width> x) {
  store<Width>(array + column, x);
}
template <int Width>
__device__ __forceinline__ void put(streamed out, std::int64_t column, pack<Width> x) {
  store_streaming<Width>(out.array + column, x);
}

/// Writes 0 to columns [first, end), in whole packs.
template <int Width, class Group, class Out>
__device__ __forceinline__ void clear_row(const Group&, Out out, std::int64_t first,
                                          std::int64_t end) {
  for (std::int64_t c = first + Group::worker() * Width; c < end; c += Group::size() * Width) {
    put<Width>(out, c, {});
  }
}

/// A row that stays in memory: each visit loads its numbers from there, or from the cache. They
/// come in packs of `Width` and, past the last whole pack, one by one. `Source` is the array, or an
/// object whose member `at` makes the packs.
template <class Group, int Width, class Source = const float*, int Batch = 4>
class row_in_memory {
 public:
  static constexpr bool keeps = false;
  static constexpr int end_width = 1;  ///< what begins at end() may be written in such packs

  template <int PackWidth>
  struct place {
    static constexpr int width = PackWidth;
    std::int64_t column;
    __device__ static constexpr bool holds(int) { return true; }
  };

  __device__ __forceinline__ row_in_memory(Source source, std::int64_t count)
      : source_(source), count_(count) {}

  __device__ __forceinline__ std::int64_t end() const { return count_; }

  template <class Place>
  __device__ __forceinline__ auto at(Place where) const {
    return device::at(source_, where);
  }

  template <class Body>
  __device__ __forceinline__ void visit(Body body) const {
    for_each_pack<Width>(count_, Group::worker(), Group::size(), [&](auto width, std::int64_t c) {
      const place<width()> where{c};
      auto x = at(where);
      body(x, where);
    });
  }
  template <class Body>
  __device__ __forceinline__ void update(Body body) const {
    visit(body);
  }

  /// visit() with several loads on their way at once: `body` gets arrays of packs.
  template <class Body>
  __device__ __forceinline__ void visit_batches(Body body) const {
    for_each_batch<Width, Batch>(count_, Group::worker(), Group::size(),
                                 [&](auto width, auto batch, std::int64_t c, std::int64_t step) {
                                   pack<width()> x[batch()];
                                   load_batch(x, source_ + c, step);
                                   body(x, place<width()>{c});
                                 });
  }

  /// A block's row is long: it is written backwards from the end, which the cache still holds.
  template <class Out, class Body>
  __device__ __forceinline__ void write(Out out, Body body) const {
    const auto write_pack = [&](auto width, std::int64_t c) {
      const place<width()> where{c};
      auto x = at(where);
      body(x, where);
      put<width()>(out, c, x);
    };
    if constexpr (Group::is_block) {
      for_each_pack_reversed<Width>(count_, Group::worker(), Group::size(), write_pack);
    } else {
      for_each_pack<Width>(count_, Group::worker(), Group::size(), write_pack);
    }
  }

 private:
  Source source_;
  std::int64_t count_;
};

/// A row whose numbers are those of another, multiplied by a factor.
template <class Row>
class scaled_row {
 public:
  __device__ __forceinline__ scaled_row(const Row& row, float factor)
      : row_(row), factor_(factor) {}

  template <class Body>
  __device__ __forceinline__ void visit(Body body) const {
    row_.visit([&](auto& x, auto where) {
      scale(x);
      body(x, where);
    });
  }
  template <class Body>
  __device__ __forceinline__ void visit_batches(Body body) const {
    row_.visit_batches([&](auto& packs, auto where) {
#pragma unroll
      for (auto& x : packs) scale(x);
      body(packs, where);
    });
  }
  template <class Out, class Body>
  __device__ __forceinline__ void write(Out out, Body body) const {
    row_.write(out, [&](auto& x, auto where) {
      scale(x);
      body(x, where);
    });
  }

 private:
  static_assert(!Row::keeps, "a row that keeps what it is told would be scaled at each visit");

  template <int Width>
  __device__ __forceinline__ void scale(pack<Width>& x) const {
#pragma unroll
    for (int i = 0; i < Width; ++i) x[i] *= factor_;
  }

  const Row& row_;
  float factor_;
};

}  // namespace device
LLMC_NAMESPACE_END
