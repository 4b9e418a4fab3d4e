#include <llmc/crossentropy.cuh>
#include <llmc/reference/crossentropy.hpp>

#include "registry/families/vocabulary.hpp"
#include "registry/ladder.hpp"
#include "registry/layers/layers.hpp"

namespace llmc_registry {
namespace {

using llmc::crossentropy_backward_variant;
using llmc::crossentropy_forward_variant;

class forward_problem : public problem {
 public:
  static constexpr auto& variants = llmc::crossentropy_forward_variants;
  template <crossentropy_forward_variant Variant>
  static constexpr int default_block_size = llmc::crossentropy_forward_block_size<Variant>;

  static std::vector<parameter> parameters() { return logits_parameters(); }
  static std::vector<extents> awkward() { return awkward_logits(); }

  forward_problem(const extents& e, settings s) : problem(s), shape_(logits_shape_of(e)) {}

  template <crossentropy_forward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::crossentropy_forward<Variant, BlockSize>(losses_, out_of_range_, logits_, gpu_targets_,
                                                   shape_, stream);
  }

  call_cost cost() const override { return costs::crossentropy_forward(shape_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> losses = zeros(shape_.rows);
    llmc::reference::crossentropy_forward(losses.data(), nullptr, logits_.values().data(),
                                          targets_.data(), shape_);
    return {losses};
  }

  llmc::classifier_shape shape_;
  std::vector<std::int32_t> targets_ = random_targets(shape_);
  const std::int32_t* gpu_targets_ = integers("targets", targets_);
  llmc_test::buffer<std::uint64_t> out_of_range_{std::vector<std::uint64_t>{0}};
  array& logits_ = input("logits", count_of(shape_));
  array& losses_ = output("losses", shape_.rows, loss_tolerance(shape_.vocabulary));
};

class backward_problem : public problem {
 public:
  static constexpr auto& variants = llmc::crossentropy_backward_variants;
  template <crossentropy_backward_variant Variant>
  static constexpr int default_block_size = llmc::crossentropy_backward_block_size<Variant>;

  static std::vector<parameter> parameters() { return logits_parameters(); }
  static std::vector<extents> awkward() { return awkward_logits(); }

  backward_problem(const extents& e, settings s) : problem(s), shape_(logits_shape_of(e)) {}

  template <crossentropy_backward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::crossentropy_backward<Variant, BlockSize>(dlogits_, logits_, gpu_targets_, shape_,
                                                    {1.0f, dlosses_}, stream);
  }

  call_cost cost() const override { return costs::crossentropy_backward(shape_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> dlogits = zeros(count_of(shape_));
    llmc::reference::crossentropy_backward(dlogits.data(), dlosses_.values().data(),
                                           logits_.values().data(), targets_.data(), shape_);
    return {dlogits};
  }

  llmc::classifier_shape shape_;
  std::vector<std::int32_t> targets_ = random_targets(shape_);
  const std::int32_t* gpu_targets_ = integers("targets", targets_);
  array& dlosses_ = input("dlosses", shape_.rows, {0.1, 1});
  array& logits_ = input("logits", count_of(shape_));
  array& dlogits_ = output("dlogits", count_of(shape_), dlogits_tolerance(shape_.vocabulary, 1));
};

}  // namespace

std::vector<operation> crossentropy() {
  return {make_operation<forward_problem>("crossentropy_forward"),
          make_operation<backward_problem>("crossentropy_backward")};
}

}  // namespace llmc_registry
