/// @file
/// The gradient of the token table: the rows of dout summed by token, in a fixed order and without
/// atomics, for any distribution of the tokens.
///
/// The positions are sorted by token (stable, so in their own order within a token), and the sorted
/// list is cut into pieces of equal length. A warp sums a piece. A token that lies inside one piece
/// is finished there. One that crosses a border leaves a partial sum in each of its pieces, and a
/// second kernel adds those in order.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cub/device/device_radix_sort.cuh>

#include <cstddef>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/last_error.hpp>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/dependent_launch.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/reduce.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Positions and their tokens in sorted order. A token out of range is sorted to the end.
struct sorted_tokens {
  const std::uint32_t* tokens;
  const std::int64_t* positions;
  std::int64_t count;
  std::int64_t piece_length;
  std::uint32_t end_token;  ///< what stands for a token out of range; above all others
  static constexpr std::uint32_t no_token = 0xffffffff;  ///< beyond an end

  __host__ __device__ std::int64_t pieces() const {
    return (count + piece_length - 1) / piece_length;
  }
  __device__ std::int64_t piece_begin(std::int64_t piece) const { return piece * piece_length; }
  __device__ std::int64_t piece_end(std::int64_t piece) const {
    return piece + 1 < pieces() ? (piece + 1) * piece_length : count;
  }
  /// The token before (after) a piece; no_token where there is none.
  __device__ std::uint32_t token_before(std::int64_t piece) const {
    return piece > 0 ? tokens[piece_begin(piece) - 1] : no_token;
  }
  __device__ std::uint32_t token_after(std::int64_t piece) const {
    return piece_end(piece) < count ? tokens[piece_end(piece)] : no_token;
  }
};

/// A function of the shape alone, so that the bits do not depend on the card: pieces short enough
/// to fill a large GPU, few enough that the sum over a token's partials stays short.
inline std::int64_t token_piece_length(std::int64_t count) {
  constexpr std::int64_t shortest = 16;
  constexpr std::int64_t most_pieces = 2048;
  const std::int64_t wanted = ceil_div(count, most_pieces);
  return wanted < shortest ? shortest : wanted;
}

/// Tokens are int32, so nothing above 2^31 is needed however large the table is.
inline std::uint32_t end_token(encoder_shape shape) {
  constexpr std::int64_t past_int32 = std::int64_t{1} << 31;
  return static_cast<std::uint32_t>(shape.vocabulary < past_int32 ? shape.vocabulary : past_int32);
}

/// Up to this many positions are sorted by counting (see token_counting), more by CUB.
inline constexpr std::int64_t most_counted_tokens = 8192;

/// Whether the stream's name means another stream in each host thread.
inline bool is_default_of_each_thread(cudaStream_t stream) {
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
  if (stream == nullptr) return true;
#endif
  return stream == cudaStreamPerThread;
}

/// Sorts the pairs. With `sort` null it only sets `sort_bytes` to what sorting needs.
inline void sort_tokens(const char* function, void* sort, std::size_t& sort_bytes,
                        cub::DoubleBuffer<std::uint32_t>& tokens,
                        cub::DoubleBuffer<std::int64_t>& positions, encoder_shape shape,
                        cudaStream_t stream) {
  int bits = 1;
  while (end_token(shape) >> bits != 0) ++bits;
  const auto call_cub = [&] {
    check_cuda(function, "sorting the tokens",
               cub::DeviceRadixSort::SortPairs(sort, sort_bytes, tokens, positions,
                                               shape.batch * shape.sequence, 0, bits, stream));
  };
  if (sort != nullptr && is_default_of_each_thread(stream)) {
    // No second thread can queue work here, and CUB would take an earlier error for its own.
    cudaGetLastError();
    call_cub();
  } else {
    keeping_last_error(call_cub);
  }
}

/// Where things lie in the scratch, each a multiple of 256 bytes from its beginning.
struct token_gradient_workspace {
  float* partials;  ///< (pieces, 2, C): a piece's sums for the token that began in a piece before
                    ///< it, and for the token that goes on in the piece after it
  std::int64_t* positions[2];  ///< the second only for CUB
  std::uint32_t* tokens[2];    ///< the second only for CUB
  void* sort;
  std::size_t sort_bytes;
  std::size_t bytes;  ///< of all
};

/// Cuts up scratch that begins at `base`. Where CUB sorts, it is asked how much it needs.
inline token_gradient_workspace cut_token_gradient_workspace(const char* function, void* base,
                                                             encoder_shape shape) {
  token_gradient_workspace space{};
  const std::int64_t count = shape.batch * shape.sequence;
  if (count == 0) return space;
  const auto take = [&](std::size_t bytes) {
    constexpr std::size_t alignment = 256;
    const std::size_t begin = (space.bytes + alignment - 1) / alignment * alignment;
    space.bytes = begin + bytes;
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(base) + begin);
  };
  const bool counted = count <= most_counted_tokens;
  const int copies = counted ? 1 : 2;
  space.partials = static_cast<float*>(take(checks::bytes<float>(
      function, ceil_div(count, token_piece_length(count)), 2, shape.channels)));
  for (int i = 0; i < copies; ++i) {
    space.positions[i] =
        static_cast<std::int64_t*>(take(checks::bytes<std::int64_t>(function, count)));
  }
  for (int i = 0; i < copies; ++i) {
    space.tokens[i] =
        static_cast<std::uint32_t*>(take(checks::bytes<std::uint32_t>(function, count)));
  }
  if (counted) return space;
  cub::DoubleBuffer<std::uint32_t> tokens;
  cub::DoubleBuffer<std::int64_t> positions;
  sort_tokens(function, nullptr, space.sort_bytes, tokens, positions, shape, nullptr);
  space.sort = take(space.sort_bytes);
  return space;
}

/// The key by which a token is sorted; a negative token is out of range, too.
__device__ __forceinline__ std::uint32_t token_key(std::int32_t token, std::uint32_t end_token) {
  const auto key = static_cast<std::uint32_t>(token);
  return key < end_token ? key : end_token;
}

/// The pairs to be sorted.
template <int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    token_pairs_kernel(std::uint32_t* keys, std::int64_t* positions, const std::int32_t* tokens,
                       std::int64_t count, std::uint32_t end_token) {
  for (std::int64_t i = device::thread_in_grid(); i < count; i += device::threads_in_grid()) {
    keys[i] = token_key(tokens[i], end_token);
    positions[i] = i;
  }
}

/// Sorts by counting: a pair's place is the number of pairs that come before it. Every pair is
/// compared with every other, but by the whole GPU at once and beside other work; a radix sort
/// takes seven launches and leaves most of the GPU idle.
struct token_counting {
  static constexpr int group = 4;  ///< positions that share a warp's loads

  std::uint32_t* keys;
  std::int64_t* positions;
  const std::int32_t* tokens;
  int count;
  std::uint32_t end_token;

  __device__ std::uint32_t key_of(int position) const {
    return token_key(tokens[position], end_token);
  }

  /// Puts `group` positions, from `first` on, into their places. By a warp.
  __device__ void place_group(int first) const {
    const int lane = static_cast<int>(threadIdx.x) % device::warp_size;
    std::uint32_t own[group];
    int before[group] = {};
#pragma unroll
    for (int j = 0; j < group; ++j) own[j] = first + j < count ? key_of(first + j) : 0;

#pragma unroll 4
    for (int other = lane; other < first; other += device::warp_size) {
      const std::uint32_t key = key_of(other);
#pragma unroll
      for (int j = 0; j < group; ++j) before[j] += key <= own[j];
    }
#pragma unroll 4
    for (int other = first + group + lane; other < count; other += device::warp_size) {
      const std::uint32_t key = key_of(other);
#pragma unroll
      for (int j = 0; j < group; ++j) before[j] += key < own[j];
    }
    if (lane < group && first + lane < count) {  // the group itself
      const std::uint32_t key = key_of(first + lane);
#pragma unroll
      for (int j = 0; j < group; ++j) before[j] += lane < j ? key <= own[j] : key < own[j];
    }

#pragma unroll
    for (int j = 0; j < group; ++j) {
      const int place = device::warp_sum(before[j]);
      if (lane == 0 && first + j < count) {
        keys[place] = own[j];
        positions[place] = first + j;
      }
    }
  }

  /// The blocks in which each warp has a group.
  std::int64_t blocks(int block_size) const {
    return ceil_div(count, std::int64_t{block_size} / device::warp_size * group);
  }
};

/// Sums a piece for `Width` columns. The sum of a token that lies inside the piece is written or
/// added to dwte; that of a token that crosses a border of the piece goes to `partials`.
template <int Width>
__device__ void sum_token_piece(float* dwte, float* partials, const float* dout,
                                const sorted_tokens& sorted, std::int64_t piece,
                                std::int64_t column, std::int64_t channels, bool add) {
  constexpr int batch = 4;  // rows on their way at the same time
  const std::int64_t end = sorted.piece_end(piece);
  const std::uint32_t before = sorted.token_before(piece);
  const std::uint32_t after = sorted.token_after(piece);
  float* from_before = partials + piece * 2 * channels + column;

  device::pack<Width> sum = {};
  for (std::int64_t first = sorted.piece_begin(piece); first < end; first += batch) {
    std::uint32_t tokens[batch + 1];
    std::int64_t positions[batch];
#pragma unroll
    for (int j = 0; j <= batch; ++j) {
      tokens[j] = first + j < end ? sorted.tokens[first + j] : sorted_tokens::no_token;
      if (j < batch) positions[j] = first + j < end ? sorted.positions[first + j] : 0;
    }
    device::pack<Width> rows[batch] = {};
    device::pack<Width> old[batch] = {};  // of the sums that end with a row
    float* to[batch] = {};                // where these go; null for tokens out of range
#pragma unroll
    for (int j = 0; j < batch; ++j) {
      const std::uint32_t token = tokens[j];
      if (token == sorted_tokens::no_token) continue;
      rows[j] = device::load<Width>(dout + positions[j] * channels + column);
      if (token == tokens[j + 1]) continue;
      if (token == before) {
        to[j] = from_before;
      } else if (token == after) {
        to[j] = from_before + channels;
      } else if (token < sorted.end_token) {
        to[j] = dwte + token * channels + column;
        if (add) old[j] = device::load<Width>(to[j]);
      }
    }
#pragma unroll
    for (int j = 0; j < batch; ++j) {
#pragma unroll
      for (int i = 0; i < Width; ++i) sum[i] += rows[j][i];
      if (tokens[j] == tokens[j + 1]) continue;
#pragma unroll
      for (int i = 0; i < Width; ++i) sum[i] += old[j][i];
      if (to[j] != nullptr) device::store(to[j], sum);
      sum = {};
    }
  }
}

/// If a token begins in this piece and goes on in the next, adds up its partial sums for `Width`
/// columns and writes or adds them to dwte.
template <int Width>
__device__ void sum_token_partials(float* dwte, const float* partials, const sorted_tokens& sorted,
                                   std::int64_t piece, std::int64_t column, std::int64_t channels,
                                   bool add) {
  const std::uint32_t token = sorted.token_after(piece);
  if (token >= sorted.end_token || token == sorted.token_before(piece) ||
      token != sorted.tokens[sorted.piece_end(piece) - 1]) {
    return;
  }
  std::int64_t last = piece + 1;  // the last piece that begins with the token: by bisection
  for (std::int64_t past = sorted.pieces(); past - last > 1;) {
    const std::int64_t middle = last + (past - last) / 2;
    if (sorted.tokens[sorted.piece_begin(middle)] == token) {
      last = middle;
    } else {
      past = middle;
    }
  }

  const auto from_before = [&](std::int64_t p) {
    return device::load<Width>(partials + p * 2 * channels + column);
  };
  const auto begun = device::load<Width>(partials + (piece * 2 + 1) * channels + column);
  double total[Width];  // thousands of partials may meet here
#pragma unroll
  for (int i = 0; i < Width; ++i) total[i] = begun[i];
#pragma unroll 8
  for (std::int64_t p = piece + 1; p <= last; ++p) {
    const auto partial = from_before(p);
#pragma unroll
    for (int i = 0; i < Width; ++i) total[i] += partial[i];
  }
  device::pack<Width> sum;
#pragma unroll
  for (int i = 0; i < Width; ++i) sum[i] = static_cast<float>(total[i]);
  device::store_or_add<Width>(dwte + token * channels + column, sum, add);
}

/// Calls `body(piece, column)` for each piece and each pack of columns; a warp's lanes share the
/// piece.
template <int Width, class Body>
__device__ __forceinline__ void for_each_piece_and_column(std::int64_t pieces,
                                                          std::int64_t channels, Body body) {
  constexpr std::int64_t tile_columns = device::warp_size * Width;
  const std::int64_t tiles = (channels + tile_columns - 1) / tile_columns;
  for (std::int64_t work = device::thread_in_grid() / device::warp_size; work < pieces * tiles;
       work += device::threads_in_grid() / device::warp_size) {
    const std::int64_t column =
        work % tiles * tile_columns + threadIdx.x % device::warp_size * Width;
    if (column < channels) body(work / tiles, column);
  }
}

template <int Width, int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    token_pieces_kernel(float* dwte, float* partials, const float* dout, sorted_tokens sorted,
                        std::int64_t channels, bool add) {
  device::allow_next_kernel();
  device::wait_for_previous_kernel();
  for_each_piece_and_column<Width>(
      sorted.pieces(), channels, [&](std::int64_t piece, std::int64_t column) {
        sum_token_piece<Width>(dwte, partials, dout, sorted, piece, column, channels, add);
      });
}

template <int Width, int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    token_partials_kernel(float* dwte, const float* partials, sorted_tokens sorted,
                          std::int64_t channels, bool add) {
  device::wait_for_previous_kernel();
  for_each_piece_and_column<Width>(
      sorted.pieces(), channels, [&](std::int64_t piece, std::int64_t column) {
        sum_token_partials<Width>(dwte, partials, sorted, piece, column, channels, add);
      });
}

/// Sorts by CUB, for more than most_counted_tokens.
template <int BlockSize>
sorted_tokens radix_sort_by_token(const char* function, const token_gradient_workspace& space,
                                  const std::int32_t* tokens, encoder_shape shape,
                                  cudaStream_t stream) {
  const std::int64_t count = shape.batch * shape.sequence;
  launch({function, ceil_div(count, BlockSize), BlockSize, 0, stream},
         token_pairs_kernel<BlockSize>, space.tokens[0], space.positions[0], tokens, count,
         end_token(shape));
  cub::DoubleBuffer<std::uint32_t> keys(space.tokens[0], space.tokens[1]);
  cub::DoubleBuffer<std::int64_t> positions(space.positions[0], space.positions[1]);
  std::size_t sort_bytes = space.sort_bytes;
  sort_tokens(function, space.sort, sort_bytes, keys, positions, shape, stream);
  return {keys.Current(), positions.Current(), count, token_piece_length(count), end_token(shape)};
}

/// The gradient from sorted tokens. Needs a dwte of zeros where it is not added to.
template <int BlockSize>
void token_gradient(const char* function, float* dwte, float* partials, const sorted_tokens& sorted,
                    const float* dout, encoder_shape shape, accumulation mode,
                    cudaStream_t stream) {
  const bool add = mode == accumulation::add;
  with_access_width(is_16_byte_accessible(shape.channels, dwte, dout), [&](auto width) {
    const std::int64_t warps =
        sorted.pieces() * ceil_div(shape.channels, device::warp_size * width());
    const std::int64_t blocks = ceil_div(warps, BlockSize / device::warp_size);
    launch({function, blocks, BlockSize, 0, stream, true}, token_pieces_kernel<width(), BlockSize>,
           dwte, partials, dout, sorted, shape.channels, add);
    launch({function, blocks, BlockSize, 0, stream, true},
           token_partials_kernel<width(), BlockSize>, dwte, partials, sorted, shape.channels, add);
  });
}

}  // namespace detail
LLMC_NAMESPACE_END
