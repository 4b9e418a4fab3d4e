#include <llmc/matmul.cuh>
#include <llmc/matmul_bias.cuh>
#include <llmc/matmul_gelu.cuh>
#include <llmc/reference/gelu.hpp>
#include <llmc/reference/matmul.hpp>

#include "registry/families/products.hpp"
#include "registry/families/rows.hpp"
#include "registry/ladder.hpp"

namespace llmc_registry {
namespace {

using llmc::gelu_matmul_backward_variant;
using llmc::matmul_backward_variant;
using llmc::matmul_bias_backward_variant;
using llmc::row_shape;
using llmc_test::sum_tolerance;

/// Without `HasBias` dbias is not asked for: the trainer has those sums from elsewhere.
template <bool HasBias>
class backward_problem : public problem {
 public:
  static constexpr bool has_precision = true;
  static constexpr auto& variants = llmc::matmul_backward_variants;
  template <matmul_backward_variant Variant>
  static constexpr bool ignores_precision = llmc::products::is_rung<Variant>;
  template <matmul_backward_variant Variant>
  static constexpr int default_block_size = llmc::matmul_backward_block_size<Variant>;
  template <matmul_backward_variant Variant>
  static constexpr auto block_sizes() {
    if constexpr (Variant == matmul_backward_variant::shared_tile) {
      return std::array{256, 1024};
    } else if constexpr (Variant == matmul_backward_variant::register_tile_2d ||
                         Variant == matmul_backward_variant::warp_tiled) {
      return std::array{llmc::matmul_backward_block_size<Variant>};
    } else {
      return any_block_size;
    }
  }

  static std::vector<parameter> parameters() {
    return matmul_parameters(gpt2_channels, 4 * gpt2_channels);
  }
  static std::vector<extents> awkward() { return awkward_products(); }

  backward_problem(const extents& e, settings s) : problem(s), shape_(matmul_shape_of(e)) {}

  template <matmul_backward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::matmul_backward<Variant, BlockSize>(
        dinp_, dweight_, or_null(dbias_), scratch(llmc::matmul_backward_workspace_bytes(shape_)),
        dout_, inp_, weight_, shape_, arithmetic(), mode(), context(), stream);
  }

  call_cost cost() const override { return costs::matmul_backward(shape_, HasBias, mode()); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> dinp = zeros(shape_.rows * shape_.channels);
    std::vector<double> dweight = dweight_.values_before(), dbias;
    if (HasBias) dbias = dbias_->values_before();
    llmc::reference::matmul_backward(dinp.data(), dweight.data(), HasBias ? dbias.data() : nullptr,
                                     dout_.values().data(), inp_.values().data(),
                                     weight_.values().data(), shape_, mode());
    if (!HasBias) return {dinp, dweight};
    return {dinp, dweight, dbias};
  }

  matmul_shape shape_;
  array& dout_ = input("dout", shape_.rows* shape_.out_channels);
  array& inp_ = input("inp", shape_.rows* shape_.channels);
  array& weight_ = input("weight", shape_.out_channels* shape_.channels);
  array& dinp_ =
      output("dinp", shape_.rows* shape_.channels, product_tolerance(shape_.out_channels),
             rounded_product_tolerance(shape_.out_channels));
  array& dweight_ =
      gradient("dweight", shape_.out_channels* shape_.channels, product_tolerance(shape_.rows),
               rounded_product_tolerance(shape_.rows));
  array* dbias_ =
      HasBias ? &gradient("dbias", shape_.out_channels, sum_tolerance(shape_.rows, 4)) : nullptr;
};

/// Back through the projection after a GELU, and the GELU; dgelu_bias is always asked for.
template <bool HasBias>
class gelu_backward_problem : public problem {
 public:
  static constexpr bool has_precision = true;
  static constexpr auto& variants = llmc::gelu_matmul_backward_variants;
  template <gelu_matmul_backward_variant Variant>
  static constexpr int default_block_size = llmc::gelu_matmul_backward_block_size<Variant>;
  template <gelu_matmul_backward_variant Variant>
  static constexpr auto block_sizes() {
    return std::array{llmc::gelu_matmul_backward_block_size<Variant>};
  }

  static std::vector<parameter> parameters() {
    return matmul_parameters(4 * gpt2_channels, gpt2_channels);
  }
  static std::vector<extents> awkward() { return awkward_products(); }

  gelu_backward_problem(const extents& e, settings s) : problem(s), shape_(matmul_shape_of(e)) {}

  template <gelu_matmul_backward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::gelu_matmul_backward<Variant, BlockSize>(
        dgelu_inp_, dgelu_bias_, dweight_, or_null(dbias_),
        scratch(llmc::gelu_matmul_backward_workspace_bytes(shape_)), dout_, gelu_inp_, inp_,
        weight_, shape_, arithmetic(), mode(), context(), stream);
  }

  call_cost cost() const override {
    return costs::gelu_matmul_backward(shape_, true, HasBias, mode());
  }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> dinp = zeros(shape_.rows * shape_.channels);
    std::vector<double> dgelu_inp = dinp, dgelu_bias = dgelu_bias_.values_before();
    std::vector<double> dweight = dweight_.values_before(), dbias;
    if (HasBias) dbias = dbias_->values_before();
    llmc::reference::matmul_backward(dinp.data(), dweight.data(), HasBias ? dbias.data() : nullptr,
                                     dout_.values().data(), inp_.values().data(),
                                     weight_.values().data(), shape_, mode());
    llmc::reference::gelu_backward(dgelu_inp.data(), dinp.data(), gelu_inp_.values().data(),
                                   shape_.rows * shape_.channels);
    const bool add = mode() == llmc::accumulation::add;
    for (std::size_t c = 0; c < dgelu_bias.size(); ++c) {
      double sum = add ? dgelu_bias[c] : 0.0;
      for (std::size_t i = c; i < dgelu_inp.size(); i += dgelu_bias.size()) sum += dgelu_inp[i];
      dgelu_bias[c] = sum;
    }
    if (!HasBias) return {dgelu_inp, dgelu_bias, dweight};
    return {dgelu_inp, dgelu_bias, dweight, dbias};
  }

  tolerance allowed() const { return widened(product_tolerance(shape_.out_channels), 1.3); }
  tolerance allowed_rounded() const {
    return widened(rounded_product_tolerance(shape_.out_channels), 1.3);
  }
  tolerance summed(tolerance t) const { return summed_over_rows(t, shape_.rows); }

  matmul_shape shape_;
  array& dout_ = input("dout", shape_.rows* shape_.out_channels);
  array& gelu_inp_ = input("gelu_inp", shape_.rows* shape_.channels);
  array& inp_ = input("inp", shape_.rows* shape_.channels);
  array& weight_ = input("weight", shape_.out_channels* shape_.channels);
  array& dgelu_inp_ =
      output("dgelu_inp", shape_.rows* shape_.channels, allowed(), allowed_rounded());
  array& dgelu_bias_ =
      gradient("dgelu_bias", shape_.channels, summed(allowed()), summed(allowed_rounded()));
  array& dweight_ =
      gradient("dweight", shape_.out_channels* shape_.channels, product_tolerance(shape_.rows),
               rounded_product_tolerance(shape_.rows));
  array* dbias_ =
      HasBias ? &gradient("dbias", shape_.out_channels, sum_tolerance(shape_.rows, 4)) : nullptr;
};

class bias_backward_problem : public problem {
 public:
  static constexpr auto& variants = llmc::matmul_bias_backward_variants;
  template <matmul_bias_backward_variant Variant>
  static constexpr int default_block_size = llmc::matmul_bias_backward_block_size<Variant>;

  static std::vector<parameter> parameters() {
    return {{"rows", gpt2_rows, any_number}, {"out_channels", 4 * gpt2_channels, any_number}};
  }
  static std::vector<extents> awkward() {
    std::vector<extents> shapes;
    for (const auto& [rows, columns] : std::initializer_list<row_shape>{
             {1, 1}, {3, 33}, {127, 5}, {1025, 64}, {64, 768}, {2, 4097}}) {
      shapes.push_back({{"rows", rows}, {"out_channels", columns}});
    }
    return shapes;
  }

  bias_backward_problem(const extents& e, settings s)
      : problem(s), shape_{e.at("rows"), e.at("out_channels")} {}

  template <matmul_bias_backward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::matmul_bias_backward<Variant, BlockSize>(
        dbias_, scratch(llmc::matmul_bias_backward_workspace_bytes(shape_)), dout_, shape_, mode(),
        stream);
  }

  call_cost cost() const override { return costs::matmul_bias_backward(shape_, mode()); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> dbias = dbias_.values_before();
    llmc::reference::matmul_bias_backward(dbias.data(), dout_.values().data(), shape_, mode());
    return {dbias};
  }

  row_shape shape_;
  array& dout_ = input("dout", count_of(shape_));
  array& dbias_ = gradient("dbias", shape_.channels, sum_tolerance(shape_.rows, 4));
};

}  // namespace

std::vector<operation> matmul_gradients() {
  return {make_operation<backward_problem<true>>("matmul_backward"),
          make_operation<backward_problem<false>>("matmul_backward_without_dbias"),
          make_operation<gelu_backward_problem<true>>("gelu_matmul_backward"),
          make_operation<gelu_backward_problem<false>>("gelu_matmul_backward_without_dbias"),
          make_operation<bias_backward_problem>("matmul_bias_backward")};
}

}  // namespace llmc_registry
