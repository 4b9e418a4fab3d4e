#include "gpt2/machine/cuda/cuda_transfers.hpp"

#include <algorithm>
#include <cstring>

#include "gpt2/machine/cuda/cuda_check.hpp"

namespace gpt2_trainer {
namespace {

class staged_download final : public pending_download {
 public:
  staged_download(std::shared_ptr<staged_copy> copy, std::size_t bytes)
      : copy_(std::move(copy)), bytes_(bytes) {}

  bool is_over() const override { return copy_->is_over(); }
  void finish(void* to) override {
    copy_->wait();
    std::memcpy(to, copy_->memory(), bytes_);
  }

 private:
  std::shared_ptr<staged_copy> copy_;
  std::size_t bytes_;
};

}  // namespace

staged_copy::staged_copy(std::size_t capacity) : capacity_(capacity) {
  check_cuda("cudaEventCreateWithFlags", cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  const cudaError_t code = cudaMallocHost(&memory_, capacity);
  if (code != cudaSuccess) cudaEventDestroy(event_);
  check_cuda("allocating page-locked memory", code);
}

staged_copy::~staged_copy() {
  cudaEventSynchronize(event_);
  cudaEventDestroy(event_);
  cudaFreeHost(memory_);
}

void staged_copy::mark(cudaStream_t stream) {
  check_cuda("cudaEventRecord", cudaEventRecord(event_, stream));
}

bool staged_copy::is_over() const {
  const cudaError_t code = cudaEventQuery(event_);
  if (code != cudaErrorNotReady) check_cuda("a step", code);
  return code == cudaSuccess;
}

void staged_copy::wait() const {
  check_cuda("a step", cudaEventSynchronize(event_));
}

/// Staging memory that no pending download holds: one whose copy is over, else a new one. Where
/// there are many, this waits for an old one instead of making another.
std::shared_ptr<staged_copy> cuda_transfers::take(std::size_t bytes) {
  constexpr std::size_t most_copies = 32;
  constexpr std::size_t least_bytes = 4096;
  const auto is_free = [&](const std::shared_ptr<staged_copy>& copy) {
    return copy.use_count() == 1 && copy->capacity() >= bytes;
  };
  const auto is_idle = [&](const auto& copy) { return is_free(copy) && copy->is_over(); };
  const auto idle = std::find_if(copies_.begin(), copies_.end(), is_idle);
  if (idle != copies_.end()) return *idle;
  const auto busy = std::find_if(copies_.begin(), copies_.end(), is_free);
  if (copies_.size() < most_copies || busy == copies_.end()) {
    return copies_.emplace_back(std::make_shared<staged_copy>(std::max(bytes, least_bytes)));
  }
  (*busy)->wait();
  return *busy;
}

void cuda_transfers::upload(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  constexpr std::size_t most_staged = std::size_t{8} << 20;
  if (bytes > most_staged) {
    check_cuda("copying to the device",
               cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
    // By now the copy has read memory that is not page-locked, but nothing promises that.
    check_cuda("copying to the device", cudaStreamSynchronize(stream));
    return;
  }
  const std::shared_ptr<staged_copy> copy = take(bytes);
  std::memcpy(copy->memory(), from, bytes);
  check_cuda("copying to the device",
             cudaMemcpyAsync(to, copy->memory(), bytes, cudaMemcpyHostToDevice, stream));
  copy->mark(stream);
}

std::unique_ptr<pending_download> cuda_transfers::start_download(const void* from,
                                                                 std::size_t bytes,
                                                                 cudaStream_t stream) {
  std::shared_ptr<staged_copy> copy = take(bytes);
  check_cuda("copying to the host",
             cudaMemcpyAsync(copy->memory(), from, bytes, cudaMemcpyDeviceToHost, stream));
  copy->mark(stream);
  return std::make_unique<staged_download>(std::move(copy), bytes);
}

}  // namespace gpt2_trainer
