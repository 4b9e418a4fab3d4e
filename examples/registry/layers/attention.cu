#include <llmc/attention.cuh>
#include <llmc/reference/attention.hpp>

#include "registry/families/sequences.hpp"
#include "registry/ladder.hpp"
#include "registry/layers/layers.hpp"

namespace llmc_registry {
namespace {

using llmc::attention_backward_variant;
using llmc::attention_forward_variant;
using llmc::attention_shape;

std::vector<extents> awkward_sequences() {
  std::vector<extents> shapes;
  for (const auto& [batch, sequence, heads, head_size] : std::initializer_list<attention_shape>{
           {1, 1, 1, 1}, {2, 33, 3, 5}, {1, 65, 2, 64}, {2, 127, 3, 80}, {1, 200, 1, 128}}) {
    shapes.push_back(
        {{"batch", batch}, {"sequence", sequence}, {"heads", heads}, {"head_size", head_size}});
  }
  return shapes;
}

std::int64_t rows_of(attention_shape s) {
  return s.batch * s.heads * s.sequence;
}

/// Scores of normal numbers reach about 6. An absolute error of a score is a relative error of its
/// probability, and so of a mean of values, which reach about 5. Gradients are sums of a few such.
tolerance attention_tolerance(double magnitude) {
  return {3e-5 * magnitude, 4e-6};
}
tolerance rounded_attention_tolerance(double magnitude) {
  return {3e-2 * magnitude, 4e-3};
}

/// Whether a variant makes products by a matmul_context; `automatic` does for some shapes.
template <auto Variant>
constexpr bool needs_context =
    Variant == decltype(Variant)::automatic || Variant == decltype(Variant)::materialised;

/// What both directions share.
class attention_problem : public problem {
 public:
  static constexpr bool has_precision = true;
  template <auto Variant>
  static constexpr bool ignores_precision = Variant == decltype(Variant)::naive;

  static std::vector<parameter> parameters() { return head_parameters(); }
  static std::vector<extents> awkward() { return awkward_sequences(); }

 protected:
  attention_problem(const extents& e, settings s) : problem(s), shape_(attention_shape_of(e)) {}

  /// Flash attention has one block size, its default. The naive kernels are slow, so they run with
  /// few sizes.
  template <auto Variant, int Default>
  static constexpr auto sizes_of() {
    using variant = decltype(Variant);
    if constexpr (Variant == variant::flash) {
      return std::array{Default};
    } else if constexpr (Variant == variant::naive) {
      return std::array{64, 256};
    } else {
      return any_block_size;
    }
  }

  attention_shape shape_;
};

class forward_problem : public attention_problem {
 public:
  static constexpr auto& variants = llmc::attention_forward_variants;
  template <attention_forward_variant Variant>
  static constexpr int default_block_size = llmc::attention_forward_block_size<Variant>;
  template <attention_forward_variant Variant>
  static constexpr auto block_sizes() {
    return sizes_of<Variant, llmc::attention_forward_block_size<Variant>>();
  }

  forward_problem(const extents& e, settings s) : attention_problem(e, s) {}

  template <attention_forward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    if constexpr (needs_context<Variant>) {
      llmc::attention_forward<Variant, BlockSize>(
          out_, lse_, scratch(llmc::attention_forward_workspace_bytes<Variant>(shape_)), qkv_,
          shape_, arithmetic(), context(), stream);
    } else {
      llmc::attention_forward<Variant, BlockSize>(out_, lse_, qkv_, shape_, arithmetic(), stream);
    }
  }

  call_cost cost() const override { return costs::attention_forward(shape_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> out = zeros(vectors_of(shape_)), lse = zeros(rows_of(shape_));
    llmc::reference::attention_forward(out.data(), lse.data(), qkv_.values().data(), shape_);
    return {out, lse};
  }

  array& qkv_ = input("qkv", 3 * vectors_of(shape_));
  array& out_ =
      output("out", vectors_of(shape_), attention_tolerance(1), rounded_attention_tolerance(1));
  array& lse_ =
      output("lse", rows_of(shape_), attention_tolerance(1), rounded_attention_tolerance(1));
};

/// With `HasBias` it also sums dqkv over the rows, as the trainer asks for it.
template <bool HasBias>
class backward_problem : public attention_problem {
 public:
  static constexpr auto& variants = llmc::attention_backward_variants;
  template <attention_backward_variant Variant>
  static constexpr int default_block_size = llmc::attention_backward_block_size<Variant>;
  template <attention_backward_variant Variant>
  static constexpr auto block_sizes() {
    return sizes_of<Variant, llmc::attention_backward_block_size<Variant>>();
  }

  backward_problem(const extents& e, settings s) : attention_problem(e, s) {
    if (!owns_arrays()) return;
    llmc::attention_forward(out_, lse_, qkv_, shape_, llmc::precision::ieee, nullptr);
    llmc_test::check_cuda(cudaDeviceSynchronize());
  }

  template <attention_backward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    const auto run = [&](auto&... context) {
      llmc::attention_backward<Variant, BlockSize>(
          dqkv_, or_null(dqkv_bias_),
          scratch(llmc::attention_backward_workspace_bytes<Variant>(shape_)), dout_, qkv_, out_,
          lse_, shape_, arithmetic(), mode(), context..., stream);
    };
    if constexpr (needs_context<Variant>) {
      run(context());
    } else {
      run();
    }
  }

  call_cost cost() const override { return costs::attention_backward(shape_, HasBias, mode()); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> dqkv = zeros(3 * vectors_of(shape_)), dqkv_bias;
    if (HasBias) dqkv_bias = dqkv_bias_->values_before();
    llmc::reference::attention_backward(dqkv.data(), HasBias ? dqkv_bias.data() : nullptr,
                                        dout_.values().data(), qkv_.values().data(),
                                        out_.values().data(), lse_.values().data(), shape_, mode());
    if (!HasBias) return {dqkv};
    return {dqkv, dqkv_bias};
  }

  tolerance summed(tolerance t) const {
    return summed_over_rows(t, shape_.batch * shape_.sequence);
  }

  array& dout_ = input("dout", vectors_of(shape_));
  array& qkv_ = input("qkv", 3 * vectors_of(shape_));
  array& out_ = input("out", vectors_of(shape_));
  array& lse_ = input("lse", rows_of(shape_));
  array& dqkv_ = output("dqkv", 3 * vectors_of(shape_), attention_tolerance(4),
                        rounded_attention_tolerance(4));
  array* dqkv_bias_ =
      HasBias ? &gradient("dqkv_bias", 3 * shape_.heads * shape_.head_size,
                          summed(attention_tolerance(4)), summed(rounded_attention_tolerance(4)))
              : nullptr;
};

}  // namespace

std::vector<operation> attention() {
  return {make_operation<forward_problem>("attention_forward"),
          make_operation<backward_problem<false>>("attention_backward"),
          make_operation<backward_problem<true>>("attention_backward_with_dqkv_bias")};
}

}  // namespace llmc_registry
