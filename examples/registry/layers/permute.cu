#include <llmc/permute.cuh>
#include <llmc/reference/permute.hpp>

#include "registry/families/sequences.hpp"
#include "registry/ladder.hpp"
#include "registry/layers/layers.hpp"

namespace llmc_registry {
namespace {

using llmc::attention_shape;
using llmc::permute_heads_variant;

/// What both directions share. Bits are copied, so nothing may differ.
class heads_problem : public problem {
 public:
  static constexpr auto& variants = llmc::permute_heads_variants;

  static std::vector<parameter> parameters() {
    std::vector<parameter> all = head_parameters();
    all.push_back({"parts", 3, any_number});
    return all;
  }
  static std::vector<extents> awkward() {
    std::vector<extents> shapes;
    for (const auto& [batch, sequence, heads, head_size] : std::initializer_list<attention_shape>{
             {1, 1, 1, 1}, {2, 33, 3, 5}, {5, 65, 2, 64}, {2, 127, 3, 36}, {3, 20, 1, 700}}) {
      for (const std::int64_t parts : {1, 3}) {
        shapes.push_back({{"batch", batch},
                          {"sequence", sequence},
                          {"heads", heads},
                          {"head_size", head_size},
                          {"parts", parts}});
      }
    }
    return shapes;
  }

 protected:
  heads_problem(const extents& e, settings s)
      : problem(s), shape_(attention_shape_of(e)), parts_(static_cast<int>(e.at("parts"))) {}

  attention_shape shape_;
  int parts_;
  array& inp_ = input("inp", parts_* vectors_of(shape_));
  array& out_ = output("out", parts_* vectors_of(shape_), {0, 0});
};

class permute_problem : public heads_problem {
 public:
  template <permute_heads_variant Variant>
  static constexpr int default_block_size = llmc::permute_heads_block_size<Variant>;

  permute_problem(const extents& e, settings s) : heads_problem(e, s) {}

  template <permute_heads_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::permute_heads<Variant, BlockSize>(out_, inp_, shape_, parts_, stream);
  }

  call_cost cost() const override { return costs::permute_heads(shape_, parts_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> out = zeros(inp_.size());
    llmc::reference::permute_heads(out.data(), inp_.values().data(), shape_, parts_);
    return {out};
  }
};

class unpermute_problem : public heads_problem {
 public:
  template <permute_heads_variant Variant>
  static constexpr int default_block_size = llmc::unpermute_heads_block_size<Variant>;

  unpermute_problem(const extents& e, settings s) : heads_problem(e, s) {}

  template <permute_heads_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::unpermute_heads<Variant, BlockSize>(out_, inp_, shape_, parts_, stream);
  }

  call_cost cost() const override { return costs::permute_heads(shape_, parts_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> out = zeros(inp_.size());
    llmc::reference::unpermute_heads(out.data(), inp_.values().data(), shape_, parts_);
    return {out};
  }
};

}  // namespace

std::vector<operation> permute() {
  return {make_operation<permute_problem>("permute_heads"),
          make_operation<unpermute_problem>("unpermute_heads")};
}

}  // namespace llmc_registry
