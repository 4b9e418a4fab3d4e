/// @file
/// AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019), at step t from 1:
///
///     g      = scale * grad
///     m      = beta1 m + (1 - beta1) g
///     v      = beta2 v + (1 - beta2) g^2
///     param -= learning_rate * ((m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
///                               + weight_decay * param)
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <array>
#include <cmath>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/pack.cuh>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN

enum class adamw_update_variant {
  /// The best for this device and shape.
  automatic,
  /// A thread updates 4 parameters, or 1 where the alignment does not allow 4, in one pass over the
  /// four arrays. Memory bound, so it wins everywhere.
  pack_per_thread
};

inline constexpr std::array adamw_update_variants{adamw_update_variant::automatic,
                                                  adamw_update_variant::pack_per_thread};

constexpr const char* to_string(adamw_update_variant variant) {
  switch (variant) {
    case adamw_update_variant::automatic: return "automatic";
    case adamw_update_variant::pack_per_thread: return "pack_per_thread";
  }
  return "unknown";
}

/// Threads a block; not yet measured.
template <adamw_update_variant Variant>
inline constexpr int adamw_update_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace device {

/// What all parameters have in common in one step.
struct adamw_step {
  adamw_parameters parameters;
  float learning_rate;
  float scale;        ///< of the gradients
  float correction1;  ///< 1 - beta1^t
  float correction2;  ///< 1 - beta2^t
};

/// 1 - beta^t from log(beta), right to the last digits for beta near 1 and for any t: the exponent
/// is formed in double, and expm1 does not cancel.
__device__ __forceinline__ float adamw_correction(double log_beta, std::int64_t t) {
  return -expm1f(static_cast<float>(static_cast<double>(t) * log_beta));
}

/// Updates one parameter and its moments.
__device__ __forceinline__ void adamw_update_element(float& param, float& m, float& v, float grad,
                                                     const adamw_step& step) {
  const adamw_parameters& p = step.parameters;
  const float g = step.scale * grad;
  m = p.beta1 * m + (1.0f - p.beta1) * g;
  v = p.beta2 * v + (1.0f - p.beta2) * g * g;
  const float direction = m / step.correction1 / (sqrtf(v / step.correction2) + p.epsilon);
  param -= step.learning_rate * (direction + p.weight_decay * param);
}

}  // namespace device

namespace detail {

template <int Width, int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    adamw_update_kernel(float* params, float* m, float* v, const float* grads, std::int64_t count,
                        adamw_parameters parameters, double log_beta1, double log_beta2,
                        const float* learning_rate, const std::int64_t* t, const clip_state* clip) {
  if (clip != nullptr && clip->finite == 0) return;
  const device::adamw_step step = {parameters, *learning_rate, clip != nullptr ? clip->scale : 1.0f,
                                   device::adamw_correction(log_beta1, *t),
                                   device::adamw_correction(log_beta2, *t)};
  device::for_each_pack<Width>(count, device::thread_in_grid(), device::threads_in_grid(),
                               [&](auto width, std::int64_t first) {
                                 auto param = device::load<width()>(params + first);
                                 auto m_pack = device::load<width()>(m + first);
                                 auto v_pack = device::load<width()>(v + first);
                                 const auto grad = device::load<width()>(grads + first);
#pragma unroll
                                 for (int i = 0; i < width(); ++i) {
                                   device::adamw_update_element(param[i], m_pack[i], v_pack[i],
                                                                grad[i], step);
                                 }
                                 device::store<width()>(params + first, param);
                                 device::store<width()>(m + first, m_pack);
                                 device::store<width()>(v + first, v_pack);
                               });
}

}  // namespace detail

/// One step of AdamW; see the top of this file for the formulas. What changes from step to step is
/// read from device memory, so that a captured step can be replayed.
///
/// @param[in,out] params        (count), updated
/// @param[in,out] m             (count), updated; 0 before the first step
/// @param[in,out] v             (count), updated; 0 before the first step
/// @param[in]     grads         (count)
/// @param         parameters    the decay rates in [0, 1), epsilon and weight_decay at least 0
/// @param[in]     learning_rate one number in device memory
/// @param[in]     step          one number in device memory, t, which counts from 1
/// @param[in]     clip          in device memory, from global_norm: its scale multiplies the
///                              gradients, and nothing is written if its `finite` is 0. May be
///                              null: scale 1, always written
///
/// No two arrays may overlap. Any alignment. Deterministic. Throws invalid_argument for count < 0,
/// a null array or a parameter out of range; cuda_error if the launch fails.
template <adamw_update_variant Variant = adamw_update_variant::automatic,
          int BlockSize = adamw_update_block_size<Variant>>
void adamw_update(float* params, float* m, float* v, const float* grads, std::int64_t count,
                  adamw_parameters parameters, const float* learning_rate, const std::int64_t* step,
                  const clip_state* clip, cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "adamw_update: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::adamw_update";
  checks::require_count(function, count);
  checks::require_parameters(function, parameters);
  if (count == 0) return;
  checks::require_pointer(function, "params", params);
  checks::require_pointer(function, "m", m);
  checks::require_pointer(function, "v", v);
  checks::require_pointer(function, "grads", grads);
  checks::require_pointer(function, "learning_rate", learning_rate);
  checks::require_pointer(function, "step", step);

  const double log_beta1 = std::log(static_cast<double>(parameters.beta1));
  const double log_beta2 = std::log(static_cast<double>(parameters.beta2));
  detail::with_access_width(detail::is_16_byte_aligned(params, m, v, grads), [&](auto width) {
    const std::int64_t blocks = detail::ceil_div(count, width() * BlockSize);
    detail::launch({function, blocks, BlockSize, 0, stream},
                   detail::adamw_update_kernel<width(), BlockSize>, params, m, v, grads, count,
                   parameters, log_beta1, log_beta2, learning_rate, step, clip);
  });
}

LLMC_NAMESPACE_END
