#include <llmc/gelu.cuh>
#include <llmc/reference/gelu.hpp>

#include "registry/families/rows.hpp"
#include "registry/ladder.hpp"
#include "registry/layers/layers.hpp"

namespace llmc_registry {
namespace {

using llmc::gelu_backward_variant;
using llmc::gelu_forward_variant;

constexpr std::int64_t hidden_channels = 4 * gpt2_channels;
constexpr normal wide{3};  // reaches both tails

class forward_problem : public row_problem<hidden_channels> {
 public:
  static constexpr auto& variants = llmc::gelu_forward_variants;
  template <gelu_forward_variant Variant>
  static constexpr int default_block_size = llmc::gelu_forward_block_size<Variant>;

  forward_problem(const extents& e, settings s) : row_problem(e, s) {}

  template <gelu_forward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::gelu_forward<Variant, BlockSize>(out_, inp_, count_, stream);
  }

  call_cost cost() const override { return costs::gelu_forward(count_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> out = zeros(count_);
    llmc::reference::gelu_forward(out.data(), inp_.values().data(), count_);
    return {out};
  }

  array& inp_ = input("inp", count_, wide);
  array& out_ = output("out", count_, {1e-6, 1e-6});
};

class backward_problem : public row_problem<hidden_channels> {
 public:
  static constexpr auto& variants = llmc::gelu_backward_variants;
  template <gelu_backward_variant Variant>
  static constexpr int default_block_size = llmc::gelu_backward_block_size<Variant>;

  backward_problem(const extents& e, settings s) : row_problem(e, s) {}

  template <gelu_backward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::gelu_backward<Variant, BlockSize>(dinp_, dout_, inp_, count_, stream);
  }

  call_cost cost() const override { return costs::gelu_backward(count_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> dinp = zeros(count_);
    llmc::reference::gelu_backward(dinp.data(), dout_.values().data(), inp_.values().data(),
                                   count_);
    return {dinp};
  }

  array& dout_ = input("dout", count_);
  array& inp_ = input("inp", count_, wide);
  array& dinp_ = output("dinp", count_, {5e-6, 1e-6});
};

}  // namespace

std::vector<operation> gelu() {
  return {make_operation<forward_problem>("gelu_forward"),
          make_operation<backward_problem>("gelu_backward")};
}

}  // namespace llmc_registry
