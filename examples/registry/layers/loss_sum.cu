#include <llmc/loss_sum.cuh>
#include <llmc/reference/loss_sum.hpp>

#include "registry/families/rows.hpp"
#include "registry/ladder.hpp"
#include "registry/layers/layers.hpp"

namespace llmc_registry {
namespace {

using llmc_test::buffer;

class sum_problem : public problem {
 public:
  static constexpr auto& variants = sole_variants;
  template <sole_variant>
  static constexpr int default_block_size = 1024;

  static std::vector<parameter> parameters() { return {{"rows", gpt2_rows, any_number}}; }
  static std::vector<extents> awkward() {
    std::vector<extents> shapes;
    for (const std::int64_t rows : {1, 31, 1025, 8193}) shapes.push_back({{"rows", rows}});
    return shapes;
  }

  sum_problem(const extents& e, settings s) : problem(s), rows_(e.at("rows")) {}

  template <sole_variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::loss_sum<BlockSize>(sum_.doubles(), losses_, rows_, mode(), stream);
  }

  call_cost cost() const override { return costs::loss_sum(rows_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> sum = sum_.values_before();
    llmc::reference::loss_sum(sum.data(), losses_.values().data(), rows_, mode());
    return {sum};
  }

  std::int64_t rows_;
  array& losses_ = input("losses", rows_, {1, 10});
  array& sum_ = gradient_in_double("sum", 1, {1e-9, 1e-12});
};

/// The problem of a step that has met a token out of range.
class skip_problem : public problem {
 public:
  static constexpr auto& variants = sole_variants;
  template <sole_variant>
  static constexpr int default_block_size = 32;

  static std::vector<parameter> parameters() { return {}; }
  static std::vector<extents> awkward() { return {{}}; }

  skip_problem(const extents&, settings s) : problem(s) {}

  template <sole_variant, int>
  void launch(cudaStream_t stream) {
    llmc::skip_update_unless_sound(reinterpret_cast<llmc::clip_state*>(static_cast<float*>(clip_)),
                                   loss_, out_of_range_, stream);
  }

  call_cost cost() const override { return {}; }

 private:
  std::vector<std::vector<double>> reference() const override {
    return {{clip_.values_before().front(), 0, 0}};
  }

  buffer<double> loss_{std::vector<double>{1}};
  buffer<std::uint64_t> out_of_range_{std::vector<std::uint64_t>{1}};
  /// A clip_state, word by word; the integer 0 has the bits of the float.
  array& clip_ = updated("clip", 3, {0, 0});
};

}  // namespace

std::vector<operation> loss_sum() {
  return {make_operation<sum_problem>("loss_sum"),
          make_operation<skip_problem>("skip_update_unless_sound")};
}

}  // namespace llmc_registry
