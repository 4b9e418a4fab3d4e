/// @file
/// How a row is cut for the registers of the threads that share it.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>
#include <string>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/group.cuh>
#include <llmc/error.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Numbers of a row that a thread can keep.
inline constexpr int most_row_floats = 32;

/// Whether a row fits the registers of up to `block_size` threads.
constexpr bool fits_row_registers(std::int64_t channels, int block_size) {
  return channels <= std::int64_t{most_row_floats} * block_size;
}

/// Refuses rows that do not fit the registers, for a variant that the user named.
[[noreturn]] inline void refuse_row(const char* function, const char* variant,
                                    std::int64_t channels, int block_size) {
  throw unsupported(std::string(function) + ": the variant " + variant + " takes at most " +
                    std::to_string(std::int64_t{most_row_floats} * block_size) +
                    " channels with this block size, got " + std::to_string(channels));
}

template <class Group>
struct group_constant {
  using type = Group;
};

/// Calls `body(width, floats, group)`: constants for the Width and the Floats of row_in_registers,
/// and a group_constant. The group is a warp where its registers suffice for the row, else a block.
/// Rows that cannot be read 16 bytes at a time share one size, so that there are fewer kernels.
template <int BlockSize, class Body>
void with_row_registers(bool wide, std::int64_t channels, Body body) {
  const auto with_group = [&](auto group, std::int64_t threads) {
    const auto with = [&](auto width, auto floats) { body(width, floats, group); };
    constexpr device::width_constant<4> pack;
    if (!wide) {
      with(device::width_constant<1>{}, device::width_constant<most_row_floats>{});
    } else if (channels <= 8 * threads) {
      with(pack, device::width_constant<8>{});
    } else if (channels <= 16 * threads) {
      with(pack, device::width_constant<16>{});
    } else if (channels <= 24 * threads) {
      with(pack, device::width_constant<24>{});
    } else {
      with(pack, device::width_constant<most_row_floats>{});
    }
  };
  if (fits_row_registers(channels, device::warp_size)) {
    with_group(group_constant<device::whole_warp<BlockSize>>{}, device::warp_size);
  } else if constexpr (BlockSize > device::warp_size) {
    with_group(group_constant<device::whole_block<BlockSize>>{}, BlockSize);
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
