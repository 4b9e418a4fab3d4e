#include <llmc/attention.cuh>
#include <llmc/causal_softmax.cuh>
#include <llmc/matmul.cuh>
#include <llmc/matmul_bias.cuh>
#include <llmc/matmul_gelu.cuh>
#include <llmc/permute.cuh>

#include "arrays.hpp"
#include "bench.hpp"
#include "llm_c.hpp"

namespace llm_c_bench {
namespace {

using llmc::accumulation;
using llmc::precision;

// ---- products ----

template <class Measure>
void in_each_precision(Measure measure) {
  for (const precision arithmetic : {precision::ieee, precision::tf32}) {
    llm_c::use_tf32(arithmetic == precision::tf32);
    measure(arithmetic);
  }
}

void measure_matmul_forward(peer_bench& bench) {
  const normal_floats inp(activations), weight(hidden * channels), bias(hidden);
  const floats out(hidden_activations), ours(hidden_activations);
  llmc::matmul_context context;
  llmc::matmul_forward(ours, inp, weight, bias, linear_shape, precision::ieee, context,
                       bench.stream);
  in_each_precision([&](precision arithmetic) {
    bench.measure({"matmul_forward", "matmul_forward_cublaslt", arithmetic},
                  {{out, ours, hidden_activations, typical_sum(channels)}}, [&](cudaStream_t s) {
                    ::matmul_forward_cublaslt(out, inp, weight, bias, batch, sequence, channels,
                                              hidden, s, nullptr, 0);
                  });
  });
}

void measure_matmul_backward(peer_bench& bench) {
  constexpr std::int64_t weights = std::int64_t{hidden} * channels;
  const normal_floats dout(hidden_activations), inp(activations), weight(weights);
  const floats dinp(activations), dweight(weights), dbias(hidden), dbias_buffer(hidden * 64);
  const floats our_dinp(activations), our_dweight(weights), our_dbias(hidden);
  const std::size_t scratch_bytes = llmc::matmul_backward_workspace_bytes(linear_shape);
  const bytes workspace = make_workspace(scratch_bytes);
  llmc::matmul_context context;
  llmc::matmul_backward(our_dinp, our_dweight, our_dbias, {workspace, scratch_bytes}, dout, inp,
                        weight, linear_shape, precision::ieee, accumulation::overwrite, context,
                        bench.stream);
  const peer_output dbias_output{dbias, our_dbias, hidden, typical_sum(rows)};
  in_each_precision([&](precision arithmetic) {
    bench.measure(
        {"matmul_backward", "matmul_backward", arithmetic},
        {{dinp, our_dinp, activations, typical_sum(hidden)},
         {dweight, our_dweight, weights, typical_sum(rows)},
         dbias_output},
        [&](cudaStream_t s) {
          ::matmul_backward(dinp, dweight, dbias, dout, inp, weight, dbias_buffer, batch, sequence,
                            channels, hidden, s, nullptr, 0);
        },
        [&](cudaStream_t s) {
          clear(dweight, s);
          clear(dbias, s);
        });
  });
  bench.measure(
      {"matmul_bias_backward", "matmul_backward_bias_kernel9 + reduce_add_sum_kernel"},
      {dbias_output},
      [&](cudaStream_t s) { llm_c::bias_backward(dbias, dbias_buffer, dout, rows, hidden, s); },
      [&](cudaStream_t s) { clear(dbias, s); });
}

// ---- attention ----

/// Both directions: what backward needs is what forward leaves. Its input is its scratch, too.
void measure_attention(peer_bench& bench) {
  const normal_floats qkv(3 * activations), dout(activations);
  const floats ours(activations), lse(matrices * sequence), our_dqkv(3 * activations);
  llmc::matmul_context context;
  {
    const bytes workspace = make_workspace(llmc::attention_forward_workspace_bytes(head_shape));
    llmc::attention_forward(ours, lse, workspace, qkv, head_shape, precision::ieee, context,
                            bench.stream);
  }
  {
    const bytes workspace = make_workspace(llmc::attention_backward_workspace_bytes(head_shape));
    llmc::attention_backward(our_dqkv, nullptr, workspace, dout, qkv, ours, lse, head_shape,
                             precision::ieee, accumulation::overwrite, context, bench.stream);
  }

  const floats out(activations), by_head(3 * activations), probabilities(scores);
  const floats inp_and_scratch(scores);
  const floats dqkv(3 * activations), d_by_head(3 * activations), d_probabilities(scores);
  const floats scratch(activations);
  clear(probabilities, bench.stream);  // what is above the diagonal is never written
  in_each_precision([&](precision arithmetic) {
    bench.measure(
        {"attention_forward", "attention_forward", arithmetic}, {{out, ours, activations}},
        [&](cudaStream_t s) {
          ::attention_forward(out, by_head, probabilities, inp_and_scratch, batch, sequence,
                              channels, heads, s);
        },
        [&](cudaStream_t s) { copy(inp_and_scratch, qkv, s); });
    bench.measure({"attention_backward", "attention_backward", arithmetic},
                  {{dqkv, our_dqkv, 3 * activations}}, [&](cudaStream_t s) {
                    ::attention_backward(dqkv, d_by_head, d_probabilities, scratch, dout, by_head,
                                         probabilities, batch, sequence, channels, heads, s);
                  });
  });
}

void measure_permutes(peer_bench& bench) {
  constexpr int parts = 3;
  constexpr std::int64_t count = parts * activations;
  const normal_floats inp(count);
  const floats out(count), ours(count);
  llmc::permute_heads(ours, inp, head_shape, parts, bench.stream);
  bench.measure({"permute_heads", "permute_kernel"}, {{out, ours, count}}, [&](cudaStream_t s) {
    llm_c::permute(out, inp, batch, sequence, heads, head_size, s);
  });
  llmc::unpermute_heads(ours, inp, head_shape, parts, bench.stream);
  bench.measure(
      {"unpermute_heads", "permute_kernel_backward"}, {{out, ours, count}},
      [&](cudaStream_t s) { llm_c::unpermute(out, inp, batch, sequence, heads, head_size, s); });
}

void measure_causal_softmax(peer_bench& bench) {
  constexpr float scale = 0.125f;
  constexpr double typical_probability = 2.0 / sequence;
  const normal_floats inp(scores), dout(scores);
  const floats out(scores), dinp(scores), ours(scores), our_dinp(scores);
  llmc::causal_softmax_forward(ours, inp, head_shape, scale, bench.stream);
  llmc::causal_softmax_backward(our_dinp, dout, ours, head_shape, scale, bench.stream);
  clear(out, bench.stream);  // what is above the diagonal is never written
  bench.measure({"causal_softmax_forward", "softmax_forward_kernel5"},
                {{out, ours, scores, typical_probability}}, [&](cudaStream_t s) {
                  llm_c::causal_softmax_forward(out, inp, matrices, sequence, scale, s);
                });
  bench.measure(
      {"causal_softmax_backward", "softmax_autoregressive_backward_inplace_kernel"},
      {{dinp, our_dinp, scores, scale * typical_probability}},
      [&](cudaStream_t s) {
        llm_c::causal_softmax_backward(dinp, ours, matrices, sequence, scale, s);
      },
      [&](cudaStream_t s) { copy(dinp, dout, s); });
}

// ---- what cuBLASLt may refuse ----

/// Apart, and with the GELU in the product's epilogue, which is llm.c's default on Hopper.
void measure_matmul_gelu(peer_bench& bench) {
  const normal_floats inp(activations), weight(hidden * channels), bias(hidden);
  const floats out(hidden_activations), before_gelu(hidden_activations);
  const floats ours(hidden_activations), our_before_gelu(hidden_activations);
  llmc::matmul_context context;
  llmc::matmul_gelu_forward(ours, our_before_gelu, inp, weight, bias, linear_shape, precision::ieee,
                            context, bench.stream);
  const std::vector<peer_output> outputs{
      {out, ours, hidden_activations, typical_sum(channels)},
      {before_gelu, our_before_gelu, hidden_activations, typical_sum(channels)}};
  for (const int fusion : {0, 1}) {
    in_each_precision([&](precision arithmetic) {
      bench.measure({"matmul_gelu_forward",
                     fusion ? "matmul_forward_cublaslt, fused" : "matmul_forward_cublaslt + gelu",
                     arithmetic},
                    outputs, [&](cudaStream_t s) {
                      ::matmul_forward_cublaslt(out, inp, weight, bias, batch, sequence, channels,
                                                hidden, s, before_gelu, fusion);
                    });
    });
  }
}

}  // namespace

std::vector<measurement> product_measurements() {
  return {measure_matmul_forward, measure_matmul_backward, measure_permutes,
          measure_causal_softmax, measure_attention,       measure_matmul_gelu};
}

}  // namespace llm_c_bench
