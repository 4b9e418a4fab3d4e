/// @file
/// Products by the warpgroup instruction wgmma.mma_async, sm_90a only. Four warps together compute
/// sums (64 x N) += a (64 x K) b (K x N): K is 8 for TF32 and 16 for halves. a comes from registers
/// or shared memory, b from shared memory. In shared memory TF32 operands must lie with k
/// innermost; halves may lie either way.
///
/// Lane l of warp w is (g, t) = (l / 4, l % 4) and holds, rows first:
///
///     a:         (16w + g, t), (16w + g + 8, t), (16w + g, t + 4), (16w + g + 8, t + 4)
///     sums[4j + 2h + e]:  (16w + g + 8h, 8j + 2t + e)
///
/// The instructions run beside the program: begin_wgmma(), any number of products, commit_wgmma();
/// until wait_for_wgmma() nobody may touch the registers and shared memory they use.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

/// Whether this pass compiles for an architecture that has these instructions. The macro is defined
/// for sm_90a only; __CUDA_ARCH__ is 900 for sm_90, too, which lacks them.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool has_wgmma = true;
#else
inline constexpr bool has_wgmma = false;
#endif

/// Orders earlier accesses to registers and shared memory before the products that follow.
__device__ __forceinline__ void begin_wgmma() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void commit_wgmma() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most `Pending` of the committed groups run.
template <int Pending>
__device__ __forceinline__ void wait_for_wgmma() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

/// How the instruction names a tile in shared memory: rows of 32 floats, 128 bytes apart, swizzled
/// as tensor_copy.cuh says, with groups of 8 rows 1024 bytes apart. Add 2 for 8 floats further.
__device__ __forceinline__ std::uint64_t wgmma_tile(std::uint32_t address) {
  constexpr std::uint64_t swizzle_128 = std::uint64_t{1} << 62;
  constexpr std::uint64_t group_stride = std::uint64_t{1024 >> 4} << 32;
  constexpr std::uint64_t unused = std::uint64_t{1} << 16;
  return swizzle_128 | group_stride | unused | ((address & 0x3ffff) >> 4);
}

/// The same for halves, with k innermost: rows of 64. With k outermost a tile is a column of boxes,
/// 8192 bytes apart, of 64 k by 64 neighbours; groups of 8 k are 1024 bytes apart.
template <bool KInnermost>
__device__ __forceinline__ std::uint64_t wgmma_half_tile(std::uint32_t address) {
  constexpr std::uint64_t box_stride = std::uint64_t{KInnermost ? 0 : (8192 >> 4) - 1} << 16;
  return wgmma_tile(address) + box_stride;
}
/// What to add to it for 16 k further.
template <bool KInnermost>
inline constexpr std::uint64_t wgmma_half_step = KInnermost ? 2 : 16 * 128 >> 4;

// Registers cannot be passed to an asm statement as an array; these lists keep the three statements
// below readable.
// clang-format off
#define LLMC_DETAIL_NAMES_64 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, " \
  "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, " \
  "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, " \
  "%60, %61, %62, %63"
#define LLMC_DETAIL_NAMES_96 \
  LLMC_DETAIL_NAMES_64 ", " \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, " \
  "%76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, " \
  "%88, %89, %90, %91, %92, %93, %94, %95"
#define LLMC_DETAIL_NAMES_128 \
  LLMC_DETAIL_NAMES_96 ", " \
  "%96, %97, %98, %99, " \
  "%100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, " \
  "%124, %125, %126, %127"
// clang-format on
#define LLMC_DETAIL_SUMS_8(x, i)                                                              \
  "+f"(x[i]), "+f"(x[i + 1]), "+f"(x[i + 2]), "+f"(x[i + 3]), "+f"(x[i + 4]), "+f"(x[i + 5]), \
      "+f"(x[i + 6]), "+f"(x[i + 7])
#define LLMC_DETAIL_SUMS_32(x, i)                                                        \
  LLMC_DETAIL_SUMS_8(x, i), LLMC_DETAIL_SUMS_8(x, i + 8), LLMC_DETAIL_SUMS_8(x, i + 16), \
      LLMC_DETAIL_SUMS_8(x, i + 24)

/// sums = a b where not `Add`, else sums += a b; 64 x 128, a from registers.
template <bool Add>
__device__ __forceinline__ void wgmma_tf32(float (&sums)[64], const std::uint32_t (&a)[4],
                                           std::uint64_t b) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {" LLMC_DETAIL_NAMES_64
      "}, {%64, %65, %66, %67}, %68, add, 1, 1;\n"
      "}\n"
      : LLMC_DETAIL_SUMS_32(sums, 0), LLMC_DETAIL_SUMS_32(sums, 32)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(Add));
}

/// The same, 64 x 256.
template <bool Add>
__device__ __forceinline__ void wgmma_tf32(float (&sums)[128], const std::uint32_t (&a)[4],
                                           std::uint64_t b) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %133, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32 {" LLMC_DETAIL_NAMES_128
      "}, {%128, %129, %130, %131}, %132, add, 1, 1;\n"
      "}\n"
      : LLMC_DETAIL_SUMS_32(sums, 0), LLMC_DETAIL_SUMS_32(sums, 32), LLMC_DETAIL_SUMS_32(sums, 64),
        LLMC_DETAIL_SUMS_32(sums, 96)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(Add));
}

/// The same, 64 x 256, with a from shared memory, too.
template <bool Add>
__device__ __forceinline__ void wgmma_tf32(float (&sums)[128], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32 {" LLMC_DETAIL_NAMES_128
      "}, %128, %129, add, 1, 1;\n"
      "}\n"
      : LLMC_DETAIL_SUMS_32(sums, 0), LLMC_DETAIL_SUMS_32(sums, 32), LLMC_DETAIL_SUMS_32(sums, 64),
        LLMC_DETAIL_SUMS_32(sums, 96)
      : "l"(a), "l"(b), "n"(Add));
}

/// Products of halves, 64 x 192, both operands from shared memory: sums = a b where not `Add`, else
/// sums += a b.
template <bool Add, bool KInnermostA, bool KInnermostB>
__device__ __forceinline__ void wgmma_half(float (&sums)[96], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %98, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 {" LLMC_DETAIL_NAMES_96
      "}, %96, %97, add, 1, 1, %99, %100;\n"
      "}\n"
      : LLMC_DETAIL_SUMS_32(sums, 0), LLMC_DETAIL_SUMS_32(sums, 32), LLMC_DETAIL_SUMS_32(sums, 64)
      : "l"(a), "l"(b), "n"(Add), "n"(!KInnermostA), "n"(!KInnermostB));
}

#undef LLMC_DETAIL_NAMES_64
#undef LLMC_DETAIL_NAMES_96
#undef LLMC_DETAIL_NAMES_128
#undef LLMC_DETAIL_SUMS_8
#undef LLMC_DETAIL_SUMS_32

/// Moves registers between the roles of a block's warpgroups. Every warp of a warpgroup calls it;
/// the kernel's launch bounds must fix how many registers each thread has at its start.
template <int Registers>
__device__ __forceinline__ void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ __forceinline__ void acquire_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

}  // namespace device
LLMC_NAMESPACE_END
