#include <llmc/reference/residual_layernorm.hpp>
#include <llmc/residual_layernorm.cuh>

#include "ladder.hpp"
#include "layernorm.hpp"
#include "layers.hpp"

namespace llmc_registry {
namespace {

using llmc::residual_layernorm_backward_variant;
using llmc::residual_layernorm_forward_variant;
using llmc_test::elementwise_tolerance;
using llmc_test::sum_tolerance;

class forward_problem : public problem {
 public:
  static constexpr auto& variants = llmc::residual_layernorm_forward_variants;
  template <residual_layernorm_forward_variant Variant>
  static constexpr int default_block_size = llmc::residual_layernorm_forward_block_size<Variant>;

  static std::vector<parameter> parameters() { return row_parameters(gpt2_channels); }
  static std::vector<extents> awkward() { return awkward_rows(); }

  forward_problem(const extents& e, settings s) : problem(s), shape_(row_shape_of(e)) {}

  template <residual_layernorm_forward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::residual_layernorm_forward<Variant, BlockSize>(residual_, out_, mean_, rstd_, inp1_,
                                                         inp2_, weight_, bias_, shape_,
                                                         layernorm_epsilon, stream);
  }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> residual = zeros(count_of(shape_)), out = residual;
    std::vector<double> mean = zeros(shape_.rows), rstd = mean;
    llmc::reference::residual_layernorm_forward(residual.data(), out.data(), mean.data(),
                                                rstd.data(), inp1_.values().data(),
                                                inp2_.values().data(), weight_.values().data(),
                                                bias_.values().data(), shape_, layernorm_epsilon);
    return {residual, out, mean, rstd};
  }

  llmc::row_shape shape_;
  array& inp1_ = input(count_of(shape_));
  array& inp2_ = input(count_of(shape_));
  array& weight_ = input(shape_.channels);
  array& bias_ = input(shape_.channels);
  array& residual_ = output("residual", count_of(shape_), elementwise_tolerance());
  // The sum itself is rounded, which an rstd above 1 makes larger.
  array& out_ = output("out", count_of(shape_), normalised_tolerance(shape_.channels, 2));
  array& mean_ = output("mean", shape_.rows, sum_tolerance(shape_.channels, 2));
  array& rstd_ = output("rstd", shape_.rows, rstd_tolerance(shape_.channels));
};

class backward_problem : public problem {
 public:
  static constexpr auto& variants = llmc::residual_layernorm_backward_variants;
  template <residual_layernorm_backward_variant Variant>
  static constexpr int default_block_size = llmc::residual_layernorm_backward_block_size<Variant>;

  static std::vector<parameter> parameters() { return row_parameters(gpt2_channels); }
  static std::vector<extents> awkward() { return awkward_rows(); }

  backward_problem(const extents& e, settings s) : problem(s), shape_(row_shape_of(e)) {
    layernorm_statistics(mean_, rstd_, residual_, shape_);
  }

  template <residual_layernorm_backward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::residual_layernorm_backward<Variant, BlockSize>(
        dinp_, dweight_, dbias_,
        workspace(llmc::residual_layernorm_backward_workspace_bytes(shape_)), dout_, dresidual_,
        residual_, weight_, mean_, rstd_, shape_, mode(), stream);
  }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> dinp = zeros(count_of(shape_));
    std::vector<double> dweight = dweight_.values_before(), dbias = dbias_.values_before();
    llmc::reference::residual_layernorm_backward(
        dinp.data(), dweight.data(), dbias.data(), dout_.values().data(),
        dresidual_.values().data(), residual_.values().data(), weight_.values().data(),
        mean_.values().data(), rstd_.values().data(), shape_, mode());
    return {dinp, dweight, dbias};
  }

  llmc::row_shape shape_;
  array& dout_ = input(count_of(shape_));
  array& dresidual_ = input(count_of(shape_));
  array& residual_ = input(count_of(shape_));
  array& weight_ = input(shape_.channels);
  array& mean_ = input(shape_.rows);
  array& rstd_ = input(shape_.rows);
  array& dinp_ = output("dinp", count_of(shape_), normalised_tolerance(shape_.channels, 4));
  array& dweight_ = gradient("dweight", shape_.channels, column_tolerance(shape_));
  array& dbias_ = gradient("dbias", shape_.channels, sum_tolerance(shape_.rows, 8));
};

}  // namespace

std::vector<operation> residual_layernorm() {
  return {make_operation<forward_problem>("residual_layernorm_forward"),
          make_operation<backward_problem>("residual_layernorm_backward")};
}

}  // namespace llmc_registry
