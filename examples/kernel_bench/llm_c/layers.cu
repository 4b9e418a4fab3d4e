#include <llmc/encoder.cuh>
#include <llmc/gelu.cuh>
#include <llmc/layernorm.cuh>
#include <llmc/residual.cuh>
#include <llmc/residual_layernorm.cuh>

#include <set>

#include "arrays.hpp"
#include "bench.hpp"
#include "llm_c.hpp"
#include "registry/layernorm.hpp"
#include "registry/tokens.hpp"

namespace llm_c_bench {
namespace {

using llmc::accumulation;
using llmc_registry::layernorm_epsilon;

// ---- encoder ----

constexpr llmc::encoder_shape encoder_shape{batch, sequence, channels, vocabulary};

void measure_encoder_forward(peer_bench& bench) {
  const integers tokens(llmc_registry::random_tokens(encoder_shape));
  const normal_floats wte(std::int64_t{vocabulary} * channels),
      wpe(std::int64_t{sequence} * channels);
  const floats out(activations), ours(activations);
  llmc::encoder_forward(ours, nullptr, tokens, wte, wpe, encoder_shape, bench.stream);
  bench.measure({"encoder_forward", "encoder_forward"}, {{out, ours, activations}},
                [&](cudaStream_t s) {
                  ::encoder_forward(out, tokens, wte, wpe, batch, sequence, channels, s);
                });
}

/// The launcher sorts the tokens on the host, which is in its time, as it is in llm.c's steps.
void measure_encoder_backward(peer_bench& bench) {
  const std::vector<std::int32_t> host_tokens = llmc_registry::random_tokens(encoder_shape);
  const std::set<std::int32_t> different(host_tokens.begin(), host_tokens.end());
  const integers tokens(host_tokens);
  constexpr std::int64_t table = std::int64_t{vocabulary} * channels;
  constexpr std::int64_t positions = std::int64_t{sequence} * channels;
  const normal_floats dout(activations), dwte_before(table);
  const floats dwte(table), dwpe(positions), our_dwte(table), our_dwpe(positions);
  const floats scratch(llm_c::encoder_scratch_size(batch, sequence, channels));
  constexpr int most_items = rows * channels / 128;  // llm.c cuts a token's channels into 128s
  std::vector<int> indices(most_items);
  std::vector<int4> buckets(most_items);

  const bytes workspace = make_workspace(llmc::encoder_backward_workspace_bytes(encoder_shape));
  copy(our_dwte, dwte_before, bench.stream);
  llmc::encoder_backward(our_dwte, our_dwpe, workspace, tokens, dout, encoder_shape,
                         accumulation::add, accumulation::overwrite, bench.stream);

  const std::vector<peer_output> outputs{{dwte, our_dwte, table}, {dwpe, our_dwpe, positions}};
  const auto prepare = [&](cudaStream_t s) {
    copy(dwte, dwte_before, s);
    clear(dwpe, s);
  };
  bench.measure(
      {"encoder_backward", "encoder_backward, with sorting on the host"}, outputs,
      [&](cudaStream_t s) {
        ::encoder_backward(dwte, dwpe, scratch, indices.data(), buckets.data(), dout, tokens,
                           host_tokens.data(), batch, sequence, channels, 0, s);
      },
      prepare);
  bench.measure(
      {"encoder_backward", "its two kernels, once sorted", {}, true}, outputs,
      [&](cudaStream_t s) {
        llm_c::encoder_backward_kernels(dwte, dwpe, scratch, static_cast<int>(different.size()),
                                        dout, tokens, batch, sequence, channels, s);
      },
      prepare);
}

// ---- layer normalisation and residuals ----

void measure_layernorm_forward(peer_bench& bench) {
  const normal_floats inp(activations), weight(channels), bias(channels);
  const floats out(activations), mean(rows), rstd(rows);
  const floats ours(activations), our_mean(rows), our_rstd(rows);
  llmc::layernorm_forward(ours, our_mean, our_rstd, inp, weight, bias, row_shape, layernorm_epsilon,
                          bench.stream);
  bench.measure({"layernorm_forward", "layernorm_forward"},
                {{out, ours, activations},
                 {mean, our_mean, rows, 1 / typical_sum(channels)},
                 {rstd, our_rstd, rows}},
                [&](cudaStream_t s) {
                  ::layernorm_forward(out, mean, rstd, inp, weight, bias, batch, sequence, channels,
                                      s);
                });
}

void measure_residual_forward(peer_bench& bench) {
  const normal_floats inp1(activations), inp2(activations);
  const floats out(activations), ours(activations);
  llmc::residual_forward(ours, inp1, inp2, activations, bench.stream);
  bench.measure({"residual_forward", "residual_forward"}, {{out, ours, activations}},
                [&](cudaStream_t s) { ::residual_forward(out, inp1, inp2, activations, s); });
}

void measure_residual_layernorm_forward(peer_bench& bench) {
  const normal_floats inp1(activations), inp2(activations), weight(channels), bias(channels);
  const floats residual(activations), out(activations), mean(rows), rstd(rows);
  const floats our_residual(activations), ours(activations), our_mean(rows), our_rstd(rows);
  llmc::residual_layernorm_forward(our_residual, ours, our_mean, our_rstd, inp1, inp2, weight, bias,
                                   row_shape, layernorm_epsilon, bench.stream);
  bench.measure(
      {"residual_layernorm_forward", "fused_residual_forward5"},
      {{residual, our_residual, activations}, {out, ours, activations}, {rstd, our_rstd, rows}},
      [&](cudaStream_t s) {
        ::fused_residual_forward5(residual, out, mean, rstd, inp1, inp2, weight, bias, rows,
                                  channels, s);
      });
}

/// llm.c's adds to all three gradients, so it is llmc's with a residual; for the one without, dinp
/// is 0 before.
void measure_layernorm_backward(peer_bench& bench) {
  const normal_floats dout(activations), dresidual(activations), inp(activations), weight(channels);
  const floats mean(rows), rstd(rows);
  llmc_registry::layernorm_statistics(mean, rstd, inp, row_shape);
  const floats dinp(activations), dweight(channels), dbias(channels);
  const floats our_dinp(activations), our_dweight(channels), our_dbias(channels);
  const floats scratch(32 + 2 * channels * most_blocks);
  const bytes workspace =
      make_workspace(llmc::residual_layernorm_backward_workspace_bytes(row_shape));
  const floats no_residual(activations);
  clear(no_residual, bench.stream);

  const auto measure = [&](const char* operation, const floats& dinp_before) {
    llmc::residual_layernorm_backward(our_dinp, nullptr, our_dweight, our_dbias, workspace, dout,
                                      dinp_before, inp, weight, mean, rstd, row_shape,
                                      accumulation::overwrite, bench.stream);
    bench.measure(
        {operation, "layernorm_backward"},
        {{dinp, our_dinp, activations},
         {dweight, our_dweight, channels, typical_sum(rows)},
         {dbias, our_dbias, channels, typical_sum(rows)}},
        [&](cudaStream_t s) {
          ::layernorm_backward(dinp, dweight, dbias, scratch, dout, inp, weight, mean, rstd, batch,
                               sequence, channels, s);
        },
        [&](cudaStream_t s) {
          copy(dinp, dinp_before, s);
          clear(dweight, s);
          clear(dbias, s);
        });
  };
  measure("layernorm_backward", no_residual);
  measure("residual_layernorm_backward", dresidual);
}

// ---- GELU ----

void measure_gelu(peer_bench& bench) {
  const normal_floats inp(hidden_activations, 3), dout(hidden_activations);
  const floats out(hidden_activations), ours(hidden_activations);
  constexpr int count{hidden_activations};
  llmc::gelu_forward(ours, inp, count, bench.stream);
  bench.measure({"gelu_forward", "gelu_forward"}, {{out, ours, count}},
                [&](cudaStream_t s) { ::gelu_forward(out, inp, count, s); });
  llmc::gelu_backward(ours, dout, inp, count, bench.stream);
  bench.measure(
      {"gelu_backward", "gelu_backward_inplace"}, {{out, ours, count}},
      [&](cudaStream_t s) { ::gelu_backward_inplace(out, inp, count, s); },
      [&](cudaStream_t s) { copy(out, dout, s); });
}

}  // namespace

std::vector<measurement> layer_measurements() {
  return {measure_encoder_forward,
          measure_encoder_backward,
          measure_layernorm_forward,
          measure_layernorm_backward,
          measure_residual_forward,
          measure_residual_layernorm_forward,
          measure_gelu};
}

}  // namespace llm_c_bench
