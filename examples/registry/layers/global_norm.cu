#include <llmc/global_norm.cuh>
#include <llmc/reference/global_norm.hpp>

#include <cstring>

#include "registry/families/flat.hpp"
#include "registry/ladder.hpp"
#include "registry/layers/layers.hpp"

namespace llmc_registry {
namespace {

using llmc::clip_state;
using llmc::global_norm_variant;

constexpr float max_norm = 1;

class global_norm_problem : public problem {
 public:
  static constexpr auto& variants = llmc::global_norm_variants;
  template <global_norm_variant Variant>
  static constexpr int default_block_size = llmc::global_norm_block_size<Variant>;

  static std::vector<parameter> parameters() { return flat_parameters(); }
  static std::vector<extents> awkward() { return awkward_counts(); }

  global_norm_problem(const extents& e, settings s) : problem(s), count_(e.at("count")) {}

  template <global_norm_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::global_norm<Variant, BlockSize>(
        reinterpret_cast<clip_state*>(static_cast<float*>(result_)),
        scratch(llmc::global_norm_workspace_bytes(count_)), grads_, count_, max_norm, stream);
  }

  call_cost cost() const override { return costs::global_norm(count_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    clip_state state;
    llmc::reference::global_norm(&state, grads_.values().data(), count_, max_norm);
    float words[3];
    static_assert(sizeof state == sizeof words, "clip_state has three fields");
    std::memcpy(words, &state, sizeof words);
    return {std::vector<double>(words, words + 3)};
  }

  std::int64_t count_;
  array& grads_ = input("grads", count_);
  /// A clip_state, word by word: the bits of its integer are a tiny float, which the relative
  /// tolerance compares exactly.
  array& result_ = output("result", 3, {0, 1e-5});
};

}  // namespace

std::vector<operation> global_norm() {
  return {make_operation<global_norm_problem>("global_norm")};
}

}  // namespace llmc_registry
