/// @file
/// Rows of which a warp keeps the beginning in registers.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/reduce.cuh>

LLMC_NAMESPACE_BEGIN
namespace device {

/// One lane's share of `Arrays` rows of equal length: the packs lane, lane + 32 and so on. The
/// first `Packs` of them are loaded once and kept, so a row of 32 * Packs * Width numbers is read
/// from memory once however often it is visited; the rest of a longer one is read at every visit.
///
/// A row is walked in whole packs: where its length is no multiple of Width there must be memory
/// up to the next multiple, and the visitor leaves out what is not the row's.
template <int Width, int Arrays, int Packs>
class kept_rows {
 public:
  /// All loads are on their way before the first is waited for.
  __device__ __forceinline__ kept_rows(const float* const (&rows)[Arrays], std::int64_t count)
      : first_(static_cast<int>(threadIdx.x) % warp_size * Width),
        kept_(static_cast<int>(count < most_kept ? count : most_kept)),
        count_(count) {
#pragma unroll
    for (int a = 0; a < Arrays; ++a) rows_[a] = rows[a] + first_;
#pragma unroll
    for (int k = 0; k < Packs; ++k) {
      if (first_ + k * step < kept_) load_packs(values_[k], k * step);
    }
  }

  /// Calls `body(packs, c, valid)` for each pack: packs[a] is that of row a which begins at c, and
  /// its first `valid` numbers are the row's; all of them if that is more than there are.
  template <class Body>
  __device__ __forceinline__ void visit(Body body) {
#pragma unroll
    for (int k = 0; k < Packs; ++k) {
      const int c = first_ + k * step;
      if (c < kept_) body(values_[k], c, kept_ - c);
    }
#pragma unroll 1
    for (std::int64_t c = most_kept + first_; c < count_; c += step) {
      pack<Width> packs[Arrays];
      load_packs(packs, c - first_);
      body(packs, c, static_cast<int>(count_ - c < Width ? count_ - c : Width));
    }
  }

 private:
  static constexpr int step = warp_size * Width;
  static constexpr int most_kept = Packs * step;

  __device__ __forceinline__ void load_packs(pack<Width> (&packs)[Arrays],
                                             std::int64_t offset) const {
#pragma unroll
    for (int a = 0; a < Arrays; ++a) packs[a] = load<Width>(rows_[a] + offset);
  }

  pack<Width> values_[Packs][Arrays];
  const float* rows_[Arrays];  ///< from this lane's first pack on
  int first_;
  int kept_;  ///< numbers of the row that the warp keeps
  std::int64_t count_;
};

}  // namespace device
LLMC_NAMESPACE_END
