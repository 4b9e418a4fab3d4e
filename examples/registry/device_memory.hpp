/// @file
/// A stream and guarded arrays on the GPU, for tests and for all else that runs the registry.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <llmc/types.hpp>

namespace llmc_test {

inline void check_cuda(cudaError_t code) {
  if (code != cudaSuccess) {
    throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(code));
  }
}

inline bool has_gpu() {
  int count = 0;
  const bool found = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
  cudaGetLastError();
  return found;
}

/// Whether that much memory of the GPU is free, with some to spare.
inline bool has_gpu_bytes(std::size_t bytes) {
  constexpr std::size_t to_spare = 256 << 20;
  std::size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total));
  return free >= bytes + to_spare;
}

/// A stream that does not synchronise with the default one.
class stream {
 public:
  stream() { check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~stream() { cudaStreamDestroy(stream_); }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  operator cudaStream_t() const { return stream_; }
  void synchronize() const { check_cuda(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// An array on the GPU between two guard bands. It begins `misalignment` elements past a 256-byte
/// boundary and holds bytes 0xff at first, which is NaN as a float, so an element that was never
/// written fails every comparison.
template <class T>
class buffer {
 public:
  explicit buffer(std::int64_t count, int misalignment = 0)
      : count_(static_cast<std::size_t>(count)),
        before_(guard_bytes + static_cast<std::size_t>(misalignment) * sizeof(T)) {
    check_cuda(cudaMalloc(&base_, total_bytes()));
    check_cuda(cudaMemset(base_, 0xff, total_bytes()));
    check_cuda(cudaDeviceSynchronize());  // for streams that do not wait for the default one
  }
  explicit buffer(const std::vector<T>& values, int misalignment = 0)
      : buffer(static_cast<std::int64_t>(values.size()), misalignment) {
    set(values);
  }
  ~buffer() { cudaFree(base_); }
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;

  operator T*() const { return get(); }
  T* get() const { return reinterpret_cast<T*>(base_ + before_); }
  std::size_t size() const { return count_; }

  void set(const std::vector<T>& values) {
    if (values.size() != count_) throw std::runtime_error("test: wrong size in buffer::set");
    check_cuda(cudaMemcpy(get(), values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  void fill_nan() { check_cuda(cudaMemset(get(), 0xff, count_ * sizeof(T))); }

  std::vector<T> values() const {
    std::vector<T> result(count_);
    check_cuda(cudaMemcpy(result.data(), get(), count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return result;
  }

  /// Whether nothing was written outside the array.
  bool guards_intact() const {
    const unsigned char* end = base_ + before_ + count_ * sizeof(T);
    return is_intact(base_, before_) && is_intact(end, guard_bytes);
  }

 private:
  static constexpr std::size_t guard_bytes = 1024;
  static bool is_intact(const unsigned char* guard, std::size_t count) {
    std::vector<unsigned char> bytes(count);
    check_cuda(cudaMemcpy(bytes.data(), guard, count, cudaMemcpyDeviceToHost));
    return std::all_of(bytes.begin(), bytes.end(), [](unsigned char b) { return b == 0xff; });
  }
  std::size_t total_bytes() const { return before_ + count_ * sizeof(T) + guard_bytes; }

  std::size_t count_;
  std::size_t before_;
  unsigned char* base_ = nullptr;
};

/// A launcher's scratch: just that many bytes, and no better aligned than it must be.
class scratch {
 public:
  explicit scratch(std::size_t bytes) : memory_(static_cast<std::int64_t>(bytes), 16) {}
  operator llmc::workspace() const { return {memory_.get(), memory_.size()}; }
  bool guards_intact() const { return memory_.guards_intact(); }

 private:
  buffer<unsigned char> memory_;
};

}  // namespace llmc_test
