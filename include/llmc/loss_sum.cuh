/// @file
/// The sum of a batch's losses, in double and in device memory, so that the host need not wait:
///
///     sum (+)= sum_r losses[r]
///
/// And skip_update_unless_sound, which cancels the update of a step if its loss is not finite or
/// one of its tokens was out of range.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/row/reduce.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// One block. A batch has as many losses as positions, a few tens of thousands. One multiprocessor
/// reads them in some microseconds; a second stage would cost more than it saves.
template <int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    loss_sum_kernel(double* sum, const float* losses, std::int64_t count, accumulation mode) {
  __shared__ typename device::block_reducer<double, BlockSize>::storage storage;
  double share = 0.0;
  for (std::int64_t r = threadIdx.x; r < count; r += BlockSize) {
    share += static_cast<double>(losses[r]);
  }
  const double total = device::block_reducer<double, BlockSize>(storage).sum(share);
  if (threadIdx.x == 0) *sum = mode == accumulation::add ? *sum + total : total;
}

template <int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    skip_update_unless_sound_kernel(clip_state* clip, const double* loss,
                                    const std::uint64_t* out_of_range) {
  const bool sound =
      (loss == nullptr || isfinite(*loss)) && (out_of_range == nullptr || *out_of_range == 0);
  if (threadIdx.x == 0 && !sound) {
    clip->scale = 0.0f;
    clip->finite = 0;
  }
}

}  // namespace detail

/// Sums the losses; see the top of this file for the formula.
///
/// @param[in,out] sum    in device memory, overwritten or added to as `mode` says
/// @param[in]     losses (count)
///
/// Without losses the sum is 0. Deterministic: the bits depend on the losses, their number and
/// BlockSize. Throws invalid_argument for count < 0 or a null array; cuda_error if the launch
/// fails.
template <int BlockSize = 1024>
void loss_sum(double* sum, const float* losses, std::int64_t count, accumulation mode,
              cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "loss_sum: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::loss_sum";
  checks::require_count(function, count);
  checks::require_pointer(function, "sum", sum);
  if (count > 0) checks::require_pointer(function, "losses", losses);
  detail::launch({function, 1, BlockSize, 0, stream}, detail::loss_sum_kernel<BlockSize>, sum,
                 losses, count, mode);
}

/// Makes adamw_update write nothing if the loss is not finite or a token was out of range. (A loss
/// can be infinite while all gradients are finite.) Else `clip` stays as global_norm left it.
///
/// @param[in,out] clip         in device memory; `finite` and `scale` become 0 if something is
///                             wrong; `norm` stays
/// @param[in]     loss         in device memory; may be null
/// @param[in]     out_of_range in device memory, the counter of encoder_forward; may be null
///
/// Deterministic. Throws invalid_argument if `clip` is null; cuda_error if the launch fails.
inline void skip_update_unless_sound(clip_state* clip, const double* loss,
                                     const std::uint64_t* out_of_range, cudaStream_t stream) {
  constexpr const char* function = "llmc::skip_update_unless_sound";
  checks::require_pointer(function, "clip", clip);
  detail::launch({function, 1, device::warp_size, 0, stream},
                 detail::skip_update_unless_sound_kernel<device::warp_size>, clip, loss,
                 out_of_range);
}

LLMC_NAMESPACE_END
