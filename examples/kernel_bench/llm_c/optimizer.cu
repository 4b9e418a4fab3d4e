#include <llmc/adamw.cuh>
#include <llmc/global_norm.cuh>

#include "arrays.hpp"
#include "bench.hpp"
#include "llm_c.hpp"

namespace llm_c_bench {
namespace {

void measure_global_norm(peer_bench& bench) {
  const std::int64_t count = parameter_count();
  const normal_floats grads(count);
  const llmc_test::buffer<llmc::clip_state> result(1);
  const bytes workspace = make_workspace(llmc::global_norm_workspace_bytes(count));
  llmc::global_norm(result, workspace, grads, count, 1.0f, bench.stream);
  const float norm = result.values().front().norm;
  const floats ours(std::vector<float>{norm * norm}), theirs(most_blocks);
  bench.measure(
      {"global_norm", "global_norm_squared + global_sum_deterministic"}, {{theirs, ours, 1}},
      [&](cudaStream_t s) { llm_c::global_norm_squared(theirs, grads, grads.size(), s); });
}

void measure_adamw(peer_bench& bench) {
  constexpr int step = 10;
  constexpr llm_c::adamw_constants c{6e-4f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.5f};
  const std::int64_t count = parameter_count();
  // Parameters as small as a step, so that the step is seen in them.
  const normal_floats grads(count), params_before(count, c.learning_rate), m_before(count, 0.1);
  const normal_floats v_before(count, 0.1, 1);
  const floats params(count), m(count), v(count), our_params(count), our_m(count), our_v(count);
  const floats learning_rate(std::vector<float>{c.learning_rate});
  const llmc_test::buffer<std::int64_t> our_step(std::vector<std::int64_t>{step});
  const llmc_test::buffer<llmc::clip_state> clip(
      std::vector<llmc::clip_state>{{2, c.grad_scale, 1}});
  copy(our_params, params_before, bench.stream);
  copy(our_m, m_before, bench.stream);
  copy(our_v, v_before, bench.stream);
  llmc::adamw_update(our_params, our_m, our_v, grads, count,
                     {c.beta1, c.beta2, c.epsilon, c.weight_decay}, learning_rate, our_step, clip,
                     bench.stream);
  bench.measure(
      {"adamw_update", "adamw_update"},
      {{params, our_params, count, c.learning_rate}, {m, our_m, count}, {v, our_v, count}},
      [&](cudaStream_t s) { llm_c::adamw_update(params, grads, m, v, grads.size(), step, c, s); },
      [&](cudaStream_t s) {
        copy(params, params_before, s);
        copy(m, m_before, s);
        copy(v, v_before, s);
      });
}

}  // namespace

std::vector<measurement> optimizer_measurements() {
  return {measure_global_norm, measure_adamw};
}

}  // namespace llm_c_bench
