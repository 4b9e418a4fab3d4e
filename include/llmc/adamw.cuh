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
#include <string>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/elementwise.cuh>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN

enum class adamw_update_variant {
  /// The best for this device and shape.
  automatic,
  /// The naive form: a thread updates one parameter. No byte is fetched in vain, but each
  /// instruction moves only 4 bytes a thread, and the step's constants are computed for every
  /// parameter. Shows what wider access is worth: on an H100, with 124 million parameters, nothing,
  /// since memory bounds all three variants. Deterministic, as all of these are.
  element_per_thread,
  /// A thread updates 4 parameters, or 1 where the alignment does not allow 4, in one pass over the
  /// four arrays. Memory bound, and nearly as fast as can be.
  pack_per_thread,
  /// A thread does that twice, and reads everything before it computes. The step's constants are
  /// computed half as often. On an H100 as fast as pack_per_thread.
  packs_per_thread
};

inline constexpr std::array adamw_update_variants{
    adamw_update_variant::automatic, adamw_update_variant::element_per_thread,
    adamw_update_variant::pack_per_thread, adamw_update_variant::packs_per_thread};

constexpr const char* to_string(adamw_update_variant variant) {
  switch (variant) {
    case adamw_update_variant::automatic: return "automatic";
    case adamw_update_variant::element_per_thread: return "element_per_thread";
    case adamw_update_variant::pack_per_thread: return "pack_per_thread";
    case adamw_update_variant::packs_per_thread: return "packs_per_thread";
  }
  return "unknown";
}

/// Threads a block.
template <adamw_update_variant Variant>
inline constexpr int adamw_update_block_size = 256;

/// Packs a thread.
template <adamw_update_variant Variant>
inline constexpr int adamw_update_packs = 2;
template <>
inline constexpr int adamw_update_packs<adamw_update_variant::element_per_thread> = 1;
template <>
inline constexpr int adamw_update_packs<adamw_update_variant::pack_per_thread> = 1;

/// The algorithm with segments is the same.
using adamw_update_segments_variant = adamw_update_variant;
inline constexpr std::array adamw_update_segments_variants = adamw_update_variants;
template <adamw_update_segments_variant Variant>
inline constexpr int adamw_update_segments_block_size = adamw_update_block_size<Variant>;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace device {

/// What all parameters have in common in one step.
struct adamw_step {
  adamw_parameters parameters;
  float learning_rate;
  float scale;                ///< of the gradients
  float inverse_correction1;  ///< 1 / (1 - beta1^t)
  float inverse_correction2;  ///< 1 / (1 - beta2^t)
};

/// 1 / (1 - beta^t) from log(beta), right to the last digits for beta near 1 and for any t: the
/// exponent is formed in double, and expm1 does not cancel.
__device__ __forceinline__ float adamw_inverse_correction(double log_beta, std::int64_t t) {
  return -1.0f / expm1f(static_cast<float>(static_cast<double>(t) * log_beta));
}

/// Updates one parameter and its moments. Fused operations are written out, so that every kernel
/// rounds alike.
__device__ __forceinline__ void adamw_update_element(float& param, float& m, float& v, float grad,
                                                     float weight_decay, const adamw_step& step) {
  const adamw_parameters& p = step.parameters;
  const float g = step.scale * grad;
  m = fmaf(p.beta1, m, (1.0f - p.beta1) * g);
  v = fmaf(p.beta2, v, (1.0f - p.beta2) * g * g);
  const float direction =
      m * step.inverse_correction1 / (sqrtf(v * step.inverse_correction2) + p.epsilon);
  param = fmaf(-step.learning_rate, fmaf(weight_decay, param, direction), param);
}

}  // namespace device

namespace detail {

/// The arrays of one step, and what the host knows about it. `Decay` says which parameters decay.
template <class Decay>
struct adamw_operation : elementwise_operation {
  using state = device::adamw_step;
  static constexpr int inputs = 4;
  float* params;
  float* m;
  float* v;
  const float* grads;
  adamw_parameters parameters;
  Decay decay;
  double log_beta1;
  double log_beta2;
  const float* learning_rate;
  const std::int64_t* t;
  const clip_state* clip;

  template <int Width>
  __device__ void load(device::pack<Width> (&x)[inputs], std::int64_t first) const {
    x[0] = device::load<Width>(params + first);
    x[1] = device::load<Width>(m + first);
    x[2] = device::load<Width>(v + first);
    x[3] = device::load<Width>(grads + first);
  }
  __device__ bool begin(state& step) const {
    if (clip != nullptr && clip->finite == 0) return false;
    step = {parameters, *learning_rate, clip != nullptr ? clip->scale : 1.0f,
            device::adamw_inverse_correction(log_beta1, *t),
            device::adamw_inverse_correction(log_beta2, *t)};
    return true;
  }
  template <int Width>
  __device__ void store(device::pack<Width> (&x)[inputs], std::int64_t first,
                        const state& step) const {
    bool decays[Width];
    decay(decays, first);
#pragma unroll
    for (int i = 0; i < Width; ++i) {
      device::adamw_update_element(x[0][i], x[1][i], x[2][i], x[3][i],
                                   decays[i] ? parameters.weight_decay : 0.0f, step);
    }
    device::store(params + first, x[0]);
    device::store(m + first, x[1]);
    device::store(v + first, x[2]);
  }
};

/// All parameters decay.
struct adamw_decay_everywhere {
  template <int Width>
  __device__ void operator()(bool (&decays)[Width], std::int64_t) const {
#pragma unroll
    for (bool& d : decays) d = true;
  }
};

/// Runs of parameters that decay alternate with runs that do not.
struct adamw_decay_in_turns {
  static constexpr int most_turns = 32;
  std::int64_t turns[most_turns];  ///< where each run but the first begins
  int count = 0;
  bool first_decays = false;

  template <int Width>
  __device__ void operator()(bool (&decays)[Width], std::int64_t first) const {
#pragma unroll
    for (bool& d : decays) d = first_decays;
    for (int k = 0; k < count; ++k) {
#pragma unroll
      for (int i = 0; i < Width; ++i) decays[i] ^= first + i >= turns[k];
    }
  }
};

inline adamw_decay_in_turns decay_in_turns(const char* function, const adamw_segment* segments,
                                           std::int64_t segment_count) {
  adamw_decay_in_turns result;
  bool decays = false;
  std::int64_t begin = 0;
  for (std::int64_t s = 0; s < segment_count; ++s) {
    if (segments[s].count == 0) continue;
    if (begin == 0) {
      result.first_decays = segments[s].decays;
    } else if (segments[s].decays != decays) {
      if (result.count == adamw_decay_in_turns::most_turns) {
        checks::reject(function,
                       "segments must change between those that decay and those that do "
                       "not at most " +
                           std::to_string(adamw_decay_in_turns::most_turns) + " times");
      }
      result.turns[result.count++] = begin;
    }
    decays = segments[s].decays;
    begin += segments[s].count;
  }
  return result;
}

template <adamw_update_variant Variant, int BlockSize, class Decay>
void launch_adamw_update(const char* function, float* params, float* m, float* v,
                         const float* grads, std::int64_t count, adamw_parameters parameters,
                         const Decay& decay, const float* learning_rate, const std::int64_t* step,
                         const clip_state* clip, cudaStream_t stream) {
  checks::require_count(function, count);
  checks::require_parameters(function, parameters);
  if (count == 0) return;
  checks::require_pointer(function, "params", params);
  checks::require_pointer(function, "m", m);
  checks::require_pointer(function, "v", v);
  checks::require_pointer(function, "grads", grads);
  checks::require_pointer(function, "learning_rate", learning_rate);
  checks::require_pointer(function, "step", step);

  const bool wide = Variant != adamw_update_variant::element_per_thread &&
                    is_16_byte_aligned(params, m, v, grads);
  launch_elementwise<BlockSize, adamw_update_packs<Variant>>(
      function, count, wide,
      adamw_operation<Decay>{{},
                             params,
                             m,
                             v,
                             grads,
                             parameters,
                             decay,
                             std::log(static_cast<double>(parameters.beta1)),
                             std::log(static_cast<double>(parameters.beta2)),
                             learning_rate,
                             step,
                             clip},
      stream);
}

}  // namespace detail

/// One step of AdamW; see the top of this file for the formulas. Values that change from step to
/// step are read from device memory, so that a captured step can be replayed.
///
/// @param[in,out] params        (count), updated
/// @param[in,out] m             (count), updated; 0 before the first step
/// @param[in,out] v             (count), updated; 0 before the first step
/// @param[in]     grads         (count)
/// @param         parameters    the decay rates in [0, 1), epsilon and weight_decay at least 0
/// @param[in]     learning_rate one number in device memory
/// @param[in]     step          one number in device memory, t, which counts from 1
/// @param[in]     clip          in device memory, from global_norm: `scale` multiplies the
///                              gradients, and if `finite` is 0 nothing is written. Null means
///                              scale 1, always written
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
  detail::launch_adamw_update<Variant, BlockSize>("llmc::adamw_update", params, m, v, grads, count,
                                                  parameters, detail::adamw_decay_everywhere{},
                                                  learning_rate, step, clip, stream);
}

/// adamw_update of a whole arena in one launch, where weight decay applies to some of its segments
/// only. Gives the same bits as one call for each segment, with weight_decay 0 for those that do
/// not decay.
///
/// @param[in] segments (segment_count), in host memory, read before this returns; the first begins
///                     at element 0, and together they make up the arrays
///
/// The other parameters are those of adamw_update. Neighbouring segments that decay alike count as
/// one, and at most 33 may remain. Throws what adamw_update throws, and invalid_argument for a
/// negative number of segments, null segments, a segment of negative length or too many of them.
template <adamw_update_segments_variant Variant = adamw_update_segments_variant::automatic,
          int BlockSize = adamw_update_segments_block_size<Variant>>
void adamw_update_segments(float* params, float* m, float* v, const float* grads,
                           const adamw_segment* segments, std::int64_t segment_count,
                           adamw_parameters parameters, const float* learning_rate,
                           const std::int64_t* step, const clip_state* clip, cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "adamw_update_segments: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::adamw_update_segments";
  const std::int64_t count = checks::require_segments(function, segments, segment_count);
  detail::launch_adamw_update<Variant, BlockSize>(
      function, params, m, v, grads, count, parameters,
      detail::decay_in_turns(function, segments, segment_count), learning_rate, step, clip, stream);
}

LLMC_NAMESPACE_END
