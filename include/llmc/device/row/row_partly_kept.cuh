/// @file
/// A row whose beginning a warp keeps in registers. The rest stays in memory.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/row.cuh>

LLMC_NAMESPACE_BEGIN
namespace device {

/// The first `Packs` packs of a thread are loaded once and kept, so a row of Group::size() * Packs
/// * Width numbers is read from memory once however often it is visited; the rest of a longer row
/// is read at every visit.
///
/// A row is walked in whole packs: where its length is no multiple of Width there must be memory up
/// to the next multiple.
template <class Group, int Width, int Packs>
class row_partly_kept {
 public:
  static constexpr bool keeps = false;  ///< not all of it
  static constexpr int end_width = Width;

  struct kept_place {
    static constexpr int width = Width;
    int column;
    int valid;
    int number;  ///< of this thread's packs
    __device__ bool holds(int i) const { return i < valid; }
  };
  struct far_place {
    static constexpr int width = Width;
    std::int64_t column;
    int valid;
    __device__ bool holds(int i) const { return i < valid; }
  };

  /// All loads are on their way before the first is waited for.
  __device__ __forceinline__ row_partly_kept(const float* row, std::int64_t count)
      : first_(Group::rank() * Width),
        kept_(static_cast<int>(count < most_kept ? count : most_kept)),
        row_(row),
        count_(count) {
#pragma unroll
    for (int k = 0; k < Packs; ++k) {
      if (first_ + k * step < kept_) values_[k] = load<Width>(row + first_ + k * step);
    }
  }

  __device__ __forceinline__ std::int64_t end() const {
    return (count_ + Width - 1) / Width * Width;
  }

  __device__ __forceinline__ pack<Width> at(kept_place where) const {
    return values_[where.number];
  }
  __device__ __forceinline__ pack<Width> at(far_place where) const {
    return load<Width>(row_ + where.column);
  }

  /// `body` gets copies.
  template <class Body>
  __device__ __forceinline__ void visit(Body body) const {
#pragma unroll
    for (int k = 0; k < Packs; ++k) {
      const kept_place where{first_ + k * step, kept_ - (first_ + k * step), k};
      if (where.column >= kept_) continue;
      auto x = at(where);
      body(x, where);
    }
#pragma unroll 1
    for (std::int64_t c = most_kept + first_; c < count_; c += step) {
      const far_place where{c, static_cast<int>(count_ - c < Width ? count_ - c : Width)};
      auto x = at(where);
      body(x, where);
    }
  }
  template <class Body>
  __device__ __forceinline__ void update(Body body) const {
    visit(body);
  }
  template <class Body>
  __device__ __forceinline__ void visit_batches(Body body) const {
    visit([&](auto& x, auto where) {
      pack<Width> batch[1] = {x};
      body(batch, where);
    });
  }
  template <class Out, class Body>
  __device__ __forceinline__ void write(Out out, Body body) const {
    visit([&](auto& x, auto where) {
      body(x, where);
      put<Width>(out, where.column, x);
    });
  }

 private:
  static_assert(Group::is_warp, "a warp keeps a row in part");
  static constexpr int step = warp_size * Width;
  static constexpr int most_kept = Packs * step;

  pack<Width> values_[Packs];
  int first_;  ///< column of this thread's first pack
  int kept_;   ///< numbers of the row that the group keeps
  const float* row_;
  std::int64_t count_;
};

}  // namespace device
LLMC_NAMESPACE_END
