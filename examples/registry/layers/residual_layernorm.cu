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

  array& inp1_ = input(count_);
  array& inp2_ = input(count_);
  array& residual_ = output("residual", count_, elementwise_tolerance());
};

class backward_problem : public layernorm_backward_problem {
 public:
  static constexpr auto& variants = llmc::residual_layernorm_backward_variants;
  template <residual_layernorm_backward_variant Variant>
  static constexpr int default_block_size = llmc::residual_layernorm_backward_block_size<Variant>;

  backward_problem(const extents& e, settings s) : layernorm_backward_problem(e, s) {}

  template <residual_layernorm_backward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::residual_layernorm_backward<Variant, BlockSize>(
        dinp_, nullptr, dweight_, dbias_,
        workspace(llmc::residual_layernorm_backward_workspace_bytes(shape_)), dout_, dresidual_,
        inp_, weight_, mean_, rstd_, shape_, mode(), stream);
  }

  call_cost cost() const override {
    return costs::residual_layernorm_backward(shape_, true, false, mode());
  }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> dinp = zeros(count_);
    std::vector<double> dweight = dweight_.values_before(), dbias = dbias_.values_before();
    llmc::reference::residual_layernorm_backward(
        dinp.data(), static_cast<double*>(nullptr), dweight.data(), dbias.data(),
        dout_.values().data(), dresidual_.values().data(), inp_.values().data(),
        weight_.values().data(), mean_.values().data(), rstd_.values().data(), shape_, mode());
    return {dinp, dweight, dbias};
  }

  array& dresidual_ = input(count_);
};

}  // namespace

std::vector<operation> residual_layernorm() {
  return {make_operation<forward_problem>("residual_layernorm_forward"),
          make_operation<backward_problem>("residual_layernorm_backward")};
}

}  // namespace llmc_registry
