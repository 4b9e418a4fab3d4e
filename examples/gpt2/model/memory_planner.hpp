/// @file
/// One allocation for all arrays of a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <llmc/detail/checks.hpp>

#include "gpt2/machine/backend.hpp"

namespace gpt2_trainer {

struct memory_item {
  std::string name;
  std::size_t bytes;
};

/// Collects arrays, then allocates them in one go and sets the pointers to them.
class memory_planner {
 public:
  template <class T>
  void add(T*& pointer, const char* name, std::int64_t count) {
    constexpr std::size_t alignment = 256;
    const std::size_t bytes = llmc::checks::bytes<T>("gpt2_trainer::gpt2", count);
    setters_.push_back([&pointer, offset = total_](std::byte* base) {
      pointer = reinterpret_cast<T*>(base + offset);
    });
    items_.push_back({name, bytes});
    total_ += (bytes + alignment - 1) / alignment * alignment;
  }

  template <class Real>
  std::shared_ptr<void> allocate(backend<Real>& machine) const {
    std::shared_ptr<void> memory = machine.allocate(total_);
    for (const auto& set : setters_) set(static_cast<std::byte*>(memory.get()));
    return memory;
  }

  const std::vector<memory_item>& items() const { return items_; }

 private:
  std::vector<std::function<void(std::byte*)>> setters_;
  std::vector<memory_item> items_;
  std::size_t total_ = 0;
};

}  // namespace gpt2_trainer
