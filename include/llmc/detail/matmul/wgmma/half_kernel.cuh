/// @file
/// The wgmma kernel for matrices in halves: its consumers. Tiles of 128 x 192, two consumer groups
/// of 64 x 192 and one thread that asks for copies (half_tiles.cuh).
///
/// A chunk of 64 k is summed in fresh registers: low * high and high * low, which are scaled down
/// by 2^11, then high * high on top. One multiply-add for each sum then applies the scales of the
/// chunk's blocks and rounds as FP32 does. The tensor core's adder truncates, which takes 2^-23 of
/// a chunk on average: the scales give that back where there are low parts.
///
/// Where a block keeps its FP32 bits, or scales are so far apart that their product leaves FP32's
/// range, the chunk is made again in FP32.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/matmul/wgmma/half_epilogue.cuh>
#include <llmc/detail/matmul/wgmma/half_tiles.cuh>
#include <llmc/detail/matmul/wgmma/ring_memory.cuh>
#include <llmc/detail/matmul/wgmma/tile_walk.cuh>
#include <llmc/detail/matmul/wgmma/turns.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/detail/split/planes.cuh>
#include <llmc/device/memory/copy_async.cuh>
#include <llmc/device/memory/mbarrier.cuh>
#include <llmc/device/tensor_core/wgmma.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// The scale of the block that has these rows or columns of the product, and that chunk of k.
template <products::layout Order>
__device__ __forceinline__ float block_scale(const split_planes& m, int outer_block, int chunk) {
  if constexpr (Order == products::layout::inner_first) {
    return __ldg(m.scales + (min)(outer_block, m.row_blocks - 1) * m.column_blocks + chunk);
  } else {
    return __ldg(m.scales + chunk * m.column_blocks + (min)(outer_block, m.column_blocks - 1));
  }
}

/// What the sums of a chunk are multiplied by: one factor for each 64 columns. They are loaded
/// early and multiplied late.
template <class Tiles>
struct half_factors {
  float first;
  float second[Tiles::column_blocks];

  __device__ __forceinline__ half_factors(const half_problem& p, const tile_part& part, int group,
                                          int chunk) {
    first = block_scale<Tiles::layout_1>(p.first, part.row * Tiles::consumers + group, chunk);
#pragma unroll
    for (int j = 0; j < Tiles::column_blocks; ++j) {
      second[j] =
          block_scale<Tiles::layout_2>(p.second, part.column * Tiles::column_blocks + j, chunk);
    }
  }

  /// Sets `factors`; false if one of them is no use.
  __device__ __forceinline__ bool multiply(float (&factors)[Tiles::column_blocks]) const {
    constexpr float least = power_of_two(-120), most = power_of_two(100);
    bool usable = true;
#pragma unroll
    for (int j = 0; j < Tiles::column_blocks; ++j) {
      float power;  // volatile: this stays behind the wait for the products
      asm volatile("mul.f32 %0, %1, %2;"
                   : "=f"(power)
                   : "f"(power_in(first)), "f"(power_in(second[j])));
      usable = usable && power >= least && power <= most;
      const std::uint32_t low =
          (__float_as_uint(first) | __float_as_uint(second[j])) & split_scale::has_low;
      factors[j] = Tiles::x3 ? __uint_as_float(__float_as_uint(power) | low) : power;
    }
    return usable;
  }
};

/// The numbers of an operand that a thread needs for one k, in global memory: those of row or
/// column `outer` of the product, and of others in the same block of 64.
template <products::layout Order>
class numbers_of_k {
 public:
  __device__ __forceinline__ numbers_of_k(const split_planes& m, int outer, int k, float scale)
      : planes_(m), scale_(scale) {
    constexpr int side = static_cast<int>(split_layout::side);
    constexpr bool inner_first = Order == products::layout::inner_first;
    const int last_block = (inner_first ? m.row_blocks : m.column_blocks) - 1;
    const int inside = (min)(outer / side, last_block) * side + outer % side;
    step_ = inner_first ? m.stride : 1;
    // Not known to the compiler, which would keep the addresses of all k in registers.
    asm volatile("" : "+l"(step_));
    first_ = inside * step_ + k * (inner_first ? 1 : m.stride);
  }
  /// The number `further` rows or columns on.
  __device__ __forceinline__ float operator()(int further) const {
    return joined(planes_, first_ + further * step_, scale_);
  }

 private:
  const split_planes& planes_;
  float scale_;
  std::int64_t step_;
  std::int64_t first_;
};

/// sum + lost += a * b: what the sum's rounding and the product's take goes into `lost`. (Ogita,
/// Rump, Oishi: Accurate Sum and Dot Product, 2005.)
__device__ __forceinline__ void add_product_keeping_loss(float& sum, float& lost, float a,
                                                         float b) {
  // Intrinsics, since the compiler would make one multiply-add of product and sum.
  const float product = __fmul_rn(a, b);
  const float of_product = __fmaf_rn(a, b, -product);
  const float total = __fadd_rn(sum, product);
  const float added = __fsub_rn(total, sum);
  const float of_sum =
      __fadd_rn(__fsub_rn(sum, __fsub_rn(total, added)), __fsub_rn(product, added));
  lost = __fadd_rn(lost, __fadd_rn(of_sum, of_product));
  sum = total;
}

/// Adds a chunk to the sums in FP32, from global memory, with one rounding for the whole chunk. It
/// is as slow as it is rare.
template <class Tiles>
__device__ __forceinline__ void add_chunk_in_fp32(float (&sums)[Tiles::sums], const half_problem& p,
                                                  const tile_part& part,
                                                  const half_consumer<Tiles>& self,
                                                  const half_factors<Tiles>& scales, int chunk) {
  constexpr int block_sums = Tiles::sums / Tiles::column_blocks;
#pragma unroll
  for (int block = 0; block < Tiles::column_blocks; ++block) {
    float* const of_block = sums + block_sums * block;
    float lost[block_sums] = {};
#pragma unroll 1
    for (int k = chunk * Tiles::chunk; k < (chunk + 1) * Tiles::chunk; ++k) {
      const numbers_of_k<Tiles::layout_1> a(p.first, self.row_place(part), k, scales.first);
      const numbers_of_k<Tiles::layout_2> b(p.second, self.column_place(part) + 64 * block, k,
                                            scales.second[block]);
      const float a_0 = a(0), a_1 = a(8);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float x = b(8 * j + e);
          const int i = 4 * j + e;
          add_product_keeping_loss(of_block[i], lost[i], a_0, x);
          add_product_keeping_loss(of_block[i + 2], lost[i + 2], a_1, x);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < block_sums; ++i) {
      // Beside an infinity the loss is no number, and the sum is right as it is.
      if (isfinite(lost[i])) of_block[i] += lost[i];
    }
  }
}

/// Sums += the products of a chunk.
template <class Tiles>
__device__ __forceinline__ void add_chunk(float (&sums)[Tiles::sums], const half_problem& p,
                                          const ring_memory<Tiles>& memory,
                                          device::ring_position<Tiles::stages>& at,
                                          const tile_part& part, const half_consumer<Tiles>& self,
                                          const tensor_core_turns& turns, int chunk) {
  constexpr int steps = Tiles::chunk / 16;
  constexpr auto step_a = device::wgmma_half_step<Tiles::inner_first_1>;
  constexpr auto step_b = device::wgmma_half_step<Tiles::inner_first_2>;
  const bool leads_warp = threadIdx.x % 32 == 0;
  const auto tile_a = [&](int stage) {
    return device::wgmma_half_tile<Tiles::inner_first_1>(memory.first(stage) +
                                                         self.group * Tiles::box_bytes);
  };
  const auto tile_b = [&](int stage) {
    return device::wgmma_half_tile<Tiles::inner_first_2>(memory.second(stage));
  };
  const auto multiply = [](auto add, float(&to)[Tiles::sums], std::uint64_t a, std::uint64_t b) {
    device::wgmma_half<decltype(add)::value, Tiles::inner_first_1, Tiles::inner_first_2>(to, a, b);
  };
  const half_factors<Tiles> scales(p, part, self.group, chunk);
  float fresh[Tiles::sums];
  if constexpr (Tiles::x3) {
    const int low = at.stage;
    memory.full(low).wait(at.parity);
    at.advance();
    const int high = at.stage;
    memory.full(high).wait(at.parity);
    at.advance();
    const std::uint64_t a_low = tile_a(low), b_low = tile_b(low);
    const std::uint64_t a_high = tile_a(high), b_high = tile_b(high);
    turns.wait();
    device::begin_wgmma();
    multiply(std::false_type{}, fresh, a_low, b_high);
    multiply(std::true_type{}, fresh, a_high, b_low);
#pragma unroll
    for (int s = 1; s < steps; ++s) {
      multiply(std::true_type{}, fresh, a_low + s * step_a, b_high + s * step_b);
      multiply(std::true_type{}, fresh, a_high + s * step_a, b_low + s * step_b);
    }
    device::commit_wgmma();
    device::wait_for_wgmma<0>();
    turns.pass();
    if (leads_warp) memory.empty(low).arrive();
    constexpr float down = power_of_two(-split_scale::low_exponent);
#pragma unroll
    for (int i = 0; i < Tiles::sums; ++i) {  // volatile: before the products that follow
      asm volatile("mul.f32 %0, %0, %1;" : "+f"(fresh[i]) : "f"(down));
    }
    device::begin_wgmma();
#pragma unroll
    for (int s = 0; s < steps; ++s) {
      multiply(std::true_type{}, fresh, a_high + s * step_a, b_high + s * step_b);
    }
    device::commit_wgmma();
    device::wait_for_wgmma<0>();
    if (leads_warp) memory.empty(high).arrive();
  } else {
    const int high = at.stage;
    memory.full(high).wait(at.parity);
    at.advance();
    const std::uint64_t a = tile_a(high), b = tile_b(high);
    turns.wait();
    device::begin_wgmma();
    multiply(std::false_type{}, fresh, a, b);
#pragma unroll
    for (int s = 1; s < steps; ++s) {
      multiply(std::true_type{}, fresh, a + s * step_a, b + s * step_b);
    }
    device::commit_wgmma();
    turns.pass();
    device::wait_for_wgmma<0>();
    if (leads_warp) memory.empty(high).arrive();
  }
  float factors[Tiles::column_blocks];
  if (scales.multiply(factors)) {
#pragma unroll
    for (int i = 0; i < Tiles::sums; ++i) sums[i] = fmaf(fresh[i], factors[i / 32], sums[i]);
  } else {
    add_chunk_in_fp32(sums, p, part, self, scales, chunk);
  }
}

template <class Tiles>
__device__ __forceinline__ void run_half_consumer(const half_problem& p,
                                                  const ring_memory<Tiles>& memory,
                                                  half_epilogue_memory<Tiles> epilogue) {
  const half_consumer<Tiles> self;
  const tensor_core_turns turns(self.group);
  device::ring_position<Tiles::stages> at;
  tile_walk walk(p.schedule);
  tile_part part;
  while (walk.next(part)) {
    float sums[1][Tiles::sums] = {};
#pragma unroll 1
    for (int chunk = part.begin; chunk < part.end; ++chunk) {
      add_chunk<Tiles>(sums[0], p, memory, at, part, self, turns, chunk);
    }
    if (finish_sums_of_part<Tiles::consumers>(p, part, sums, self.group)) {
      store_half_tile(p, sums[0], part, self, epilogue);
    }
  }
}

template <class Tiles>
__global__ void __launch_bounds__(Tiles::launch_bound, 1)
    wgmma_half_kernel(const __grid_constant__ half_problem p,
                      const __grid_constant__ CUtensorMap first_map,
                      const __grid_constant__ CUtensorMap second_map) {
  if constexpr (device::has_wgmma) {
    extern __shared__ __align__(1024) unsigned char wgmma_shared[];
    __shared__ __align__(8) std::uint64_t barriers[ring_memory<Tiles>::barriers];
    __shared__ __align__(16) float epilogue[half_epilogue_memory<Tiles>::floats];
    const ring_memory<Tiles> memory(device::shared_address(wgmma_shared),
                                    device::shared_address(barriers));
    if (threadIdx.x == 0) memory.init_barriers();
    __syncthreads();
    if (threadIdx.x / 128 == Tiles::consumers) {
      device::release_registers<Tiles::loader_registers>();
      if (threadIdx.x % 128 == 0) run_half_loader<Tiles>(p, first_map, second_map, memory);
    } else {
      device::acquire_registers<Tiles::consumer_registers>();
      run_half_consumer<Tiles>(p, memory, {epilogue});
    }
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
