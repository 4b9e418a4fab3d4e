/// @file
/// What the model needs of what it runs on: a machine, and llmc's layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <llmc/types.hpp>

#include "gpt2/machine/call_profile.hpp"
#include "gpt2/machine/calls.hpp"
#include "gpt2/machine/decode_layers.hpp"

namespace gpt2_trainer {

/// The most that the hardware can do; 0 where that is not known.
struct peak_rates {
  double flops_per_second = 0;
  double bytes_per_second = 0;
};

/// What the hardware reaches, as this program measures it; 0 where that is not known.
struct measured_rates {
  double bytes_per_second = 0;            ///< of a copy, read and written
  double product_flops_per_second = 0;    ///< of a large product
  double attention_flops_per_second = 0;  ///< of a large product in attention's arithmetic
};

/// Matrix products that can be timed to find the fastest way to do each.
class product_tuner {
 public:
  virtual ~product_tuner() = default;

  /// Calls `step`, and times those of its products that have no plan yet.
  virtual void tune(const std::function<void()>& step) = 0;
  /// The plans that were timed or loaded, as text.
  virtual std::string plans() const = 0;
  /// `name` is what errors call the text. Throws llmc::invalid_argument, and changes nothing, if
  /// the plans are not for this machine.
  virtual void load_plans(const std::string& text, const std::string& name) = 0;
};

/// Calls of a backend that are the same each time, with the same arguments. After the first times
/// they may be replayed instead of made, so a function given to `run` must do nothing but make
/// them.
class recording {
 public:
  virtual ~recording() = default;
  virtual void run(const std::function<void()>& calls) = 0;
};

/// A copy to the host that was queued.
class pending_download {
 public:
  virtual ~pending_download() = default;
  /// Whether `finish` would not wait.
  virtual bool is_over() const = 0;
  /// Waits for it, and copies what arrived.
  virtual void finish(void* to) = 0;
};

/// All the shapes that a step over (B, T) tokens meets.
struct step_shapes {
  llmc::encoder_shape encoder;
  llmc::row_shape residual;
  llmc::matmul_shape qkv;
  llmc::attention_shape attention;
  llmc::matmul_shape attproj;
  llmc::matmul_shape fc;
  llmc::matmul_shape fcproj;
  std::int64_t parameters;
};

/// Memory, transfers, time. Calls are queued in order; only `download` and a `pending_download`
/// wait for them.
class machine {
 public:
  virtual ~machine() = default;

  /// One line: the device and the arithmetic.
  virtual std::string description() const = 0;
  virtual peak_rates peak() const { return {}; }
  /// Takes a second or two, and memory for as long.
  virtual measured_rates measure_rates() { return {}; }
  virtual std::unique_ptr<call_timer> make_timer() = 0;
  /// Null where there is nothing to tune.
  virtual product_tuner* products() { return nullptr; }

  /// Memory of the device that the machine itself holds.
  virtual std::size_t own_bytes() const { return 0; }
  /// Memory of the device, zeroed, aligned to 256 bytes.
  virtual std::shared_ptr<void> allocate(std::size_t bytes) = 0;
  /// Scratch that the layers need for these shapes, and where it lies for the calls that follow.
  virtual std::size_t workspace_bytes(const step_shapes& shapes) const = 0;
  virtual void use_workspace(llmc::workspace scratch) = 0;

  /// `from` may change as soon as the call is over.
  void upload(void* to, const void* from, std::size_t bytes) {
    watched("upload", {}, [&] { do_upload(to, from, bytes); });
  }
  /// Waits for all that was queued, then copies to the host.
  void download(void* to, const void* from, std::size_t bytes) {
    watched("download", {}, [&] { do_download(to, from, bytes); });
  }
  /// For small results that are wanted later; at most a few at a time.
  std::unique_ptr<pending_download> start_download(const void* from, std::size_t bytes) {
    std::unique_ptr<pending_download> pending;
    watched("download", {}, [&] { pending = do_start_download(from, bytes); });
    return pending;
  }
  void zero(void* at, std::size_t bytes) {
    watched("zero", calls::costs::zero(bytes), [&] { do_zero(at, bytes); });
  }

  virtual std::unique_ptr<recording> record() = 0;

  /// From now on calls are timed by this profile; null: by none.
  void watch(call_profile* profile) { profile_ = profile; }
  bool is_watched() const { return profile_ != nullptr; }

 protected:
  template <class Call>
  void watched(std::string name, call_cost cost, Call call) {
    if (profile_ == nullptr) return call();
    profile_->time(std::move(name), cost, call);
  }

 private:
  virtual void do_upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual void do_download(void* to, const void* from, std::size_t bytes) = 0;
  virtual std::unique_ptr<pending_download> do_start_download(const void* from,
                                                              std::size_t bytes) = 0;
  virtual void do_zero(void* at, std::size_t bytes) = 0;

  call_profile* profile_ = nullptr;
};

/// Who makes the layers' calls.
template <class Real>
class layers {
 public:
  virtual ~layers() = default;

  virtual void run(const calls::encoder_forward<Real>& call) = 0;
  virtual void run(const calls::encoder_backward<Real>& call) = 0;
  virtual void run(const calls::layernorm_forward<Real>& call) = 0;
  virtual void run(const calls::residual_layernorm_forward<Real>& call) = 0;
  virtual void run(const calls::residual_layernorm_backward<Real>& call) = 0;
  virtual void run(const calls::matmul_forward<Real>& call) = 0;
  virtual void run(const calls::matmul_backward<Real>& call) = 0;
  virtual void run(const calls::matmul_gelu_forward<Real>& call) = 0;
  virtual void run(const calls::gelu_forward<Real>& call) = 0;
  virtual void run(const calls::gelu_matmul_backward<Real>& call) = 0;
  virtual void run(const calls::attention_forward<Real>& call) = 0;
  virtual void run(const calls::attention_backward<Real>& call) = 0;
  virtual void run(const calls::crossentropy_forward<Real>& call) = 0;
  virtual void run(const calls::classifier_forward_backward<Real>& call) = 0;
  virtual void run(const calls::loss_sum<Real>& call) = 0;
  virtual void run(const calls::skip_update_unless_sound<Real>& call) = 0;
  virtual void run(const calls::global_norm<Real>& call) = 0;
  virtual void run(const calls::adamw_update_segments<Real>& call) = 0;

  /// The layers with which texts are continued from a cache; null where there are none yet.
  virtual decode_layers<Real>* decoding() { return nullptr; }
};

/// A machine and the layers on it.
template <class Real>
class backend : public machine {
 public:
  /// Queues a layer's call; while a profile watches, its parts one by one.
  template <class Call>
  void run(const Call& call) {
    if (!is_watched()) return on().run(call);
    calls::for_each_part(call, [&](const Call& part) {
      watched(part.name(), part.cost(), [&] { on().run(part); });
    });
  }

  decode_layers<Real>* decoding() { return on().decoding(); }

 private:
  virtual layers<Real>& on() = 0;
};

}  // namespace gpt2_trainer
