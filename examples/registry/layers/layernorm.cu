#include <llmc/layernorm.cuh>
#include <llmc/reference/layernorm.hpp>

#include "registry/families/layernorm.hpp"
#include "registry/ladder.hpp"
#include "registry/layers/layers.hpp"

namespace llmc_registry {
namespace {

using llmc::layernorm_backward_variant;
using llmc::layernorm_forward_variant;

class forward_problem : public layernorm_forward_problem {
 public:
  static constexpr auto& variants = llmc::layernorm_forward_variants;
  template <layernorm_forward_variant Variant>
  static constexpr int default_block_size = llmc::layernorm_forward_block_size<Variant>;

  forward_problem(const extents& e, settings s) : layernorm_forward_problem(e, s, 1) {}

  template <layernorm_forward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::layernorm_forward<Variant, BlockSize>(out_, mean_, rstd_, inp_, weight_, bias_, shape_,
                                                layernorm_epsilon, stream);
  }

  call_cost cost() const override { return costs::layernorm_forward(shape_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> out = zeros(count_), mean = zeros(shape_.rows), rstd = mean;
    llmc::reference::layernorm_forward(out.data(), mean.data(), rstd.data(), inp_.values().data(),
                                       weight_.values().data(), bias_.values().data(), shape_,
                                       layernorm_epsilon);
    return {out, mean, rstd};
  }

  array& inp_ = input("inp", count_);
};

class backward_problem : public layernorm_backward_problem {
 public:
  static constexpr auto& variants = llmc::layernorm_backward_variants;
  template <layernorm_backward_variant Variant>
  static constexpr int default_block_size = llmc::layernorm_backward_block_size<Variant>;

  backward_problem(const extents& e, settings s) : layernorm_backward_problem(e, s, "inp") {}

  template <layernorm_backward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::layernorm_backward<Variant, BlockSize>(
        dinp_, dweight_, dbias_, scratch(llmc::layernorm_backward_workspace_bytes(shape_)), dout_,
        inp_, weight_, mean_, rstd_, shape_, mode(), stream);
  }

  call_cost cost() const override { return costs::layernorm_backward(shape_, mode()); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> dinp = zeros(count_);
    std::vector<double> dweight = dweight_.values_before(), dbias = dbias_.values_before();
    llmc::reference::layernorm_backward(
        dinp.data(), dweight.data(), dbias.data(), dout_.values().data(), inp_.values().data(),
        weight_.values().data(), mean_.values().data(), rstd_.values().data(), shape_, mode());
    return {dinp, dweight, dbias};
  }
};

}  // namespace

std::vector<operation> layernorm() {
  return {make_operation<forward_problem>("layernorm_forward"),
          make_operation<backward_problem>("layernorm_backward")};
}

}  // namespace llmc_registry
