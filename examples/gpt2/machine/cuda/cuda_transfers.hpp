/// @file
/// Small copies between host and device that neither side waits for.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "gpt2/machine/backend.hpp"

namespace gpt2_trainer {

/// Page-locked memory for one copy at a time. A copy from or to other memory of the host would wait
/// for the stream.
class staged_copy {
 public:
  explicit staged_copy(std::size_t capacity);
  ~staged_copy();
  staged_copy(const staged_copy&) = delete;
  staged_copy& operator=(const staged_copy&) = delete;

  std::size_t capacity() const { return capacity_; }
  void* memory() const { return memory_; }

  /// Says that the copy queued last is the last that uses the memory.
  void mark(cudaStream_t stream);
  bool is_over() const;
  void wait() const;

 private:
  std::size_t capacity_;
  void* memory_ = nullptr;
  cudaEvent_t event_ = nullptr;
};

/// Copies on one stream. Staging memory is made when it is first needed, and used again and again.
class cuda_transfers {
 public:
  /// `from` may change as soon as the call is over; waits only if many copies are still on their
  /// way.
  void upload(void* to, const void* from, std::size_t bytes, cudaStream_t stream);
  std::unique_ptr<pending_download> start_download(const void* from, std::size_t bytes,
                                                   cudaStream_t stream);

 private:
  std::shared_ptr<staged_copy> take(std::size_t bytes);

  std::vector<std::shared_ptr<staged_copy>> copies_;
};

}  // namespace gpt2_trainer
