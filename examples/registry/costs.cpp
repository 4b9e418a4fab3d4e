#include "registry/costs.hpp"

#include <algorithm>

#include <llmc/split_matrix.hpp>

namespace llmc_registry::costs {
namespace {

using llmc::accumulation;
using llmc::attention_shape;
using llmc::matmul_shape;
using llmc::row_shape;

/// The traffic of that many numbers, all of 4 bytes.
call_cost traffic(std::int64_t numbers) {
  return {0, 4.0 * static_cast<double>(numbers), call_kind::other};
}

/// How often a gradient is touched.
int times(accumulation mode) {
  return mode == accumulation::add ? 2 : 1;
}

std::int64_t elements(row_shape s) {
  return s.rows * s.channels;
}
std::int64_t inputs(matmul_shape s) {
  return s.rows * s.channels;
}
std::int64_t outputs(matmul_shape s) {
  return s.rows * s.out_channels;
}
std::int64_t weights(matmul_shape s) {
  return s.channels * s.out_channels;
}

call_cost product(matmul_shape s, std::int64_t numbers) {
  call_cost cost = traffic(numbers);
  cost.flops = 2 * static_cast<double>(outputs(s)) * static_cast<double>(s.channels);
  cost.kind = call_kind::product;
  return cost;
}

/// Elements of one of queries, keys and values.
std::int64_t vectors(attention_shape s) {
  return s.batch * s.sequence * s.heads * s.head_size;
}
/// Scores, and those of them that are not masked.
std::int64_t scores(attention_shape s) {
  return s.batch * s.heads * s.sequence * s.sequence;
}
std::int64_t visible_scores(attention_shape s) {
  return s.batch * s.heads * (s.sequence * (s.sequence + 1) / 2);
}

/// That many products over all pairs of queries and keys. About half of the pairs are masked.
call_cost attention(attention_shape s, int products, std::int64_t numbers) {
  call_cost cost = traffic(numbers);
  cost.flops = products * static_cast<double>(vectors(s)) * static_cast<double>(s.sequence);
  cost.kind = call_kind::attention;
  return cost;
}

}  // namespace

call_cost encoder_forward(llmc::encoder_shape s, std::int64_t different_tokens) {
  const std::int64_t rows = s.batch * s.sequence;
  return traffic(rows + (different_tokens + s.sequence + rows) * s.channels);
}

call_cost encoder_backward(llmc::encoder_shape s, std::int64_t different_tokens,
                           accumulation dwte_mode, accumulation dwpe_mode) {
  const std::int64_t rows = s.batch * s.sequence;
  const std::int64_t dwte =
      dwte_mode == accumulation::add ? times(dwte_mode) * different_tokens : s.vocabulary;
  return traffic(rows + (rows + dwte + times(dwpe_mode) * s.sequence) * s.channels);
}

std::int64_t most_different_tokens(llmc::encoder_shape s) {
  return std::min(s.batch * s.sequence, s.vocabulary);
}

call_cost layernorm_forward(row_shape s) {
  return traffic(2 * elements(s) + 2 * s.rows + 2 * s.channels);
}

call_cost layernorm_backward(row_shape s, accumulation mode) {
  return residual_layernorm_backward(s, false, false, mode);
}

call_cost residual_layernorm_forward(row_shape s) {
  return traffic(4 * elements(s) + 2 * s.rows + 2 * s.channels);
}

call_cost residual_layernorm_backward(row_shape s, bool has_dresidual, bool has_dinp_bias,
                                      accumulation mode) {
  const int matrices = has_dresidual ? 4 : 3;
  const int gradients = has_dinp_bias ? 3 : 2;
  return traffic(matrices * elements(s) + 2 * s.rows + (1 + gradients * times(mode)) * s.channels);
}

call_cost residual_forward(std::int64_t count) {
  return traffic(3 * count);
}

call_cost residual_backward(std::int64_t count, accumulation mode) {
  return traffic((1 + 2 * times(mode)) * count);
}

call_cost matmul_forward(matmul_shape s, bool has_bias) {
  return product(s, inputs(s) + weights(s) + outputs(s) + (has_bias ? s.out_channels : 0));
}

call_cost matmul_residual_forward(matmul_shape s, bool has_bias) {
  return product(s, inputs(s) + weights(s) + 2 * outputs(s) + (has_bias ? s.out_channels : 0));
}

call_cost matmul_gelu_forward(matmul_shape s, bool has_bias) {
  return matmul_residual_forward(s, has_bias);  // a second output instead of a second input
}

call_cost matmul_backward(matmul_shape s, bool has_dbias, accumulation mode) {
  const std::int64_t gradients = weights(s) + (has_dbias ? s.out_channels : 0);
  call_cost cost = product(s, outputs(s) + 2 * inputs(s) + weights(s) + times(mode) * gradients);
  cost.flops *= 2;
  return cost;
}

call_cost gelu_matmul_backward(matmul_shape s, bool has_dgelu_bias, bool has_dbias,
                               accumulation mode) {
  const std::int64_t dgelu_bias = has_dgelu_bias ? times(mode) * s.channels : 0;
  call_cost cost = matmul_backward(s, has_dbias, mode);
  cost.bytes += traffic(inputs(s) + dgelu_bias).bytes;  // what went into the GELU
  return cost;
}

call_cost matmul_dinp(matmul_shape s) {
  return product(s, outputs(s) + weights(s) + inputs(s));
}

call_cost matmul_dgelu_inp(matmul_shape s, bool has_dgelu_bias, accumulation mode) {
  const std::int64_t bias = has_dgelu_bias ? times(mode) * s.channels : 0;
  return product(s, outputs(s) + weights(s) + 2 * inputs(s) + bias);
}

call_cost matmul_dweight(matmul_shape s, accumulation mode) {
  return product(s, outputs(s) + inputs(s) + times(mode) * weights(s));
}

call_cost matmul_bias_backward(row_shape s, accumulation mode) {
  return traffic(elements(s) + times(mode) * s.channels);
}

call_cost split(row_shape s) {
  const std::size_t words = llmc::split_matrix_bytes(s) / sizeof(float);
  return traffic(elements(s) + static_cast<std::int64_t>(words));
}

call_cost permute_heads(attention_shape s, int parts) {
  return traffic(2 * parts * vectors(s));
}

call_cost causal_product(attention_shape s) {
  call_cost cost = traffic(2 * vectors(s) + scores(s));
  cost.flops = 2 * static_cast<double>(visible_scores(s)) * static_cast<double>(s.head_size);
  cost.kind = call_kind::product;
  return cost;
}

call_cost causal_softmax_forward(attention_shape s) {
  return traffic(visible_scores(s) + scores(s));
}

call_cost causal_softmax_backward(attention_shape s) {
  return traffic(2 * visible_scores(s) + scores(s));
}

call_cost attention_forward(attention_shape s) {
  return attention(s, 2, 4 * vectors(s) + s.batch * s.sequence * s.heads);
}

call_cost attention_backward(attention_shape s, bool has_dqkv_bias, accumulation mode) {
  // Reads three matrices of queries, keys and values, out and dout; writes three.
  const std::int64_t bias = has_dqkv_bias ? times(mode) * 3 * s.heads * s.head_size : 0;
  return attention(s, 5, 8 * vectors(s) + s.batch * s.sequence * s.heads + bias);
}

call_cost gelu_forward(std::int64_t count) {
  return traffic(2 * count);
}

call_cost gelu_backward(std::int64_t count) {
  return traffic(3 * count);
}

call_cost softmax_forward(row_shape s) {
  return traffic(2 * elements(s));
}

call_cost softmax_backward(row_shape s) {
  return traffic(3 * elements(s));
}

call_cost crossentropy_forward(llmc::classifier_shape s) {
  // Of a row also its target and its loss.
  return traffic(s.rows * s.vocabulary + 2 * s.rows);
}

call_cost crossentropy_backward(llmc::classifier_shape s) {
  return classifier_forward_backward(s);  // the losses' gradients instead of the losses
}

call_cost classifier_forward_backward(llmc::classifier_shape s) {
  return traffic(s.rows * (s.vocabulary + s.padded_vocabulary) + 2 * s.rows);
}

call_cost zero(std::size_t bytes) {
  return {0, static_cast<double>(bytes), call_kind::other};
}

call_cost loss_sum(std::int64_t count) {
  return traffic(count);
}

call_cost global_norm(std::int64_t count) {
  return traffic(count);
}

call_cost adamw_update(std::int64_t count) {
  // Reads parameters, gradients and both moments; writes all but the gradients.
  return traffic(7 * count);
}

}  // namespace llmc_registry::costs
