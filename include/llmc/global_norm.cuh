/// @file
/// The Euclidean norm of all gradients, and by how much to scale them so that it is at most
/// max_norm (Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural
/// networks", 2013):
///
///     norm  = sqrt(sum_i grads[i]^2)
///     scale = min(1, max_norm / norm)
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/dependent_launch.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/reduce.cuh>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN

enum class global_norm_variant {
  /// The best for this device and shape.
  automatic,
  /// The naive form: every thread adds its sum of squares to one number in memory, by an atomic
  /// addition in double. All additions meet at one address and take turns there. Not deterministic:
  /// threads add in the order in which they arrive. After the sum is rounded to float this shows
  /// almost never, but it may. `automatic` never chooses it.
  atomics,
  /// Up to 528 blocks sum squares in double, then one block adds their sums. There are no atomics,
  /// so the bits repeat. Memory bound; a few thousand gradients do not fill the GPU, but they take
  /// no time either.
  two_stage
};

inline constexpr std::array global_norm_variants{
    global_norm_variant::automatic, global_norm_variant::atomics, global_norm_variant::two_stage};

constexpr const char* to_string(global_norm_variant variant) {
  switch (variant) {
    case global_norm_variant::automatic: return "automatic";
    case global_norm_variant::atomics: return "atomics";
    case global_norm_variant::two_stage: return "two_stage";
  }
  return "unknown";
}

/// Threads a block.
template <global_norm_variant Variant>
inline constexpr int global_norm_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace device {

/// One worker's share of the sum of squares, in double. There the square of any finite float is
/// finite, and that of an infinity or a NaN is not. So a finite sum says that all values were
/// finite.
template <int Width>
__device__ double sum_of_squares(const float* values, std::int64_t count, std::int64_t worker,
                                 std::int64_t workers) {
  double sum = 0.0;
  for_each_batch<Width, 4>(count, worker, workers,
                           [&](auto width, auto batch, std::int64_t first, std::int64_t step) {
                             pack<width()> x[batch()];
                             load_batch(x, values + first, step);
                             for (int j = 0; j < batch(); ++j) {
                               for (int i = 0; i < width(); ++i) {
                                 sum += static_cast<double>(x[j][i]) * static_cast<double>(x[j][i]);
                               }
                             }
                           });
  return sum;
}

/// What follows from a sum of squares; see global_norm.
__device__ inline clip_state clip_state_of(double squares, float max_norm) {
  const double norm = sqrt(squares);
  const double scale = max_norm > 0.0f ? fmin(1.0, max_norm / norm) : 1.0;
  const bool finite = isfinite(static_cast<float>(norm));
  return {static_cast<float>(norm), finite ? static_cast<float>(scale) : 0.0f, finite ? 1 : 0};
}

}  // namespace device

namespace detail {

/// The blocks of stage one, and so the number of partial sums: one for every 4096 gradients, but at
/// most four on each of 132 multiprocessors, which are resident at once. The number depends on the
/// count alone, so that the bits do not depend on the card.
constexpr std::int64_t global_norm_blocks(std::int64_t count) {
  constexpr std::int64_t fewest_gradients = 4096;
  constexpr std::int64_t most_blocks = 4 * 132;
  const std::int64_t wanted = ceil_div(count, fewest_gradients);
  return wanted < most_blocks ? wanted : most_blocks;
}

/// `sum` must be 0 before. One instance serves every block size.
template <int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    global_norm_atomics_kernel(double* sum, const float* grads, std::int64_t count) {
  atomicAdd(sum, device::sum_of_squares<1>(grads, count, device::thread_in_grid(),
                                           device::threads_in_grid()));
}

template <int Width, int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    global_norm_partials_kernel(double* partials, const float* grads, std::int64_t count) {
  device::allow_next_kernel();
  __shared__ typename device::block_reducer<double, BlockSize>::storage storage;
  const double share = device::sum_of_squares<Width>(grads, count, device::thread_in_grid(),
                                                     device::threads_in_grid());
  const double total = device::block_reducer<double, BlockSize>(storage).sum(share);
  if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

template <int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    global_norm_total_kernel(clip_state* result, const double* partials, std::int64_t blocks,
                             float max_norm) {
  __shared__ typename device::block_reducer<double, BlockSize>::storage storage;
  device::wait_for_previous_kernel();
  double share = 0.0;
  for (std::int64_t b = threadIdx.x; b < blocks; b += BlockSize) share += partials[b];
  const double total = device::block_reducer<double, BlockSize>(storage).sum(share);
  if (threadIdx.x == 0) *result = device::clip_state_of(total, max_norm);
}

/// Sums the squares and returns the number of partial sums.
template <global_norm_variant Variant, int BlockSize>
std::int64_t launch_global_norm_partials(const char* function, double* partials, const float* grads,
                                         std::int64_t count, cudaStream_t stream) {
  const std::int64_t blocks = global_norm_blocks(count);
  const launch_config config{function, blocks, BlockSize, 0, stream};
  if constexpr (Variant == global_norm_variant::atomics) {
    if (count == 0) return 0;
    check_cuda(function, "clearing the sum", cudaMemsetAsync(partials, 0, sizeof(double), stream));
    launch(config, global_norm_atomics_kernel<1024>, partials, grads, count);
    return 1;
  } else {
    with_access_width(is_16_byte_aligned(grads), [&](auto width) {
      launch(config, global_norm_partials_kernel<width(), BlockSize>, partials, grads, count);
    });
    return blocks;
  }
}

}  // namespace detail

/// Bytes of scratch that global_norm needs for that many gradients.
inline std::size_t global_norm_workspace_bytes(std::int64_t count) {
  constexpr const char* function = "llmc::global_norm_workspace_bytes";
  checks::require_count(function, count);
  return checks::bytes<double>(function, detail::global_norm_blocks(count));
}

/// The norm of `grads`, whether it is finite, and the scale that clips it to `max_norm`, all in
/// device memory for adamw_update. The sum is taken in double.
///
/// `finite` is 0 if a gradient is infinite or NaN, or if the norm itself passes the largest float;
/// then `scale` is 0, too. Without gradients the norm is 0, the scale 1 and `finite` 1.
///
/// @param[out] result   in device memory, overwritten
/// @param[out] scratch  global_norm_workspace_bytes(count) bytes, aligned to 16; its contents are
///                      lost
/// @param[in]  grads    (count)
/// @param      max_norm 0 or less: no clipping, scale 1
///
/// Any alignment of `grads`. Deterministic, except for `atomics`: the bits depend on the gradients,
/// their number, whether the array is aligned to 16 bytes, and BlockSize. Throws invalid_argument
/// for count < 0, a null array, a max_norm that is NaN or a scratch that is too small or
/// misaligned; cuda_error if a launch fails.
template <global_norm_variant Variant = global_norm_variant::automatic,
          int BlockSize = global_norm_block_size<Variant>>
void global_norm(clip_state* result, workspace scratch, const float* grads, std::int64_t count,
                 float max_norm, cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "global_norm: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::global_norm";
  checks::require_count(function, count);
  checks::require_not_nan(function, "max_norm", max_norm);
  checks::require_pointer(function, "result", result);
  if (count > 0) checks::require_pointer(function, "grads", grads);
  checks::require_workspace(function, scratch, global_norm_workspace_bytes(count));

  double* partials = static_cast<double*>(scratch.data);
  const std::int64_t sums = detail::launch_global_norm_partials<Variant, BlockSize>(
      function, partials, grads, count, stream);
  detail::launch({function, 1, BlockSize, 0, stream, true},
                 detail::global_norm_total_kernel<BlockSize>, result, partials, sums, max_norm);
}

LLMC_NAMESPACE_END
