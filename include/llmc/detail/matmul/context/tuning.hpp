/// @file
/// Timing the candidates of a product, on outputs of its own. Plain C++.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/last_error.hpp>
#include <llmc/detail/matmul/context/device_memory.hpp>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/namespace.hpp>
#include <llmc/error.hpp>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN

namespace products {

/// A product like another, with scratch for outputs. The scratch is aligned as the real outputs
/// are: the same kernels can do both products, and both have the same plan.
class scratch_product {
 public:
  scratch_product(const char* function, const product& original) : product_(original) {
    const std::int64_t out_floats = (original.batch - 1) * original.out.batch_stride +
                                    (original.rows - 1) * original.out.stride + original.columns;
    const std::int64_t sums_rows = (original.rows + column_sum_rows - 1) / column_sum_rows;
    epilogue& then = product_.then;
    product_.out.data = allocate_like(function, original.out.data, out_floats);
    if (then.residual == original.out.data) then.residual = product_.out.data;
    then.before_gelu = allocate_like(function, then.before_gelu, out_floats);
    then.column_sums = allocate_like(function, then.column_sums, sums_rows * original.columns);
  }
  const product& get() const { return product_; }

 private:
  float* allocate_like(const char* function, const float* original, std::int64_t floats) {
    if (original == nullptr) return nullptr;
    const std::size_t excess = reinterpret_cast<std::uintptr_t>(original) % 16;
    memory_.push_back(allocate_zeroed(function, "allocating scratch to tune with",
                                      checks::bytes<float>(function, floats) + excess));
    return reinterpret_cast<float*>(static_cast<char*>(memory_.back().get()) + excess);
  }

  product product_;
  std::vector<device_memory> memory_;
};

/// Times calls on a stream, each with a cold L2 cache.
class stopwatch {
 public:
  stopwatch(const char* function, int device, cudaStream_t stream)
      : function_(function), stream_(stream) {
    int l2_bytes = 0;
    check_cuda(function, "asking for the size of the L2 cache",
               cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device));
    flush_bytes_ = 2 * static_cast<std::size_t>((std::max)(l2_bytes, 1 << 20));
    flush_ = allocate_zeroed(function, "allocating memory to flush the L2 cache", flush_bytes_);
    for (event_owner* event : {&begin_, &end_}) {
      cudaEvent_t handle = nullptr;
      check_cuda(function, "cudaEventCreate", cudaEventCreate(&handle));
      event->reset(handle);
    }
  }

  cudaStream_t stream() const noexcept { return stream_; }

  /// The median time of several calls; that of the first alone where it is hopeless against `best`;
  /// infinity where the call fails.
  template <class Call>
  [[gnu::visibility("hidden")]] float time_of(Call call, float best) {
    float time = std::numeric_limits<float>::infinity();
    keeping_last_error([&] {
      try {
        time = median_time_of(call, best);
      } catch (const error&) {
        cudaGetLastError();  // trying was no error of the program's
      }
    });
    return time;
  }

 private:
  template <class Call>
  [[gnu::visibility("hidden")]] float median_time_of(Call call, float best) {
    constexpr int warm_ups = 2;
    constexpr std::size_t samples = 7;
    std::vector<float> times;
    for (int i = 0; i < warm_ups; ++i) call();
    while (times.size() < samples) {
      times.push_back(time_once(call));
      if (times.front() > 2 * best) break;
    }
    const auto median = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), median, times.end());
    return *median;
  }

  struct event_deleter {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  };
  using event_owner = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, event_deleter>;

  /// The memset keeps the device busy while the host catches up, so that the events enclose the
  /// product and nothing else.
  template <class Call>
  [[gnu::visibility("hidden")]] float time_once(Call call) {
    check_cuda(function_, "flushing the L2 cache",
               cudaMemsetAsync(flush_.get(), 0, flush_bytes_, stream_));
    check_cuda(function_, "cudaEventRecord", cudaEventRecord(begin_.get(), stream_));
    call();
    check_cuda(function_, "cudaEventRecord", cudaEventRecord(end_.get(), stream_));
    check_cuda(function_, "a product that is timed", cudaEventSynchronize(end_.get()));
    float milliseconds = 0;
    check_cuda(function_, "cudaEventElapsedTime",
               cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()));
    return milliseconds;
  }

  const char* function_;
  cudaStream_t stream_;
  std::size_t flush_bytes_ = 0;
  device_memory flush_;
  event_owner begin_;
  event_owner end_;
};

}  // namespace products

LLMC_TYPES_END
