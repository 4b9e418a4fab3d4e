#include <llmc/reference/softmax.hpp>
#include <llmc/softmax.cuh>

#include "registry/families/rows.hpp"
#include "registry/ladder.hpp"
#include "registry/layers/layers.hpp"

namespace llmc_registry {
namespace {

using llmc::softmax_backward_variant;
using llmc::softmax_forward_variant;
using llmc_test::probability_tolerance;
using llmc_test::sum_tolerance;

constexpr double range = 12;  // between the largest and the smallest of many normal numbers

class forward_problem : public problem {
 public:
  static constexpr auto& variants = llmc::softmax_forward_variants;
  template <softmax_forward_variant Variant>
  static constexpr int default_block_size = llmc::softmax_forward_block_size<Variant>;

  static std::vector<parameter> parameters() { return row_parameters(gpt2_padded_vocabulary); }
  static std::vector<extents> awkward() { return awkward_rows(); }

  forward_problem(const extents& e, settings s) : problem(s), shape_(row_shape_of(e)) {}

  template <softmax_forward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::softmax_forward<Variant, BlockSize>(out_, inp_, shape_, stream);
  }

  call_cost cost() const override { return costs::softmax_forward(shape_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> out = zeros(count_of(shape_));
    llmc::reference::softmax_forward(out.data(), inp_.values().data(), shape_);
    return {out};
  }

  llmc::row_shape shape_;
  array& inp_ = input("inp", count_of(shape_));
  array& out_ = output("out", count_of(shape_), probability_tolerance(shape_.channels, range));
};

class backward_problem : public problem {
 public:
  static constexpr auto& variants = llmc::softmax_backward_variants;
  template <softmax_backward_variant Variant>
  static constexpr int default_block_size = llmc::softmax_backward_block_size<Variant>;

  static std::vector<parameter> parameters() { return row_parameters(gpt2_padded_vocabulary); }
  static std::vector<extents> awkward() { return awkward_rows(); }

  backward_problem(const extents& e, settings s) : problem(s), shape_(row_shape_of(e)) {
    if (!owns_arrays()) return;
    llmc::softmax_forward(out_, out_, shape_, nullptr);
    llmc_test::check_cuda(cudaDeviceSynchronize());
  }

  template <softmax_backward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::softmax_backward<Variant, BlockSize>(dinp_, dout_, out_, shape_, stream);
  }

  call_cost cost() const override { return costs::softmax_backward(shape_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> dinp = zeros(count_of(shape_));
    llmc::reference::softmax_backward(dinp.data(), dout_.values().data(), out_.values().data(),
                                      shape_);
    return {dinp};
  }

  /// dinp = out * (dout - a mean of dout) is about as small as a probability. Where it is larger,
  /// its relative error is small, except for the digits that the difference cancels.
  static tolerance gradient_tolerance(std::int64_t channels) {
    const double typical = 1.0 / static_cast<double>(channels);
    return {sum_tolerance(channels, 2 * typical).absolute * 8, 1e-5};
  }

  llmc::row_shape shape_;
  array& dout_ = input("dout", count_of(shape_));
  array& out_ = input("out", count_of(shape_));
  array& dinp_ = output("dinp", count_of(shape_), gradient_tolerance(shape_.channels));
};

}  // namespace

std::vector<operation> softmax() {
  return {make_operation<forward_problem>("softmax_forward"),
          make_operation<backward_problem>("softmax_backward")};
}

}  // namespace llmc_registry
