/// @file
/// Access to global memory in packs of 4 floats (16 bytes) or single floats, by one piece of code
/// for both.
///
/// A kernel is written once over `pack<Width>`; the launcher picks Width = 4 where pointers and
/// strides allow it and Width = 1 elsewhere. `for_each_pack` walks a range as whole packs and then,
/// with Width 1, what is left over.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

/// A width as a type, so that a generic lambda can take it: `load<width()>(from)`. The standard's
/// integral_constant cannot be called in device code without a compiler flag.
template <int Width>
struct width_constant {
  __host__ __device__ constexpr int operator()() const { return Width; }
};

/// `Width` consecutive floats that are loaded and stored by one instruction.
template <int Width>
struct alignas(Width * sizeof(float)) pack {
  static_assert(Width == 1 || Width == 2 || Width == 4, "a pack holds 1, 2 or 4 floats");
  float values[Width];

  __device__ float& operator[](int i) { return values[i]; }
  __device__ float operator[](int i) const { return values[i]; }
};

template <int Width>
__device__ __forceinline__ pack<Width> load(const float* from) {
  return *reinterpret_cast<const pack<Width>*>(from);
}

template <int Width>
__device__ __forceinline__ void store(float* to, pack<Width> value) {
  *reinterpret_cast<pack<Width>*>(to) = value;
}

/// Stores what nobody reads soon, so that it leaves the caches first.
template <int Width>
__device__ __forceinline__ void store_streaming(float* to, pack<Width> value) {
  if constexpr (Width == 4) {
    __stcs(reinterpret_cast<float4*>(to), make_float4(value[0], value[1], value[2], value[3]));
  } else {
#pragma unroll
    for (int i = 0; i < Width; ++i) __stcs(to + i, value[i]);
  }
}

/// Begins to bring an address into the second-level cache; what it holds will be loaded soon.
__device__ __forceinline__ void prefetch(const float* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

/// Adds a pack to what memory holds, or overwrites it.
template <int Width>
__device__ __forceinline__ void store_or_add(float* to, pack<Width> value, bool add) {
  if (add) {
    const pack<Width> old = load<Width>(to);
#pragma unroll
    for (int i = 0; i < Width; ++i) value[i] += old[i];
  }
  store<Width>(to, value);
}

/// Walks [0, count): this worker takes packs number `worker`, `worker + workers`, ... and calls
/// `body(width_constant<W>, first_element)` with W = Width for whole packs and W = 1
/// for the tail.
template <int Width, class Body>
__device__ __forceinline__ void for_each_pack(std::int64_t count, std::int64_t worker,
                                              std::int64_t workers, Body body) {
  const std::int64_t packs = count / Width;
  for (std::int64_t p = worker; p < packs; p += workers) body(width_constant<Width>{}, p * Width);
  if constexpr (Width > 1) {
    for (std::int64_t i = packs * Width + worker; i < count; i += workers)
      body(width_constant<1>{}, i);
  }
}

/// The same walk by batches, so that a worker has several loads on their way at once: calls
/// `body(width_constant<W>, width_constant<N>, first_element, step)`, which takes N packs that
/// begin `step` elements apart. N is Batch, and 1 for what is left over.
template <int Width, int Batch, class Body>
__device__ __forceinline__ void for_each_batch(std::int64_t count, std::int64_t worker,
                                               std::int64_t workers, Body body) {
  const std::int64_t step = workers * Width;
  const std::int64_t batches = count / (Batch * step);  // as many as every worker has
  for (std::int64_t b = 0; b < batches; ++b) {
    body(width_constant<Width>{}, width_constant<Batch>{}, b * Batch * step + worker * Width, step);
  }
  const std::int64_t done = batches * Batch * step;
  for_each_pack<Width>(count - done, worker, workers, [&](auto width, std::int64_t i) {
    body(width, width_constant<1>{}, done + i, step);
  });
}

/// Loads such a batch.
template <int Width, int Batch>
__device__ __forceinline__ void load_batch(pack<Width> (&packs)[Batch], const float* from,
                                           std::int64_t step) {
#pragma unroll
  for (int j = 0; j < Batch; ++j) packs[j] = load<Width>(from + j * step);
}

/// The walk of for_each_pack from the end to the beginning. A second pass over a range too long for
/// the cache then begins with what the first pass read last and the cache still holds.
template <int Width, class Body>
__device__ __forceinline__ void for_each_pack_reversed(std::int64_t count, std::int64_t worker,
                                                       std::int64_t workers, Body body) {
  const std::int64_t packs = count / Width;
  if constexpr (Width > 1) {
    for (std::int64_t i = packs * Width + worker; i < count; i += workers)
      body(width_constant<1>{}, i);
  }
  const std::int64_t turns = (packs - worker + workers - 1) / workers;
  for (std::int64_t p = worker + (turns - 1) * workers; p >= 0; p -= workers)
    body(width_constant<Width>{}, p * Width);
}

/// The position of this thread in the whole grid, and the number of threads in it: a grid-stride
/// loop's bounds.
__device__ __forceinline__ std::int64_t thread_in_grid() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ std::int64_t threads_in_grid() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

}  // namespace device
LLMC_NAMESPACE_END
