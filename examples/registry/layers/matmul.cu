#include <llmc/matmul.cuh>
#include <llmc/matmul_gelu.cuh>
#include <llmc/reference/gelu.hpp>
#include <llmc/reference/matmul.hpp>

#include "registry/families/products.hpp"
#include "registry/families/rows.hpp"
#include "registry/ladder.hpp"
#include "registry/layers/layers.hpp"

namespace llmc_registry {
namespace {

using llmc::matmul_forward_variant;
using llmc::matmul_gelu_forward_variant;

/// What the three operations share: a linear layer's arrays, without the output.
class linear_problem : public problem {
 public:
  static constexpr bool has_precision = true;

  static std::vector<extents> awkward() { return awkward_products(); }

 protected:
  linear_problem(const extents& e, settings s) : problem(s), shape_(matmul_shape_of(e)) {}

  std::int64_t out_count() const { return shape_.rows * shape_.out_channels; }
  tolerance allowed() const { return product_tolerance(shape_.channels); }
  tolerance allowed_rounded() const { return rounded_product_tolerance(shape_.channels); }

  std::vector<double> linear_output() const {
    std::vector<double> out = zeros(out_count());
    llmc::reference::matmul_forward(out.data(), inp_.values().data(), weight_.values().data(),
                                    bias_.values().data(), shape_);
    return out;
  }

  matmul_shape shape_;
  array& inp_ = input("inp", shape_.rows* shape_.channels);
  array& weight_ = input("weight", shape_.out_channels* shape_.channels);
  array& bias_ = input("bias", shape_.out_channels);
};

/// The variants and block sizes of matmul_forward and matmul_residual_forward.
class ladder_problem : public linear_problem {
 public:
  static constexpr auto& variants = llmc::matmul_forward_variants;
  template <matmul_forward_variant Variant>
  static constexpr bool ignores_precision = llmc::products::is_rung<Variant> &&
                                            (Variant != matmul_forward_variant::wmma) &&
                                            (Variant !=
                                             matmul_forward_variant::cublaslt_separate_bias);
  template <matmul_forward_variant Variant>
  static constexpr int default_block_size = llmc::matmul_forward_block_size<Variant>;
  /// Most variants have one size: that of their tiles, or cuBLASLt's.
  template <matmul_forward_variant Variant>
  static constexpr auto block_sizes() {
    if constexpr (Variant == matmul_forward_variant::naive ||
                  Variant == matmul_forward_variant::coalesced) {
      return any_block_size;
    } else if constexpr (Variant == matmul_forward_variant::shared_tile) {
      return std::array{256, 1024};
    } else {
      return std::array{llmc::matmul_forward_block_size<Variant>};
    }
  }

 protected:
  using linear_problem::linear_problem;
};

class forward_problem : public ladder_problem {
 public:
  static std::vector<parameter> parameters() {
    return matmul_parameters(gpt2_channels, 4 * gpt2_channels);
  }

  forward_problem(const extents& e, settings s) : ladder_problem(e, s) {}

  template <matmul_forward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::matmul_forward<Variant, BlockSize>(out_, inp_, weight_, bias_, shape_, arithmetic(),
                                             context(), stream);
  }

  call_cost cost() const override { return costs::matmul_forward(shape_, true); }

 private:
  std::vector<std::vector<double>> reference() const override { return {linear_output()}; }

  array& out_ = output("out", out_count(), allowed(), allowed_rounded());
};

/// The projection back to the residual stream. Where outputs are added to, it works in place.
class residual_problem : public ladder_problem {
 public:
  static std::vector<parameter> parameters() {
    return matmul_parameters(4 * gpt2_channels, gpt2_channels);
  }

  residual_problem(const extents& e, settings s) : ladder_problem(e, s) {}

  template <matmul_forward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    const float* residual = residual_ == nullptr ? out_ : *residual_;
    llmc::matmul_residual_forward<Variant, BlockSize>(out_, residual, inp_, weight_, bias_, shape_,
                                                      arithmetic(), context(), stream);
  }

  call_cost cost() const override { return costs::matmul_residual_forward(shape_, true); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> out = linear_output();
    const std::vector<double> residual =
        residual_ == nullptr ? out_.values_before() : residual_->values();
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += residual[i];
    return {out};
  }

  array* residual_ = mode() == llmc::accumulation::add ? nullptr : &input("residual", out_count());
  array& out_ =
      gradient("out", out_count(), widened(allowed(), 1.2), widened(allowed_rounded(), 1.2));
};

class gelu_problem : public linear_problem {
 public:
  static constexpr auto& variants = llmc::matmul_gelu_forward_variants;
  /// One size only: that of the pass that applies the GELU where the product's kernel does not.
  template <matmul_gelu_forward_variant Variant>
  static constexpr int default_block_size = 256;
  template <matmul_gelu_forward_variant Variant>
  static constexpr auto block_sizes() {
    return std::array<int, 1>{256};
  }
  static std::vector<parameter> parameters() {
    return matmul_parameters(gpt2_channels, 4 * gpt2_channels);
  }

  gelu_problem(const extents& e, settings s) : linear_problem(e, s) {}

  template <matmul_gelu_forward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::matmul_gelu_forward<Variant>(out_, before_gelu_, inp_, weight_, bias_, shape_,
                                       arithmetic(), context(), stream);
  }

  call_cost cost() const override { return costs::matmul_gelu_forward(shape_, true); }

 private:
  std::vector<std::vector<double>> reference() const override {
    const std::vector<double> before = linear_output();
    std::vector<double> out = zeros(out_count());
    llmc::reference::gelu_forward(out.data(), before.data(), out_count());
    return {out, before};
  }

  array& out_ =
      output("out", out_count(), widened(allowed(), 1.2), widened(allowed_rounded(), 1.2));
  array& before_gelu_ = output("before_gelu", out_count(), allowed(), allowed_rounded());
};

}  // namespace

std::vector<operation> matmul() {
  std::vector<operation> operations{
      make_operation<forward_problem>("matmul_forward"),
      make_operation<residual_problem>("matmul_residual_forward"),
      make_operation<gelu_problem>("matmul_gelu_forward"),
  };
  for (operation& o : matmul_gradients()) operations.push_back(std::move(o));
  return operations;
}

}  // namespace llmc_registry
