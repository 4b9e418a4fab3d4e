#include <llmc/matmul.cuh>
#include <llmc/reference/matmul.hpp>

#include "ladder.hpp"
#include "layers.hpp"
#include "products.hpp"
#include "rows.hpp"

namespace llmc_registry {
namespace {

using llmc::matmul_backward_variant;
using llmc::matmul_forward_variant;
using llmc::matmul_shape;
using llmc_test::sum_tolerance;

std::vector<parameter> matmul_parameters() {
  return {{"rows", gpt2_rows, few_rows},
          {"channels", gpt2_channels, 4096},
          {"out_channels", 4 * gpt2_channels, 3073}};
}

std::vector<extents> awkward_products() {
  std::vector<extents> shapes;
  for (const auto& [rows, channels, out_channels] : std::initializer_list<matmul_shape>{
           {1, 1, 1}, {3, 33, 5}, {33, 3, 127}, {129, 127, 65}, {64, 768, 256}, {200, 100, 36}}) {
    shapes.push_back({{"rows", rows}, {"channels", channels}, {"out_channels", out_channels}});
  }
  return shapes;
}

matmul_shape matmul_shape_of(const extents& e) {
  return {e.at("rows"), e.at("channels"), e.at("out_channels")};
}

double product_flops(matmul_shape s) {
  return 2.0 * static_cast<double>(s.rows) * static_cast<double>(s.channels) *
         static_cast<double>(s.out_channels);
}

class forward_problem : public problem {
 public:
  static constexpr bool has_precision = true;
  static constexpr auto& variants = llmc::matmul_forward_variants;
  template <matmul_forward_variant Variant>
  static constexpr int default_block_size = llmc::matmul_forward_block_size<Variant>;
  /// Products are cut up by cuBLASLt or into the tensor cores' tiles.
  template <matmul_forward_variant Variant>
  static constexpr auto block_sizes() {
    return std::array{llmc::matmul_forward_block_size<Variant>};
  }

  static std::vector<parameter> parameters() { return matmul_parameters(); }
  static std::vector<extents> awkward() { return awkward_products(); }

  forward_problem(const extents& e, settings s) : problem(s), shape_(matmul_shape_of(e)) {}

  template <matmul_forward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::matmul_forward<Variant, BlockSize>(out_, inp_, weight_, bias_, shape_, arithmetic(),
                                             context_, stream);
  }

  double flops() const override { return product_flops(shape_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> out = zeros(shape_.rows * shape_.out_channels);
    llmc::reference::matmul_forward(out.data(), inp_.values().data(), weight_.values().data(),
                                    bias_.values().data(), shape_);
    return {out};
  }

  matmul_shape shape_;
  llmc::matmul_context context_;
  array& inp_ = input(shape_.rows * shape_.channels);
  array& weight_ = input(shape_.out_channels * shape_.channels);
  array& bias_ = input(shape_.out_channels);
  array& out_ = output("out", shape_.rows* shape_.out_channels, product_tolerance(shape_.channels),
                       tf32_product_tolerance(shape_.channels));
};

class backward_problem : public problem {
 public:
  static constexpr bool has_precision = true;
  static constexpr auto& variants = llmc::matmul_backward_variants;
  template <matmul_backward_variant Variant>
  static constexpr int default_block_size = llmc::matmul_backward_block_size<Variant>;

  static std::vector<parameter> parameters() { return matmul_parameters(); }
  static std::vector<extents> awkward() { return awkward_products(); }

  backward_problem(const extents& e, settings s) : problem(s), shape_(matmul_shape_of(e)) {}

  template <matmul_backward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::matmul_backward<Variant, BlockSize>(
        dinp_, dweight_, dbias_, workspace(llmc::matmul_backward_workspace_bytes(shape_)), dout_,
        inp_, weight_, shape_, arithmetic(), mode(), context_, stream);
  }

  /// Those of dinp and dweight.
  double flops() const override { return 2 * product_flops(shape_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> dinp = zeros(shape_.rows * shape_.channels);
    std::vector<double> dweight = dweight_.values_before(), dbias = dbias_.values_before();
    llmc::reference::matmul_backward(dinp.data(), dweight.data(), dbias.data(),
                                     dout_.values().data(), inp_.values().data(),
                                     weight_.values().data(), shape_, mode());
    return {dinp, dweight, dbias};
  }

  matmul_shape shape_;
  llmc::matmul_context context_;
  array& dout_ = input(shape_.rows * shape_.out_channels);
  array& inp_ = input(shape_.rows * shape_.channels);
  array& weight_ = input(shape_.out_channels * shape_.channels);
  array& dinp_ =
      output("dinp", shape_.rows* shape_.channels, product_tolerance(shape_.out_channels),
             tf32_product_tolerance(shape_.out_channels));
  array& dweight_ = gradient("dweight", shape_.out_channels* shape_.channels,
                             product_tolerance(shape_.rows), tf32_product_tolerance(shape_.rows));
  array& dbias_ = gradient("dbias", shape_.out_channels, sum_tolerance(shape_.rows, 4));
};

}  // namespace

std::vector<operation> matmul() {
  return {make_operation<forward_problem>("matmul_forward"),
          make_operation<backward_problem>("matmul_backward")};
}

}  // namespace llmc_registry
