#include <llmc/reference/residual.hpp>
#include <llmc/residual.cuh>

#include "registry/families/rows.hpp"
#include "registry/ladder.hpp"
#include "registry/layers/layers.hpp"

namespace llmc_registry {
namespace {

using llmc::residual_backward_variant;
using llmc::residual_forward_variant;
using llmc_test::elementwise_tolerance;

class forward_problem : public row_problem<gpt2_channels> {
 public:
  static constexpr auto& variants = llmc::residual_forward_variants;
  template <residual_forward_variant Variant>
  static constexpr int default_block_size = llmc::residual_forward_block_size<Variant>;

  forward_problem(const extents& e, settings s) : row_problem(e, s) {}

  template <residual_forward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::residual_forward<Variant, BlockSize>(out_, inp1_, inp2_, count_, stream);
  }

  call_cost cost() const override { return costs::residual_forward(count_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> out = zeros(count_);
    llmc::reference::residual_forward(out.data(), inp1_.values().data(), inp2_.values().data(),
                                      count_);
    return {out};
  }

  array& inp1_ = input("inp1", count_);
  array& inp2_ = input("inp2", count_);
  array& out_ = output("out", count_, elementwise_tolerance());
};

class backward_problem : public row_problem<gpt2_channels> {
 public:
  static constexpr auto& variants = llmc::residual_backward_variants;
  template <residual_backward_variant Variant>
  static constexpr int default_block_size = llmc::residual_backward_block_size<Variant>;

  backward_problem(const extents& e, settings s) : row_problem(e, s) {}

  template <residual_backward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::residual_backward<Variant, BlockSize>(dinp1_, dinp2_, dout_, count_, mode(), stream);
  }

  call_cost cost() const override { return costs::residual_backward(count_, mode()); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> dinp1 = dinp1_.values_before(), dinp2 = dinp2_.values_before();
    llmc::reference::residual_backward(dinp1.data(), dinp2.data(), dout_.values().data(), count_,
                                       mode());
    return {dinp1, dinp2};
  }

  array& dout_ = input("dout", count_);
  array& dinp1_ = gradient("dinp1", count_, elementwise_tolerance());
  array& dinp2_ = gradient("dinp2", count_, elementwise_tolerance());
};

}  // namespace

std::vector<operation> residual() {
  return {make_operation<forward_problem>("residual_forward"),
          make_operation<backward_problem>("residual_backward")};
}

}  // namespace llmc_registry
