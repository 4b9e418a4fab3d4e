#include <llmc/reference/split_matrix.hpp>
#include <llmc/split.cuh>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "registry/families/rows.hpp"
#include "registry/ladder.hpp"
#include "registry/layers/layers.hpp"

namespace llmc_registry {
namespace {

using llmc::split_matrix;
using llmc::split_variant;

constexpr std::array only_block_size{256};

/// Halves are compared as words of four bytes, and must be the same. They want to be aligned, so
/// `out` has room to move in.
class split_problem : public row_problem<gpt2_channels> {
 public:
  static constexpr auto& variants = llmc::split_variants;
  template <split_variant Variant>
  static constexpr int default_block_size = llmc::split_block_size<Variant>;
  template <auto Variant>
  static constexpr auto block_sizes() {
    return only_block_size;
  }

  split_problem(const extents& e, settings s) : row_problem(e, s) {}

  template <split_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::split<Variant, BlockSize>({out_ + unaligned_words(), shape_}, inp_, nullptr, stream);
  }

  call_cost cost() const override { return costs::split(shape_); }

 private:
  static constexpr std::int64_t alignment_words = 4;

  std::int64_t words() const {
    return static_cast<std::int64_t>(llmc::split_matrix_bytes(shape_) / sizeof(float));
  }
  /// Of `out` before the first one that is aligned.
  std::int64_t unaligned_words() const {
    const auto address = reinterpret_cast<std::uintptr_t>(static_cast<float*>(out_));
    const auto word = static_cast<std::int64_t>(address / sizeof(float));
    return (alignment_words - word % alignment_words) % alignment_words;
  }

  std::vector<std::vector<double>> reference() const override {
    const std::vector<double> wide = inp_.values();
    const std::vector<float> inp(wide.begin(), wide.end());
    std::vector<float> halves(static_cast<std::size_t>(words()));
    llmc::reference::split({halves.data(), shape_}, inp.data());
    std::vector<double> out = out_.values_before();
    std::copy(halves.begin(), halves.end(), out.begin() + unaligned_words());
    return {out};
  }

  array& inp_ = input("inp", count_);
  array& out_ = updated("out", words() + alignment_words - 1, {0, 0});
};

}  // namespace

std::vector<operation> split() {
  return {make_operation<split_problem>("split")};
}

}  // namespace llmc_registry
