#include <llmc/classifier.cuh>
#include <llmc/reference/classifier.hpp>

#include "registry/families/vocabulary.hpp"
#include "registry/ladder.hpp"
#include "registry/layers/layers.hpp"

namespace llmc_registry {
namespace {

using llmc::classifier_forward_backward_variant;

constexpr float dloss = 1.0f / gpt2_rows;

class classifier_problem : public problem {
 public:
  static constexpr auto& variants = llmc::classifier_forward_backward_variants;
  template <classifier_forward_backward_variant Variant>
  static constexpr int default_block_size = llmc::classifier_forward_backward_block_size<Variant>;

  static std::vector<parameter> parameters() { return logits_parameters(); }
  static std::vector<extents> awkward() { return awkward_logits(); }

  classifier_problem(const extents& e, settings s) : problem(s), shape_(logits_shape_of(e)) {}

  template <classifier_forward_backward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::classifier_forward_backward<Variant, BlockSize>(logits_, losses_, out_of_range_,
                                                          gpu_targets_, shape_, {dloss}, stream);
  }

  call_cost cost() const override { return costs::classifier_forward_backward(shape_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> logits = logits_.values_before(), losses = zeros(shape_.rows);
    llmc::reference::classifier_forward_backward(logits.data(), losses.data(), nullptr,
                                                 targets_.data(), shape_, dloss);
    return {logits, losses};
  }

  llmc::classifier_shape shape_;
  std::vector<std::int32_t> targets_ = random_targets(shape_);
  const std::int32_t* gpu_targets_ = integers("targets", targets_);
  llmc_test::buffer<std::uint64_t> out_of_range_{std::vector<std::uint64_t>{0}};
  array& logits_ = updated("logits", count_of(shape_), dlogits_tolerance(shape_.vocabulary, dloss));
  array& losses_ = output("losses", shape_.rows, loss_tolerance(shape_.vocabulary));
};

}  // namespace

std::vector<operation> classifier() {
  return {make_operation<classifier_problem>("classifier_forward_backward")};
}

}  // namespace llmc_registry
