/// @file
/// Host side of fused attention: which kernel takes a call, and its launch.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include <llmc/detail/attention/flash/backward_fma.cuh>
#include <llmc/detail/attention/flash/backward_mma.cuh>
#include <llmc/detail/attention/flash/forward_fma.cuh>
#include <llmc/detail/attention/flash/forward_mma.cuh>
#include <llmc/detail/attention/flash/problem.cuh>
#include <llmc/detail/checks.hpp>
#include <llmc/detail/last_error.hpp>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/error.hpp>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

inline constexpr int flash_block_size = 128;
inline constexpr std::int64_t flash_largest_head_size = 128;
/// Positions and the floats from one to the next are counted in 32 bits inside a head.
inline constexpr std::int64_t flash_largest_extent = std::int64_t{1} << 30;

inline bool flash_takes(attention_shape shape) {
  return shape.head_size <= flash_largest_head_size && shape.sequence <= flash_largest_extent &&
         shape.heads <= flash_largest_extent / (3 * shape.head_size);
}

/// The variant that runs: `automatic` is flash wherever that takes the shape.
template <class Variant>
Variant chosen_attention(Variant variant, attention_shape shape, Variant otherwise) {
  if (variant != Variant::automatic) return variant;
  return flash_takes(shape) ? Variant::flash : otherwise;
}

inline void require_flash(const char* function, attention_shape shape) {
  if (flash_takes(shape)) return;
  throw unsupported(std::string(function) +
                    ": the variant flash takes head sizes up to 128, and up to 2^30 positions and "
                    "floats of qkv a position, got head size " +
                    std::to_string(shape.head_size) + ", sequence " +
                    std::to_string(shape.sequence) + ", heads " + std::to_string(shape.heads));
}

/// The rows of the smallest block of any kernel for backward.
inline constexpr std::int64_t flash_fewest_backward_rows = 64;

/// Enough for attention_backward_arrays::dqkv_sums in any precision.
inline std::size_t flash_sums_bytes(const char* function, attention_shape shape) {
  return checks::bytes<float>(function, shape.batch,
                              ceil_div(shape.sequence, flash_fewest_backward_rows), 3, shape.heads,
                              shape.head_size);
}

// ---- tiles: for heads of 64 the best of those tried on an H100, for others not yet tuned ----

/// Shared memory bounds the blocks on an SM, so larger heads get shorter tiles. Registers bound the
/// rows of a warp, and backward holds two sums a row.
template <precision Arithmetic, int Features>
struct flash_mma_tiles {
  static constexpr bool is_split = device::precision_traits<Arithmetic>::is_split;
  static constexpr bool small_head = Features <= 64;

  static constexpr int forward_inner =
      small_head ? (is_split ? 32 : 64) : (!is_split && Features < 128 ? 32 : 16);
  /// Exact heads of 64 leave room for three blocks on an SM if a warp has 16 rows: as fast as two
  /// with 32 rows where blocks are many, and faster where they are few.
  static constexpr bool three_blocks = is_split && Features == 64;
  using forward = flash_tiles<Arithmetic, Features, three_blocks ? 1 : 2, forward_inner, 1,
                              three_blocks ? 3 : 2>;

  static constexpr int backward_m_tiles = !is_split && small_head ? 2 : 1;
  static constexpr int backward_inner = Features < 128 ? 32 : 16;
  using backward = flash_tiles<Arithmetic, Features, backward_m_tiles, backward_inner, 2, 2>;
  static_assert(backward::rows >= flash_fewest_backward_rows);
};

template <int Features>
struct flash_fma_tiles {
  static constexpr bool small_head = Features <= 64;
  using best = fma_tiles<Features, 64, small_head ? 64 : 32>;
  /// For architectures that have only 64 KiB of shared memory a block (sm_75).
  using of_64_kib = std::conditional_t<small_head, fma_tiles<64, 64, 32>, fma_tiles<128, 32, 16>>;
};

// ---- what the device can do ----

/// Whether the code of this kernel that the current device runs was compiled for `least`
/// (`Traits::least_architecture`) or later: otherwise its body is empty. A device may be newer than
/// its code, which the driver then made from PTX, so the kernel must be asked and not the device.
/// The answer never changes and is kept for each device.
template <auto Kernel>
bool has_tensor_core_code(const char* function, int least) {
  enum : signed char { unknown, no, yes };
  constexpr int devices = 64;
  static std::atomic<signed char> answers[devices]{};
  const int device = current_device(function);
  if (device < devices && answers[device] != unknown) return answers[device] == yes;

  cudaFuncAttributes attributes{};
  keeping_last_error([&] {
    check_cuda(function, "cudaFuncGetAttributes", cudaFuncGetAttributes(&attributes, Kernel));
  });
  const bool found = attributes.ptxVersion >= least;
  if (device < devices) answers[device] = found ? yes : no;
  return found;
}

// ---- launching ----

template <int Value>
using features_constant = std::integral_constant<int, Value>;

/// Calls `body` with the smallest number of features that holds a head.
template <int... Sizes, class Body>
void with_features(std::int64_t head_size, Body body) {
  bool done = false;
  const auto attempt = [&](auto features) {
    if (done || head_size > features.value) return;
    done = true;
    body(features);
  };
  (attempt(features_constant<Sizes>{}), ...);
}

/// A template, so that a program which does not call it compiles none of its many kernels.
template <class = void>
class flash_attention {
 public:
  flash_attention(const char* function, attention_shape shape, precision arithmetic,
                  cudaStream_t stream)
      : function_(function), shape_(shape), arithmetic_(arithmetic), stream_(stream) {}

  void forward(const attention_forward_arrays& arrays) const {
    const bool done =
        with_tensor_cores([&](auto tiles) { return forward_mma<decltype(tiles)>(arrays); });
    if (done) return;
    with_fma_tiles<1>([&](auto tiles) { forward_fma<decltype(tiles)>(arrays); });
  }

  /// Returns how many sums of each column of dqkv there are in arrays.dqkv_sums: 0 if no tensor
  /// cores were used, since only their kernels make such sums.
  std::int64_t backward(const attention_backward_arrays& arrays) const {
    std::int64_t sums = 0;
    const bool done = with_tensor_cores([&](auto tiles) {
      sums = shape_.batch * ceil_div(shape_.sequence, decltype(tiles)::backward::rows);
      return backward_mma<decltype(tiles)>(arrays);
    });
    if (done) return sums;
    with_fma_tiles<2>([&](auto tiles) { backward_fma<decltype(tiles)>(arrays); });
    return 0;
  }

  /// In FP32 multiply-adds, with tiles that hold a head.
  template <class Tiles>
  void forward_fma(const attention_forward_arrays& arrays) const {
    launch_heads<Tiles>(flash_forward_fma_kernel<Tiles>, Tiles::shared_bytes(1), arrays,
                        is_16_byte_accessible(shape_.head_size, arrays.out, arrays.qkv));
  }
  template <class Tiles>
  void backward_fma(const attention_backward_arrays& arrays) const {
    const bool wide = is_wide(arrays);
    launch_heads<Tiles>(flash_backward_queries_fma_kernel<Tiles>, Tiles::shared_bytes(2), arrays,
                        wide);
    launch_heads<Tiles>(flash_backward_keys_fma_kernel<Tiles>, Tiles::shared_bytes(2), arrays, wide,
                        keys_early);
  }

 private:
  /// The kernel of dk and dv may start before that of dq has ended; it waits for the delta which
  /// that one writes.
  static constexpr bool keys_early = true;

  /// Calls `body(flash_mma_tiles)` if the precision is one of tensor cores. Returns whether that
  /// did the work: it does not where the build has no code for them.
  template <class Body>
  bool with_tensor_cores(Body body) const {
    return with_precision(arithmetic_, [&](auto arithmetic) {
      bool done = false;
      if constexpr (device::precision_traits<arithmetic.value>::on_tensor_cores) {
        with_features<32, 64, 80, 96, 128>(shape_.head_size, [&](auto features) {
          done = body(flash_mma_tiles<decltype(arithmetic)::value, features.value>{});
        });
      }
      return done;
    });
  }

  /// Calls `body` with the tiles that hold a head and fit the device, for kernels that keep
  /// `Operands` tensors of their own rows.
  template <int Operands, class Body>
  void with_fma_tiles(Body body) const {
    with_features<32, 64, 96, 128>(shape_.head_size, [&](auto features) {
      using tiles = flash_fma_tiles<features.value>;
      const int limit = device_attribute(function_, cudaDevAttrMaxSharedMemoryPerBlockOptin);
      if (tiles::best::shared_bytes(Operands) <= static_cast<std::size_t>(limit)) {
        body(typename tiles::best{});
      } else {
        body(typename tiles::of_64_kib{});
      }
    });
  }

  template <class Tiles>
  bool forward_mma(const attention_forward_arrays& arrays) const {
    using tiles = typename Tiles::forward;
    if (!has_tensor_core_code<flash_forward_mma_kernel<tiles>>(function_,
                                                               tiles::traits::least_architecture)) {
      return false;
    }
    launch_heads<tiles>(flash_forward_mma_kernel<tiles>, tiles::shared_bytes, arrays,
                        is_16_byte_accessible(shape_.head_size, arrays.out, arrays.qkv));
    return true;
  }

  template <class Tiles>
  bool backward_mma(const attention_backward_arrays& arrays) const {
    using tiles = typename Tiles::backward;
    if (!has_tensor_core_code<flash_backward_queries_mma_kernel<tiles>>(
            function_, tiles::traits::least_architecture)) {
      return false;
    }
    const bool wide = is_wide(arrays);
    launch_heads<tiles>(flash_backward_queries_mma_kernel<tiles>, tiles::shared_bytes, arrays,
                        wide);
    launch_heads<tiles>(flash_backward_keys_mma_kernel<tiles>,
                        flash_backward_keys_shared_bytes<tiles>, arrays, wide, keys_early);
    return true;
  }

  bool is_wide(const attention_backward_arrays& arrays) const {
    return is_16_byte_accessible(shape_.head_size, arrays.dqkv, arrays.dout, arrays.qkv,
                                 arrays.out);
  }

  /// One block for each Tiles::rows positions of each head, in as few launches as a grid's extent
  /// allows.
  template <class Tiles, class Arrays>
  void launch_heads(void (*kernel)(flash_problem, Arrays), std::size_t shared_bytes,
                    const Arrays& arrays, bool wide, bool early = false) const {
    const std::int64_t heads = shape_.batch * shape_.heads;
    const std::int64_t row_blocks = ceil_div(shape_.sequence, Tiles::rows);
    const std::int64_t at_once = (std::numeric_limits<std::int32_t>::max)() / row_blocks;
    flash_problem p{};
    p.heads_together = heads_together(Tiles::features);
    p.positions = static_cast<int>(shape_.sequence);
    p.heads = static_cast<int>(shape_.heads);
    p.head_size = static_cast<int>(shape_.head_size);
    p.access = !wide                                ? row_access::narrow
               : shape_.head_size < Tiles::features ? row_access::wide
                                                    : row_access::whole;
    p.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape_.head_size)));
    for (p.first_head = 0; p.first_head < heads; p.first_head += p.head_count) {
      const std::int64_t left = heads - p.first_head;
      p.head_count = static_cast<int>(left < at_once ? left : at_once);
      launch({function_, p.head_count * row_blocks, Tiles::threads, shared_bytes, stream_, early},
             kernel, p, arrays);
    }
  }

  /// The heads whose streamed vectors, two for each position, fill half of an H100's L2. Fewer than
  /// 16 would leave gaps, more than 48 gain nothing.
  int heads_together(int features) const {
    constexpr std::int64_t budget = std::int64_t{24} << 20;
    const std::int64_t bytes =
        2 * static_cast<std::int64_t>(sizeof(float)) * shape_.sequence * features;
    const std::int64_t fitting = budget / bytes;
    return static_cast<int>(fitting < 16 ? 16 : fitting > 48 ? 48 : fitting);
  }

  const char* function_;
  attention_shape shape_;
  precision arithmetic_;
  cudaStream_t stream_;
};

}  // namespace detail
LLMC_NAMESPACE_END
