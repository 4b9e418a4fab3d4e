#include "layernorm.hpp"

#include <llmc/reference/layernorm.hpp>

#include "ladder.hpp"
#include "layers.hpp"

namespace llmc_registry {
namespace {

using llmc::layernorm_backward_variant;
using llmc::layernorm_forward_variant;
using llmc_test::sum_tolerance;

class forward_problem : public problem {
 public:
  static constexpr auto& variants = llmc::layernorm_forward_variants;
  template <layernorm_forward_variant Variant>
  static constexpr int default_block_size = llmc::layernorm_forward_block_size<Variant>;

  static std::vector<parameter> parameters() { return row_parameters(gpt2_channels); }
  static std::vector<extents> awkward() { return awkward_rows(); }

  forward_problem(const extents& e, settings s) : problem(s), shape_(row_shape_of(e)) {}

  template <layernorm_forward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::layernorm_forward<Variant, BlockSize>(out_, mean_, rstd_, inp_, weight_, bias_, shape_,
                                                layernorm_epsilon, stream);
  }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> out = zeros(count_of(shape_)), mean = zeros(shape_.rows), rstd = mean;
    llmc::reference::layernorm_forward(out.data(), mean.data(), rstd.data(), inp_.values().data(),
                                       weight_.values().data(), bias_.values().data(), shape_,
                                       layernorm_epsilon);
    return {out, mean, rstd};
  }

  llmc::row_shape shape_;
  array& inp_ = input(count_of(shape_));
  array& weight_ = input(shape_.channels);
  array& bias_ = input(shape_.channels);
  array& out_ = output("out", count_of(shape_), normalised_tolerance(shape_.channels, 1));
  array& mean_ = output("mean", shape_.rows, sum_tolerance(shape_.channels));
  array& rstd_ = output("rstd", shape_.rows, rstd_tolerance(shape_.channels));
};

class backward_problem : public problem {
 public:
  static constexpr auto& variants = llmc::layernorm_backward_variants;
  template <layernorm_backward_variant Variant>
  static constexpr int default_block_size = llmc::layernorm_backward_block_size<Variant>;

  static std::vector<parameter> parameters() { return row_parameters(gpt2_channels); }
  static std::vector<extents> awkward() { return awkward_rows(); }

  backward_problem(const extents& e, settings s) : problem(s), shape_(row_shape_of(e)) {
    layernorm_statistics(mean_, rstd_, inp_, shape_);
  }

  template <layernorm_backward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::layernorm_backward<Variant, BlockSize>(
        dinp_, dweight_, dbias_, workspace(llmc::layernorm_backward_workspace_bytes(shape_)), dout_,
        inp_, weight_, mean_, rstd_, shape_, mode(), stream);
  }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> dinp = zeros(count_of(shape_));
    std::vector<double> dweight = dweight_.values_before(), dbias = dbias_.values_before();
    llmc::reference::layernorm_backward(
        dinp.data(), dweight.data(), dbias.data(), dout_.values().data(), inp_.values().data(),
        weight_.values().data(), mean_.values().data(), rstd_.values().data(), shape_, mode());
    return {dinp, dweight, dbias};
  }

  llmc::row_shape shape_;
  array& dout_ = input(count_of(shape_));
  array& inp_ = input(count_of(shape_));
  array& weight_ = input(shape_.channels);
  array& mean_ = input(shape_.rows);
  array& rstd_ = input(shape_.rows);
  array& dinp_ = output("dinp", count_of(shape_), normalised_tolerance(shape_.channels, 4));
  array& dweight_ = gradient("dweight", shape_.channels, column_tolerance(shape_));
  array& dbias_ = gradient("dbias", shape_.channels, sum_tolerance(shape_.rows, 8));
};

}  // namespace

std::vector<operation> layernorm() {
  return {make_operation<forward_problem>("layernorm_forward"),
          make_operation<backward_problem>("layernorm_backward")};
}

}  // namespace llmc_registry
