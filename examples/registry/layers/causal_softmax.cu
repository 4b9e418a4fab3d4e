#include <llmc/causal_softmax.cuh>
#include <llmc/reference/causal_softmax.hpp>

#include "registry/families/sequences.hpp"
#include "registry/ladder.hpp"
#include "registry/layers/layers.hpp"

namespace llmc_registry {
namespace {

using llmc::attention_shape;
using llmc::causal_softmax_backward_variant;
using llmc::causal_softmax_forward_variant;
using llmc_test::elementwise_tolerance;
using llmc_test::probability_tolerance;

constexpr float scale = 0.125f;       // of heads of 64
constexpr double range = 12 * scale;  // between the largest and the smallest of many normal numbers

/// The block sizes up to 512, for variants that keep rows in registers.
constexpr std::array block_sizes_up_to_512{32, 64, 96, 128, 256, 512};

std::vector<extents> awkward_sequences() {
  std::vector<extents> shapes;
  for (const auto& [batch, sequence, heads, unused] :
       std::initializer_list<attention_shape>{{1, 1, 1, 1},
                                              {2, 33, 3, 1},
                                              {1, 64, 5, 1},
                                              {3, 127, 2, 1},
                                              {1, 518, 1, 1},
                                              {1, 1100, 1, 1}}) {
    shapes.push_back({{"batch", batch}, {"sequence", sequence}, {"heads", heads}});
  }
  return shapes;
}

class forward_problem : public problem {
 public:
  static constexpr auto& variants = llmc::causal_softmax_forward_variants;
  template <causal_softmax_forward_variant Variant>
  static constexpr int default_block_size = llmc::causal_softmax_forward_block_size<Variant>;
  template <causal_softmax_forward_variant Variant>
  static constexpr auto block_sizes() {
    if constexpr (Variant == causal_softmax_forward_variant::row_in_registers) {
      return block_sizes_up_to_512;
    } else {
      return any_block_size;
    }
  }

  static std::vector<parameter> parameters() { return score_parameters(); }
  static std::vector<extents> awkward() { return awkward_sequences(); }

  forward_problem(const extents& e, settings s) : problem(s), shape_(attention_shape_of(e)) {}

  template <causal_softmax_forward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::causal_softmax_forward<Variant, BlockSize>(out_, inp_, shape_, scale, stream);
  }

  call_cost cost() const override { return costs::causal_softmax_forward(shape_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> out = zeros(scores_of(shape_));
    llmc::reference::causal_softmax_forward(out.data(), inp_.values().data(), shape_,
                                            double{scale});
    return {out};
  }

  attention_shape shape_;
  array& inp_ = input("inp", scores_of(shape_));
  array& out_ = output("out", scores_of(shape_), probability_tolerance(shape_.sequence, range));
};

class backward_problem : public problem {
 public:
  static constexpr auto& variants = llmc::causal_softmax_backward_variants;
  template <causal_softmax_backward_variant Variant>
  static constexpr int default_block_size = llmc::causal_softmax_backward_block_size<Variant>;
  template <causal_softmax_backward_variant Variant>
  static constexpr auto block_sizes() {
    if constexpr (Variant == causal_softmax_backward_variant::row_in_registers ||
                  Variant == causal_softmax_backward_variant::paired_rows) {
      return block_sizes_up_to_512;
    } else {
      return any_block_size;
    }
  }

  static std::vector<parameter> parameters() { return score_parameters(); }
  static std::vector<extents> awkward() { return awkward_sequences(); }

  backward_problem(const extents& e, settings s) : problem(s), shape_(attention_shape_of(e)) {
    if (!owns_arrays()) return;
    llmc::causal_softmax_forward(out_, out_, shape_, scale, nullptr);
    llmc_test::check_cuda(cudaDeviceSynchronize());
  }

  template <causal_softmax_backward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::causal_softmax_backward<Variant, BlockSize>(dinp_, dout_, out_, shape_, scale, stream);
  }

  call_cost cost() const override { return costs::causal_softmax_backward(shape_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> dinp = zeros(scores_of(shape_));
    llmc::reference::causal_softmax_backward(dinp.data(), dout_.values().data(),
                                             out_.values().data(), shape_, double{scale});
    return {dinp};
  }

  attention_shape shape_;
  array& dout_ = input("dout", scores_of(shape_));
  array& out_ = input("out", scores_of(shape_));
  /// A probability, at most 1, times a difference of numbers that reach about 4.
  array& dinp_ = output("dinp", scores_of(shape_), elementwise_tolerance(4 * double{scale}));
};

}  // namespace

std::vector<operation> causal_softmax() {
  return {make_operation<forward_problem>("causal_softmax_forward"),
          make_operation<backward_problem>("causal_softmax_backward")};
}

}  // namespace llmc_registry
