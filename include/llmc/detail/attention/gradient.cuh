/// @file
/// Host side of attention's gradient: how its scratch is cut, and the gradient of qkv's bias, which
/// all variants share.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <llmc/detail/attention/flash/flash.cuh>
#include <llmc/detail/attention/materialised.cuh>
#include <llmc/detail/attention/naive.cuh>
#include <llmc/detail/bias_gradient.cuh>
#include <llmc/detail/checks.hpp>
#include <llmc/detail/column_sum.cuh>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/matmul_context.hpp>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// A row of qkv as the outputs of a linear layer.
inline row_shape qkv_rows(attention_shape shape) {
  return {shape.batch * shape.sequence, 3 * shape.heads * shape.head_size};
}

/// Rounded up to 16 bytes, for what lies behind it.
inline std::size_t attention_delta_bytes(const char* function, attention_shape shape) {
  constexpr std::int64_t aligned = 4;
  const std::int64_t count =
      checks::checked_product(function, shape.batch, shape.heads, shape.sequence);
  return checks::bytes<float>(function, ceil_div(count, aligned), aligned);
}

/// The scratch of a variant. The bias is summed after the gradients, so its scratch may lie where
/// theirs did.
template <class Variant>
std::size_t attention_gradient_bytes(const char* function, attention_shape shape, Variant chosen) {
  const auto gradients = [&] {
    if (chosen == Variant::materialised) {
      return materialised_backward_workspace(function, shape).bytes();
    }
    const std::size_t delta = attention_delta_bytes(function, shape);
    return chosen == Variant::naive ? delta : delta + flash_sums_bytes(function, shape);
  };
  return (std::max)(gradients(), column_sum_workspace_bytes(function, qkv_rows(shape), 1));
}

/// One call of attention_backward: its arguments, except those that only some variants take.
template <int BlockSize>
struct attention_gradient {
  static_assert(is_block_size(BlockSize),
                "attention_backward: BlockSize must be a multiple of 32 between 32 and 1024");

  const char* function;
  attention_backward_arrays arrays;
  float* dqkv_bias;
  workspace scratch;
  attention_shape shape;
  accumulation mode;
  cudaStream_t stream;

  /// Checks everything. False where there are no positions: then all is done.
  template <class Variant>
  bool begin(Variant chosen) const {
    checks::require_workspace(function, scratch, attention_gradient_bytes(function, shape, chosen));
    if (shape.batch == 0 || shape.sequence == 0) {
      sum_dqkv();
      return false;
    }
    arrays.require(function);
    return true;
  }

  /// On tensor cores the kernels of flash leave the sums of dqkv in parts, and only these are added
  /// up.
  void flash(precision arithmetic) const {
    attention_backward_arrays all = arrays;
    all.delta = static_cast<float*>(scratch.data);
    if (dqkv_bias != nullptr) {
      all.dqkv_sums = all.delta + attention_delta_bytes(function, shape) / sizeof(float);
    }
    const std::int64_t sums = flash_attention<>{function, shape, arithmetic, stream}.backward(all);
    if (dqkv_bias == nullptr || sums == 0) return sum_dqkv();
    column_sum_total<1>(function, {{dqkv_bias}}, all.dqkv_sums, qkv_rows(shape).channels, sums,
                        mode, stream);
  }
  void naive() const {
    attention_backward_arrays all = arrays;
    all.delta = static_cast<float*>(scratch.data);
    naive_attention{function, shape, BlockSize, stream}.backward(all);
    sum_dqkv();
  }
  void materialised(precision arithmetic, matmul_context& context) const {
    materialised_attention<BlockSize>{function, shape, arithmetic, context, stream}.backward(
        arrays, scratch.data);
    sum_dqkv();
  }

 private:
  /// The gradient of the bias, by a pass of its own.
  void sum_dqkv() const {
    if (dqkv_bias == nullptr) return;
    sum_bias_gradient<BlockSize>(function, dqkv_bias, scratch.data, arrays.dqkv, qkv_rows(shape),
                                 mode, stream);
  }
};

}  // namespace detail
LLMC_NAMESPACE_END
