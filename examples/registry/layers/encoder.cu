#include <llmc/encoder.cuh>
#include <llmc/reference/encoder.hpp>

#include <set>

#include "registry/families/rows.hpp"
#include "registry/families/tokens.hpp"
#include "registry/ladder.hpp"
#include "registry/layers/layers.hpp"

namespace llmc_registry {
namespace {

using llmc::encoder_backward_variant;
using llmc::encoder_forward_variant;
using llmc::encoder_shape;
using llmc_test::elementwise_tolerance;
using llmc_test::sum_tolerance;

constexpr std::int64_t gpt2_sequence = 1024;

std::vector<parameter> encoder_parameters() {
  return {{"batch", gpt2_rows / gpt2_sequence, 3},
          {"sequence", gpt2_sequence, 101},
          {"channels", gpt2_channels, any_number},
          {"vocabulary", gpt2_vocabulary, 5003}};
}

std::vector<extents> awkward_sequences() {
  std::vector<extents> shapes;
  for (const auto& [batch, sequence, channels, vocabulary] : std::initializer_list<encoder_shape>{
           {1, 1, 1, 1}, {3, 5, 3, 2}, {2, 33, 129, 31}, {5, 127, 768, 300}, {7, 64, 36, 1000}}) {
    shapes.push_back({{"batch", batch},
                      {"sequence", sequence},
                      {"channels", channels},
                      {"vocabulary", vocabulary}});
  }
  return shapes;
}

encoder_shape encoder_shape_of(const extents& e) {
  return {e.at("batch"), e.at("sequence"), e.at("channels"), e.at("vocabulary")};
}

std::int64_t count_of(encoder_shape s) {
  return s.batch * s.sequence * s.channels;
}

/// How many tokens differ: only the rows of wte that occur are touched.
std::int64_t different(const std::vector<std::int32_t>& tokens) {
  return static_cast<std::int64_t>(std::set<std::int32_t>(tokens.begin(), tokens.end()).size());
}

class forward_problem : public problem {
 public:
  static constexpr auto& variants = llmc::encoder_forward_variants;
  template <encoder_forward_variant Variant>
  static constexpr int default_block_size = llmc::encoder_forward_block_size<Variant>;

  static std::vector<parameter> parameters() { return encoder_parameters(); }
  static std::vector<extents> awkward() { return awkward_sequences(); }

  forward_problem(const extents& e, settings s) : problem(s), shape_(encoder_shape_of(e)) {}

  template <encoder_forward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::encoder_forward<Variant, BlockSize>(out_, out_of_range_, gpu_tokens_, wte_, wpe_, shape_,
                                              stream);
  }

  call_cost cost() const override { return costs::encoder_forward(shape_, different(tokens_)); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> out = zeros(count_of(shape_));
    llmc::reference::encoder_forward(out.data(), nullptr, tokens_.data(), wte_.values().data(),
                                     wpe_.values().data(), shape_);
    return {out};
  }

  encoder_shape shape_;
  std::vector<std::int32_t> tokens_ = random_tokens(shape_);
  const std::int32_t* gpu_tokens_ = integers("tokens", tokens_);
  llmc_test::buffer<std::uint64_t> out_of_range_{std::vector<std::uint64_t>{0}};
  array& wte_ = input("wte", shape_.vocabulary* shape_.channels);
  array& wpe_ = input("wpe", shape_.sequence* shape_.channels);
  array& out_ = output("out", count_of(shape_), elementwise_tolerance());
};

/// dwte is added to: in training it already holds the classifier's part. So only the rows of tokens
/// that occur are touched.
class backward_problem : public problem {
 public:
  static constexpr auto& variants = llmc::encoder_backward_variants;
  template <encoder_backward_variant Variant>
  static constexpr int default_block_size = llmc::encoder_backward_block_size<Variant>;

  static std::vector<parameter> parameters() { return encoder_parameters(); }
  static std::vector<extents> awkward() { return awkward_sequences(); }

  backward_problem(const extents& e, settings s) : problem(s), shape_(encoder_shape_of(e)) {}

  template <encoder_backward_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::encoder_backward<Variant, BlockSize>(
        dwte_, dwpe_, scratch(llmc::encoder_backward_workspace_bytes(shape_)), gpu_tokens_, dout_,
        shape_, llmc::accumulation::add, mode(), stream);
  }

  call_cost cost() const override {
    return costs::encoder_backward(shape_, different(tokens_), llmc::accumulation::add, mode());
  }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> dwte = dwte_.values_before(), dwpe = dwpe_.values_before();
    llmc::reference::encoder_backward(dwte.data(), dwpe.data(), tokens_.data(),
                                      dout_.values().data(), shape_, llmc::accumulation::add,
                                      mode());
    return {dwte, dwpe};
  }

  encoder_shape shape_;
  std::vector<std::int32_t> tokens_ = random_tokens(shape_);
  const std::int32_t* gpu_tokens_ = integers("tokens", tokens_);
  array& dout_ = input("dout", count_of(shape_));
  array& dwte_ = updated("dwte", shape_.vocabulary* shape_.channels,
                         sum_tolerance(shape_.batch* shape_.sequence));
  array& dwpe_ = gradient("dwpe", shape_.sequence* shape_.channels, sum_tolerance(shape_.batch));
};

}  // namespace

std::vector<operation> encoder() {
  return {make_operation<forward_problem>("encoder_forward"),
          make_operation<backward_problem>("encoder_backward")};
}

}  // namespace llmc_registry
