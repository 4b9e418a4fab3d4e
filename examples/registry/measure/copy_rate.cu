#include <algorithm>
#include <cstdint>

#include "registry/kernels.hpp"
#include "registry/measure/ceilings.hpp"

namespace llmc_registry {
namespace {

using llmc_test::check_cuda;

/// Copies `PerThread` packs of 16 bytes a thread, all of them read before the first is written.
template <int PerThread>
__global__ void copy_kernel(float4* to, const float4* from, std::int64_t packs) {
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * blockDim.x * PerThread + threadIdx.x;
  float4 values[PerThread];
#pragma unroll
  for (int i = 0; i < PerThread; ++i) {
    const std::int64_t at = first + i * static_cast<std::int64_t>(blockDim.x);
    if (at < packs) values[i] = from[at];
  }
#pragma unroll
  for (int i = 0; i < PerThread; ++i) {
    const std::int64_t at = first + i * static_cast<std::int64_t>(blockDim.x);
    if (at < packs) to[at] = values[i];
  }
}

template <int PerThread>
double copy_us(const stopwatch& watch, float4* to, const float4* from, std::int64_t packs,
               int block_size) {
  const std::int64_t packs_a_block = std::int64_t{block_size} * PerThread;
  const auto blocks = static_cast<unsigned>((packs + packs_a_block - 1) / packs_a_block);
  const auto launch = [&](cudaStream_t stream) {
    copy_kernel<PerThread><<<blocks, block_size, 0, stream>>>(to, from, packs);
    check_cuda(cudaGetLastError());
  };
  return watch.time(launch).us;
}

}  // namespace

double copy_rate(const stopwatch& watch, std::int64_t bytes) {
  constexpr std::int64_t pack_bytes = sizeof(float4);
  const std::int64_t packs = std::max<std::int64_t>(bytes / 2 / pack_bytes, 1);
  const llmc_test::buffer<float> from_memory(4 * packs), to_memory(4 * packs);
  fill_normal(from_memory, 4 * packs, 1, 1.0, 0.0);
  const auto* from = reinterpret_cast<const float4*>(from_memory.get());
  auto* to = reinterpret_cast<float4*>(to_memory.get());
  double best = copy_us<1>(watch, to, from, packs, 256);
  for (const int block_size : {256, 512, 1024}) {
    best = std::min(best, copy_us<2>(watch, to, from, packs, block_size));
    best = std::min(best, copy_us<4>(watch, to, from, packs, block_size));
  }
  return static_cast<double>(2 * packs * pack_bytes) / best / 1e3;
}

}  // namespace llmc_registry
