#include <llmc/adamw.cuh>
#include <llmc/reference/adamw.hpp>

#include <vector>

#include "registry/families/flat.hpp"
#include "registry/ladder.hpp"
#include "registry/layers/layers.hpp"

namespace llmc_registry {
namespace {

using llmc::adamw_update_variant;
using llmc_test::buffer;
using llmc_test::elementwise_tolerance;

constexpr llmc::adamw_parameters constants{0.9f, 0.95f, 1e-8f, 0.1f};
constexpr float learning_rate = 6e-4f;
constexpr std::int64_t step = 10;
constexpr llmc::clip_state clip{2, 0.5f, 1};

class adamw_problem : public problem {
 public:
  static std::vector<parameter> parameters() { return flat_parameters(); }
  static std::vector<extents> awkward() { return awkward_counts(); }

 protected:
  adamw_problem(const extents& e, settings s) : problem(s), count_(e.at("count")) {}

  std::int64_t count_;
  buffer<float> learning_rate_{std::vector<float>{learning_rate}};
  buffer<std::int64_t> step_{std::vector<std::int64_t>{step}};
  buffer<llmc::clip_state> clip_{std::vector<llmc::clip_state>{clip}};
  array& grads_ = input("grads", count_);
  array& params_ = updated("params", count_, elementwise_tolerance());
  array& m_ = updated("m", count_, elementwise_tolerance(), {0.1});
  array& v_ = updated("v", count_, elementwise_tolerance(), {0.1, 1});
};

class update_problem : public adamw_problem {
 public:
  static constexpr auto& variants = llmc::adamw_update_variants;
  template <adamw_update_variant Variant>
  static constexpr int default_block_size = llmc::adamw_update_block_size<Variant>;

  update_problem(const extents& e, settings s) : adamw_problem(e, s) {}

  template <adamw_update_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::adamw_update<Variant, BlockSize>(params_, m_, v_, grads_, count_, constants,
                                           learning_rate_, step_, clip_, stream);
  }

  call_cost cost() const override { return costs::adamw_update(count_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> params = params_.values_before(), m = m_.values_before(),
                        v = v_.values_before();
    llmc::reference::adamw_update(params.data(), m.data(), v.data(), grads_.values().data(), count_,
                                  constants, &learning_rate, &step, &clip);
    return {params, m, v};
  }
};

/// Segments that decay and segments that do not, in turns: as many as GPT-2 has where its tensors
/// are grouped by kind.
std::vector<llmc::adamw_segment> ten_segments(std::int64_t count) {
  std::vector<llmc::adamw_segment> segments;
  for (int i = 0; i < 9; ++i) segments.push_back({count / 10, i % 2 == 0});
  segments.push_back({count - 9 * (count / 10), false});
  return segments;
}

class segments_problem : public adamw_problem {
 public:
  static constexpr auto& variants = llmc::adamw_update_segments_variants;
  template <adamw_update_variant Variant>
  static constexpr int default_block_size = llmc::adamw_update_segments_block_size<Variant>;

  segments_problem(const extents& e, settings s) : adamw_problem(e, s) {}

  template <adamw_update_variant Variant, int BlockSize>
  void launch(cudaStream_t stream) {
    llmc::adamw_update_segments<Variant, BlockSize>(
        params_, m_, v_, grads_, segments_.data(), static_cast<std::int64_t>(segments_.size()),
        constants, learning_rate_, step_, clip_, stream);
  }

  call_cost cost() const override { return costs::adamw_update(count_); }

 private:
  std::vector<std::vector<double>> reference() const override {
    std::vector<double> params = params_.values_before(), m = m_.values_before(),
                        v = v_.values_before();
    llmc::reference::adamw_update_segments(
        params.data(), m.data(), v.data(), grads_.values().data(), segments_.data(),
        static_cast<std::int64_t>(segments_.size()), constants, &learning_rate, &step, &clip);
    return {params, m, v};
  }

  std::vector<llmc::adamw_segment> segments_ = ten_segments(count_);
};

}  // namespace

std::vector<operation> adamw() {
  return {make_operation<update_problem>("adamw_update"),
          make_operation<segments_problem>("adamw_update_segments")};
}

}  // namespace llmc_registry
