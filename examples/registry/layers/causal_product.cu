#include <llmc/causal_product.cuh>
#include <llmc/reference/causal_product.hpp>

#include "registry/families/products.hpp"
#include "registry/families/sequences.hpp"
#include "registry/ladder.hpp"
#include "registry/layers/layers.hpp"

namespace llmc_registry {
namespace {

using llmc::attention_shape;
using llmc::causal_product_variant;

class product_problem : public problem {
 public:
  static constexpr auto& variants = llmc::causal_product_variants;
  template <causal_product_variant Variant>
  static constexpr int default_block_size = llmc::causal_product_block_size<Variant>;
  /// The tiles fix the block size. In `dense` it is that of the kernel that clears the output.
  template <causal_product_variant Variant>
  static constexpr auto block_sizes() {
    if constexpr (Variant == causal_product_variant::naive) {
      return any_block_size;
    } else {
      return std::array{llmc::causal_product_block_size<Variant>};
    }
  }

  static std::vector<parameter> parameters() { return head_parameters(); }
  static std::vector<extents> awkward() {
    std::vector<extents> shapes;
    for (const auto& [batch, sequence, heads, head_size] :
         std::initializer_list<attention_shape>{{1, 1, 1, 1},
                                                {2, 33, 3, 5},
                                                {1, 65, 2, 64},
                                                {2, 127, 3, 80},
                                                {1, 132, 2, 36},
                                                {1, 260, 1, 128}}) {
      shapes.push_back(
          {{"batch", batch}, {"sequence", sequence}, {"heads", heads}, {"head_size", head_size}});
    }
    return shapes;
  }

  product_problem(const extents& e, settings s) : problem(s), shape_(attention_shape_of(e)) {}

  template <causal_product_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::causal_product<Variant, BlockSize>(out_, q_, k_, shape_, context(), stream);
  }

  call_cost cost() const override { return costs::causal_product(shape_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> out = zeros(scores_of(shape_));
    llmc::reference::causal_product(out.data(), q_.values().data(), k_.values().data(), shape_);
    return {out};
  }

  attention_shape shape_;
  array& q_ = input("q", vectors_of(shape_));
  array& k_ = input("k", vectors_of(shape_));
  array& out_ = output("out", scores_of(shape_), product_tolerance(shape_.head_size));
};

}  // namespace

std::vector<operation> causal_product() {
  return {make_operation<product_problem>("causal_product")};
}

}  // namespace llmc_registry
