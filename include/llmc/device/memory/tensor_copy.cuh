/// @file
/// Bulk copies of boxes of a matrix into shared memory by the tensor memory accelerator, sm_90 on:
/// one thread asks, an mbarrier counts the bytes. What lies outside the matrix arrives as zeros.
///
/// The boxes here are 32 floats (128 bytes) wide and swizzled by 128 bytes: chunk c (16 bytes) of
/// row r lies at place c ^ (r % 8) of that row. So the same chunk of 8 rows lies in 8 different
/// groups of banks, and shared memory wants an alignment of 1024 bytes.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cuda.h>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/mbarrier.cuh>

LLMC_NAMESPACE_BEGIN
namespace device {

/// The byte offset of 16-byte chunk `chunk` of row `row` in a swizzled box or tile.
__device__ __forceinline__ constexpr std::uint32_t swizzled_128(int row, int chunk) {
  return static_cast<std::uint32_t>(row * 128 + ((chunk ^ (row & 7)) << 4));
}

/// Begins to copy the box at column x, row y; `done` counts its bytes.
__device__ __forceinline__ void copy_box(std::uint32_t to, const CUtensorMap& map, int x, int y,
                                         mbarrier done) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(done.address)
      : "memory");
}

/// Makes this thread's ordinary stores to shared memory visible to tensor cores and bulk copies.
/// Call it before the barrier that tells others of the stores.
__device__ __forceinline__ void publish_to_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Shared memory by 32-bit address, in one instruction each.
__device__ __forceinline__ float4 load_shared_4(std::uint32_t from) {
  float4 x;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(from)
               : "memory");
  return x;
}
__device__ __forceinline__ float2 load_shared_2(std::uint32_t from) {
  float2 x;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(from) : "memory");
  return x;
}
__device__ __forceinline__ void store_shared_4(std::uint32_t to, const std::uint32_t (&x)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x[0]), "r"(x[1]),
               "r"(x[2]), "r"(x[3])
               : "memory");
}
__device__ __forceinline__ void store_shared_2(std::uint32_t to, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(x), "f"(y) : "memory");
}
__device__ __forceinline__ void store_shared_1(std::uint32_t to, std::uint32_t x) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(x) : "memory");
}

}  // namespace device
LLMC_NAMESPACE_END
