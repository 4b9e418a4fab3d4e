#include "registry/kernels.hpp"

#include "registry/device_memory.hpp"

namespace llmc_registry {
namespace {

using llmc_test::check_cuda;

constexpr int block_size = 256;
constexpr int blocks = 1024;  // the kernels stride over the rest

__device__ std::int64_t first_index() {
  return static_cast<std::int64_t>(blockIdx.x) * block_size + threadIdx.x;
}
constexpr std::int64_t stride = std::int64_t{blocks} * block_size;

/// 64 random bits from a counter: the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast
/// splittable pseudorandom number generators", 2014).
__device__ std::uint64_t random_bits(std::uint64_t counter) {
  std::uint64_t z = counter * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

/// A number in (0, 1) from 24 bits.
__device__ float uniform(std::uint64_t bits) {
  return (static_cast<float>(bits & 0xffffff) + 0.5f) * (1.0f / 16777216.0f);
}

__global__ void fill_normal_kernel(float* values, std::int64_t count, std::uint64_t seed,
                                   float deviation, float mean) {
  for (std::int64_t i = first_index(); i < count; i += stride) {
    const std::uint64_t bits = random_bits((seed << 40) + static_cast<std::uint64_t>(i));
    const float radius = sqrtf(-2.0f * logf(uniform(bits >> 40)));
    values[i] = mean + deviation * radius * cospif(2.0f * uniform(bits));
  }
}

__global__ void largest_ratio_kernel(int* largest, const float* actual, const float* expected,
                                     std::int64_t count, llmc_test::tolerance allowed) {
  double worst = 0;
  for (std::int64_t i = first_index(); i < count; i += stride) {
    const double a = actual[i];
    const double e = expected[i];
    if (a == e) continue;
    const double ratio = fabs(a - e) / (allowed.absolute + allowed.relative * fabs(e));
    worst = isnan(ratio) ? INFINITY : fmax(worst, ratio);
  }
  // Floats that are not negative are in the order of their bits.
  if (worst > 0) atomicMax(largest, __float_as_int(static_cast<float>(worst)));
}

}  // namespace

void fill_normal(float* values, std::int64_t count, std::uint64_t seed, double deviation,
                 double mean) {
  fill_normal_kernel<<<blocks, block_size>>>(values, count, seed, static_cast<float>(deviation),
                                             static_cast<float>(mean));
  check_cuda(cudaGetLastError());
  check_cuda(cudaDeviceSynchronize());
}

double largest_ratio(const float* actual, const float* expected, std::int64_t count,
                     llmc_test::tolerance allowed, cudaStream_t stream) {
  const llmc_test::buffer<int> largest(1);
  check_cuda(cudaMemsetAsync(largest, 0, sizeof(int), stream));
  largest_ratio_kernel<<<blocks, block_size, 0, stream>>>(largest, actual, expected, count,
                                                          allowed);
  check_cuda(cudaGetLastError());
  float ratio = 0;
  check_cuda(cudaMemcpyAsync(&ratio, largest, sizeof ratio, cudaMemcpyDeviceToHost, stream));
  check_cuda(cudaStreamSynchronize(stream));
  return ratio;
}

}  // namespace llmc_registry
