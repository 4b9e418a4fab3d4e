#include "call_cost.hpp"

#include <algorithm>

namespace gpt2_trainer::costs {
namespace {

using llmc::accumulation;
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

/// That many products between all queries and keys, of which half are masked.
call_cost attention(llmc::attention_shape s, int products, std::int64_t numbers) {
  call_cost cost = traffic(numbers);
  cost.flops = products * static_cast<double>(s.batch * s.sequence * s.heads * s.head_size) *
               static_cast<double>(s.sequence);
  cost.kind = call_kind::attention;
  return cost;
}

/// Most tokens of a batch differ, so the rows of the table that they name are about as many.
std::int64_t token_rows(llmc::encoder_shape s) {
  return std::min(s.batch * s.sequence, s.vocabulary);
}

}  // namespace

call_cost encoder_forward(llmc::encoder_shape s) {
  const std::int64_t rows = s.batch * s.sequence;
  return traffic(rows + (token_rows(s) + s.sequence + rows) * s.channels);
}

call_cost encoder_backward(llmc::encoder_shape s, accumulation dwte_mode, accumulation dwpe_mode) {
  const std::int64_t rows = s.batch * s.sequence;
  const std::int64_t dwte =
      dwte_mode == accumulation::add ? times(dwte_mode) * token_rows(s) : s.vocabulary;
  return traffic(rows + (rows + dwte + times(dwpe_mode) * s.sequence) * s.channels);
}

call_cost layernorm_forward(row_shape s) {
  return traffic(2 * elements(s) + 2 * s.rows + 2 * s.channels);
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

call_cost matmul_forward(matmul_shape s, bool has_bias) {
  return product(s, inputs(s) + weights(s) + outputs(s) + (has_bias ? s.out_channels : 0));
}

call_cost matmul_gelu_forward(matmul_shape s, bool has_bias) {
  return product(s, inputs(s) + weights(s) + 2 * outputs(s) + (has_bias ? s.out_channels : 0));
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

call_cost gelu_forward(std::int64_t count) {
  return traffic(2 * count);
}

call_cost attention_forward(llmc::attention_shape s) {
  const std::int64_t rows = s.batch * s.sequence * s.heads;
  return attention(s, 2, 4 * rows * s.head_size + rows);
}

call_cost attention_backward(llmc::attention_shape s, bool has_dqkv_bias, accumulation mode) {
  // Reads three matrices of queries, keys and values, out and dout; writes three.
  const std::int64_t rows = s.batch * s.sequence * s.heads;
  const std::int64_t bias = has_dqkv_bias ? times(mode) * 3 * s.heads * s.head_size : 0;
  return attention(s, 5, 8 * rows * s.head_size + rows + bias);
}

call_cost crossentropy_forward(llmc::classifier_shape s) {
  // Of a row also its target and its loss.
  return traffic(s.rows * s.vocabulary + 2 * s.rows);
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

}  // namespace gpt2_trainer::costs
