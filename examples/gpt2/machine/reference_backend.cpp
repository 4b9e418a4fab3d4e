#include "gpt2/machine/reference_backend.hpp"

#include <chrono>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "gpt2/machine/instruction_sets.hpp"
#include "gpt2/machine/reference_layers.hpp"

namespace gpt2_trainer {
namespace {

template <class Real>
std::unique_ptr<layers<Real>> make_reference_layers() {
  if constexpr (std::is_same_v<Real, float>) {
    return make_reference_layers_of_floats();
  } else {
    return make_reference_layers_of_doubles();
  }
}

/// Calls are over when they return, so there is nothing to record and nothing to wait for.
class direct_calls final : public recording {
 public:
  void run(const std::function<void()>& calls) override { calls(); }
};

class copied_bytes final : public pending_download {
 public:
  copied_bytes(const void* from, std::size_t bytes)
      : bytes_(static_cast<const std::byte*>(from), static_cast<const std::byte*>(from) + bytes) {}
  bool is_over() const override { return true; }
  void finish(void* to) override { std::memcpy(to, bytes_.data(), bytes_.size()); }

 private:
  std::vector<std::byte> bytes_;
};

class host_timer final : public call_timer {
 public:
  void begin() override { begin_ = clock::now(); }
  void end() override {
    seconds_.push_back(std::chrono::duration<double>(clock::now() - begin_).count());
  }
  std::vector<double> finish() override { return std::exchange(seconds_, {}); }

 private:
  using clock = std::chrono::steady_clock;

  clock::time_point begin_;
  std::vector<double> seconds_;
};

template <class Real>
class reference_backend final : public backend<Real> {
 public:
  std::string description() const override {
#if defined(_OPENMP)
    const int threads = omp_get_max_threads();
#else
    const int threads = 1;
#endif
    return "CPU reference, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  }

  std::unique_ptr<call_timer> make_timer() override {
    return std::make_unique<host_timer>();
  }

  std::shared_ptr<void> allocate(std::size_t bytes) override {
    constexpr std::align_val_t alignment{256};
    const std::shared_ptr<void> memory(::operator new(bytes, alignment),
                                       [](void* p) { ::operator delete(p, alignment); });
    std::memset(memory.get(), 0, bytes);
    return memory;
  }
  std::unique_ptr<recording> record() override {
    return std::make_unique<direct_calls>();
  }

  std::size_t workspace_bytes(const step_shapes&) const override {
    return 0;
  }
  void use_workspace(llmc::workspace) override {}

 private:
  layers<Real>& on() override {
    return *layers_;
  }
  void do_upload(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void do_download(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  std::unique_ptr<pending_download> do_start_download(const void* from,
                                                      std::size_t bytes) override {
    return std::make_unique<copied_bytes>(from, bytes);
  }
  void do_zero(void* at, std::size_t bytes) override {
    std::memset(at, 0, bytes);
  }

  std::unique_ptr<layers<Real>> layers_ = make_reference_layers<Real>();
};

}  // namespace

template <class Real>
std::unique_ptr<backend<Real>> make_reference_backend() {
  require_instruction_sets();
  return std::make_unique<reference_backend<Real>>();
}

template std::unique_ptr<backend<float>> make_reference_backend();
template std::unique_ptr<backend<double>> make_reference_backend();

}  // namespace gpt2_trainer
