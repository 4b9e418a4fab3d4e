/// @file
/// Arguments that a launcher must refuse, before it queues anything.
///
/// check_refusals takes a launcher and arguments that it would take, and calls it with each of them
/// spoilt in turn: a pointer null, an extent negative, a workspace null, too small or misaligned.
/// Each call must throw llmc::invalid_argument and leave every byte of the arrays as it was. The
/// arrays are on the GPU where there is one:
///
///     check_refusals("llmc::gelu_forward", llmc::gelu_forward<>, array{"out"}, array{"inp"}, 5,
///                    nullptr);
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <llmc/error.hpp>
#include <llmc/split_matrix.hpp>
#include <llmc/types.hpp>

#include "catch.hpp"
#include "registry/device_memory.hpp"

namespace llmc_test {

/// An array that the launcher must be given.
struct array {
  const char* name;
};

/// An array that may be null: never spoilt.
struct optional_array {};

/// An array on the host that the launcher must be given.
template <class T>
struct host_array {
  const char* name;
  T* data;
};
template <class T>
host_array(const char*, T*) -> host_array<T>;

/// Scratch of which the launcher needs that many bytes, at least one.
struct needed_scratch {
  std::size_t bytes;
};

/// A matrix in halves that the launcher must be given.
struct halves {
  const char* name;
  llmc::row_shape shape;
};

/// The memory of all arrays, filled with a pattern that must be there still after a refused call.
class patterned_memory {
 public:
  static constexpr std::size_t bytes_of_array = 64 * 1024;

  explicit patterned_memory(std::size_t arrays) : pattern_(arrays * bytes_of_array, 0x5a) {
    if (has_gpu()) {
      on_gpu_ = std::make_unique<buffer<unsigned char>>(pattern_);
    } else {
      on_host_ = pattern_;
    }
  }
  unsigned char* array_at(std::size_t i) {
    return (on_gpu_ != nullptr ? on_gpu_->get() : on_host_.data()) + i * bytes_of_array;
  }
  bool is_unchanged() const {
    if (on_gpu_ == nullptr) return on_host_ == pattern_;
    check_cuda(cudaDeviceSynchronize());
    return on_gpu_->values() == pattern_ && on_gpu_->guards_intact();
  }

 private:
  std::vector<unsigned char> pattern_, on_host_;
  std::unique_ptr<buffer<unsigned char>> on_gpu_;
};

namespace refusals {

struct any_pointer {
  void* address;
  template <class T>
  operator T*() const {
    return static_cast<T*>(address);
  }
};

/// What the launcher gets for an argument that is not spoilt.
template <class T>
T good(T value, void*) {
  return value;
}
inline any_pointer good(array, void* place) {
  return {place};
}
inline any_pointer good(optional_array, void* place) {
  return {place};
}
template <class T>
T* good(host_array<T> a, void*) {
  return a.data;
}
inline llmc::workspace good(needed_scratch s, void* place) {
  return {place, s.bytes};
}

inline llmc::split_matrix good(halves h, void* place) {
  return {place, h.shape};
}

template <class T>
inline constexpr bool is_shape =
    std::is_same_v<T, llmc::row_shape> || std::is_same_v<T, llmc::encoder_shape> ||
    std::is_same_v<T, llmc::matmul_shape> || std::is_same_v<T, llmc::attention_shape> ||
    std::is_same_v<T, llmc::classifier_shape>;

/// Calls `body(bad, sentence)` with each value that an argument must not have and what the error
/// then says.
template <class T, class Body>
void for_each_bad(T value, void*, Body body) {
  if constexpr (is_shape<T>) {
    constexpr std::int64_t negative = -1;
    for (std::size_t i = 0; i < sizeof(T) / sizeof negative; ++i) {
      T bad = value;
      std::memcpy(reinterpret_cast<unsigned char*>(&bad) + i * sizeof negative, &negative,
                  sizeof negative);
      body(bad, " must be at least ");
    }
  } else if constexpr (std::is_integral_v<T>) {
    body(T{-1}, " must be at least ");
  }
}
template <class Body>
void for_each_bad(array a, void*, Body body) {
  body(nullptr, std::string(a.name) + " must not be null");
}
template <class T, class Body>
void for_each_bad(host_array<T> a, void*, Body body) {
  body(nullptr, std::string(a.name) + " must not be null");
}
template <class Body>
void for_each_bad(needed_scratch s, void* place, Body body) {
  body(llmc::workspace{nullptr, s.bytes}, "workspace must have ");
  body(llmc::workspace{place, s.bytes - 1}, "workspace must have at least ");
  body(llmc::workspace{static_cast<unsigned char*>(place) + 4, s.bytes},
       "workspace must be aligned to 16 bytes");
}

template <class Body>
void for_each_bad(halves h, void* place, Body body) {
  body(llmc::split_matrix{nullptr, h.shape}, std::string(h.name) + " must not be null");
  body(llmc::split_matrix{static_cast<unsigned char*>(place) + 4, h.shape},
       std::string(h.name) + " must be aligned to 16 bytes");
  for_each_bad(h.shape, place, [&](llmc::row_shape bad, const char* sentence) {
    body(llmc::split_matrix{place, bad}, sentence);
  });
}

/// The launcher with `bad` in the place of argument `At`.
template <std::size_t At, class Launcher, class Bad, class Good, std::size_t... I>
void call(Launcher launcher, const Bad& bad, const Good& arguments, std::index_sequence<I...>) {
  const auto pick = [&](auto i) -> auto& {
    if constexpr (i() == At) {
      return bad;
    } else {
      return std::get<i()>(arguments);
    }
  };
  launcher(pick(std::integral_constant<std::size_t, I>{})...);
}

template <std::size_t At, class Launcher, class Argument, class Good>
void check_argument(const std::string& function, Launcher launcher, const Argument& argument,
                    const Good& arguments, patterned_memory& memory) {
  for_each_bad(argument, memory.array_at(At), [&](const auto& bad, const std::string& sentence) {
    std::string thrown = "nothing was thrown";
    try {
      call<At>(launcher, bad, arguments, std::make_index_sequence<std::tuple_size_v<Good>>{});
    } catch (const llmc::invalid_argument& e) {
      thrown = e.what();
    } catch (const std::exception& e) {
      thrown = std::string("something else: ") + e.what();
    }
    INFO("argument " << At << ", wanted \"" << function << ": ... " << sentence << "\", got \""
                     << thrown << "\"");
    CHECK(thrown.rfind(function + ": ", 0) == 0);
    CHECK(thrown.find(sentence) != std::string::npos);
    CHECK(memory.is_unchanged());
  });
}

template <class Launcher, class... Arguments, std::size_t... I>
void check_all(const char* function, Launcher launcher, std::index_sequence<I...>,
               const Arguments&... arguments) {
  patterned_memory memory(sizeof...(Arguments));
  const auto all = std::make_tuple(good(arguments, memory.array_at(I))...);
  (check_argument<I>(function, launcher, arguments, all, memory), ...);
}

}  // namespace refusals

/// See the top of this file. A matmul_context comes as std::ref(context).
template <class Launcher, class... Arguments>
void check_refusals(const char* function, Launcher launcher, const Arguments&... arguments) {
  refusals::check_all(function, launcher, std::index_sequence_for<Arguments...>{}, arguments...);
}

}  // namespace llmc_test
