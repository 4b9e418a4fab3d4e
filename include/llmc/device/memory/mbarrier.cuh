/// @file
/// Barriers in shared memory that count arrivals of threads and bytes of bulk copies (mbarrier),
/// and positions in a ring of stages that such barriers guard. sm_90 on.
///
/// A barrier's phase ends when all expected arrivals and bytes are in. A waiting thread names the
/// parity of the phase that must have ended: 0 for the first, 1 for the second, 0 for the third.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

/// A barrier at a 32-bit address of shared memory, 8-byte aligned.
struct mbarrier {
  static constexpr std::uint32_t bytes = 8;

  std::uint32_t address;

  /// One thread does this, then mbarriers_are_ready(), then the block's barrier.
  __device__ __forceinline__ void init(int arrivals) const {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address), "r"(arrivals));
  }
  __device__ __forceinline__ void arrive() const {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(address) : "memory");
  }
  /// Lets the present phase wait for that many bytes more.
  __device__ __forceinline__ void expect(int count) const {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(address),
                 "r"(count)
                 : "memory");
  }
  __device__ __forceinline__ void arrive_and_expect(int count) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address), "r"(count)
                 : "memory");
  }
  __device__ __forceinline__ void wait(std::uint32_t parity) const {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(address),
        "r"(parity)
        : "memory");
  }
};

/// Makes initialised barriers visible to bulk copies.
__device__ __forceinline__ void mbarriers_are_ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Where a thread is in a ring of stages, and the parity that belongs to this turn of the ring.
template <int Stages>
struct ring_position {
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == Stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// Waits at barrier number `barrier` (1 to 15) for `threads` threads of the block, in whole warps.
__device__ __forceinline__ void synchronise_some(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
/// Arrives at such a barrier without waiting.
__device__ __forceinline__ void arrive_at_some(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

}  // namespace device
LLMC_NAMESPACE_END
