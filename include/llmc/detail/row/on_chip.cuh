/// @file
/// Whether a row stays on the chip, and the shared memory that it takes there.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/row_on_chip.cuh>
#include <llmc/error.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// The shared memory for what the registers do not take of a row, and for `others` whole rows.
inline std::size_t row_on_chip_shared_bytes(std::int64_t count, int block_size, int others = 0) {
  const std::int64_t packs = ceil_div(count, 4);
  const std::int64_t in_registers = device::packs_in_registers(block_size);
  const std::int64_t rest = packs > in_registers ? packs - in_registers : 0;
  return static_cast<std::size_t>(rest + others * packs) * sizeof(device::pack<4>);
}

inline bool fits_row_on_chip(const char* function, std::int64_t count, int block_size, int others) {
  constexpr std::size_t reductions = 1024;  // what the kernels have of it besides, at most
  const int limit = device_attribute(function, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  return row_on_chip_shared_bytes(count, block_size, others) + reductions <=
         static_cast<std::size_t>(limit);
}

/// Whether a layer's variant keeps rows of that many scores on the chip; `wide` says whether they
/// can be read 16 bytes at a time, and `others` how many rows lie whole in shared memory besides.
/// `automatic` does so where the rows of two blocks are enough to keep the memory busy.
template <auto Variant>
bool keeps_row_on_chip(const char* function, bool wide, std::int64_t count, int block_size,
                       int others = 0) {
  using variant = decltype(Variant);
  constexpr std::int64_t fewest_scores = 8192;
  if constexpr (Variant == variant::row_on_chip) {
    if (wide && fits_row_on_chip(function, count, block_size, others)) return true;
    throw unsupported(std::string(function) + ": the variant " + to_string(Variant) +
                      " takes rows that begin at 16-byte boundaries and fit the registers and the "
                      "shared memory of this device, got " +
                      std::to_string(count) + " columns");
  } else {
    return Variant == variant::automatic && wide && count >= fewest_scores &&
           fits_row_on_chip(function, count, block_size, others);
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
