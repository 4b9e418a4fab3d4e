#include <llmc/reference/residual_layernorm.hpp>
#include <llmc/residual_layernorm.cuh>

#include "registry/families/layernorm.hpp"
#include "registry/ladder.hpp"
#include "registry/layers/layers.hpp"

namespace llmc_registry {
namespace {

using llmc::residual_layernorm_backward_variant;
using llmc::residual_layernorm_forward_variant;
using llmc_test::elementwise_tolerance;

class forward_problem : public layernorm_forward_problem {
 public:
  static constexpr auto& variants = llmc::residual_layernorm_forward_variants;
  template <residual_layernorm_forward_variant Variant>
  static constexpr int default_block_size = llmc::residual_layernorm_forward_block_size<Variant>;

  // The sum itself is rounded, which an rstd above 1 makes larger.
  forward_problem(const extents& e, settings s) : layernorm_forward_problem(e, s, 2) {}

  template <residual_layernorm_forward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::residual_layernorm_forward<Variant, BlockSize>(residual_, out_, mean_, rstd_, inp1_,
                                                         inp2_, weight_, bias_, shape_,
                                                         layernorm_epsilon, stream);
  }

  call_cost cost() const override { return costs::residual_layernorm_forward(shape_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> residual = zeros(count_), out = residual;
    std::vector<double> mean = zeros(shape_.rows), rstd = mean;
    llmc::reference::residual_layernorm_forward(residual.data(), out.data(), mean.data(),
                                                rstd.data(), inp1_.values().data(),
                                                inp2_.values().data(), weight_.values().data(),
                                                bias_.values().data(), shape_, layernorm_epsilon);
    return {out, mean, rstd, residual};
  }

  array& inp1_ = input("inp1", count_);
  array& inp2_ = input("inp2", count_);
  array& residual_ = output("residual", count_, elementwise_tolerance());
};

/// With `HasBias` it also sums dinp over the rows, as the trainer asks for it.
template <bool HasBias>
class backward_problem : public layernorm_backward_problem {
 public:
  static constexpr auto& variants = llmc::residual_layernorm_backward_variants;
  template <residual_layernorm_backward_variant Variant>
  static constexpr int default_block_size = llmc::residual_layernorm_backward_block_size<Variant>;

  backward_problem(const extents& e, settings s) : layernorm_backward_problem(e, s, "residual") {}

  template <residual_layernorm_backward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::residual_layernorm_backward<Variant, BlockSize>(
        dinp_, or_null(dinp_bias_), dweight_, dbias_,
        scratch(llmc::residual_layernorm_backward_workspace_bytes(shape_)), dout_, dresidual_, inp_,
        weight_, mean_, rstd_, shape_, mode(), stream);
  }

  call_cost cost() const override {
    return costs::residual_layernorm_backward(shape_, true, HasBias, mode());
  }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> dinp = zeros(count_), dinp_bias;
    if (HasBias) dinp_bias = dinp_bias_->values_before();
    std::vector<double> dweight = dweight_.values_before(), dbias = dbias_.values_before();
    llmc::reference::residual_layernorm_backward(
        dinp.data(), HasBias ? dinp_bias.data() : nullptr, dweight.data(), dbias.data(),
        dout_.values().data(), dresidual_.values().data(), inp_.values().data(),
        weight_.values().data(), mean_.values().data(), rstd_.values().data(), shape_, mode());
    if (!HasBias) return {dinp, dweight, dbias};
    return {dinp, dweight, dbias, dinp_bias};
  }

  array& dresidual_ = input("dresidual", count_);
  array* dinp_bias_ =
      HasBias ? &gradient("dinp_bias", shape_.channels,
                          summed_over_rows(normalised_tolerance(shape_.channels, 4), shape_.rows))
              : nullptr;
};

}  // namespace

std::vector<operation> residual_layernorm() {
  return {make_operation<forward_problem>("residual_layernorm_forward"),
          make_operation<backward_problem<false>>("residual_layernorm_backward"),
          make_operation<backward_problem<true>>("residual_layernorm_backward_with_dinp_bias")};
}

}  // namespace llmc_registry
