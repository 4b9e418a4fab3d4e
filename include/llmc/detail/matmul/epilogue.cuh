/// @file
/// The epilogue: what becomes of finished sums on their way out. Every kernel of llmc's own ends
/// with it. For products that are made without it, it is a pass of its own.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/column_sum.cuh>
#include <llmc/device/gelu.cuh>
#include <llmc/device/memory/pack.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Where the sums of a product go; see products::epilogue.
struct product_output {
  float* out;
  std::int64_t stride;
  const float* bias;
  float* before_gelu;
  const float* other;  ///< residual or gelu_inp
  bool other_is_gelu_inp;
  float* column_sums;
};

inline product_output output_of(const products::product& p) {
  const products::epilogue& e = p.then;
  return {p.out.data,
          p.out.stride,
          e.bias,
          e.before_gelu,
          e.gelu_inp != nullptr ? e.gelu_inp : e.residual,
          e.gelu_inp != nullptr,
          e.column_sums};
}

/// What happens to sums once the bias is added. Kernels branch on it once a tile, not once a sum:
/// unrolled code that jumps over what it does not need runs out of the instruction cache.
enum class epilogue_kind { plain, gelu, gelu_gradient, residual };

template <epilogue_kind Kind>
struct epilogue_kind_constant {
  static constexpr epilogue_kind value = Kind;
};
/// Calls `body` with the kind as an epilogue_kind_constant.
template <class Body>
__device__ __forceinline__ void with_epilogue_kind(const product_output& to, Body body) {
  if (to.before_gelu != nullptr) {
    body(epilogue_kind_constant<epilogue_kind::gelu>{});
  } else if (to.other == nullptr) {
    body(epilogue_kind_constant<epilogue_kind::plain>{});
  } else if (to.other_is_gelu_inp) {
    body(epilogue_kind_constant<epilogue_kind::gelu_gradient>{});
  } else {
    body(epilogue_kind_constant<epilogue_kind::residual>{});
  }
}

/// Loads what `finish_sums` wants of the other matrix, so that this can be done early; `at` is an
/// offset into out.
template <epilogue_kind Kind, int Width>
__device__ __forceinline__ device::pack<Width> load_other(const product_output& to,
                                                          std::int64_t at) {
  if constexpr (Kind == epilogue_kind::plain || Kind == epilogue_kind::gelu) {
    return device::pack<Width>{};
  } else {
    return device::load<Width>(to.other + at);
  }
}

/// Takes consecutive sums of a row, bias included, through the rest of the epilogue and stores
/// them. Returns the terms of column_sums.
template <epilogue_kind Kind, int Width>
__device__ __forceinline__ device::pack<Width> finish_sums(const product_output& to,
                                                           std::int64_t at, device::pack<Width> x,
                                                           device::pack<Width> other) {
  if constexpr (Kind == epilogue_kind::gelu) {
    device::store<Width>(to.before_gelu + at, x);
#pragma unroll
    for (int i = 0; i < Width; ++i) x[i] = device::gelu(x[i]);
  }
  if constexpr (Kind == epilogue_kind::gelu_gradient) {
#pragma unroll
    for (int i = 0; i < Width; ++i) x[i] *= device::gelu_derivative(other[i]);
  }
  if constexpr (Kind == epilogue_kind::residual) {
#pragma unroll
    for (int i = 0; i < Width; ++i) x[i] += other[i];
  }
  device::store<Width>(to.out + at, x);
  return x;
}

// ---- as a pass of its own ----

/// Finishes sums that lie in `from`, in one slice or in several that it adds up. It makes the terms
/// for column_sum_tile.
struct late_epilogue {
  product_output to;
  const float* from;
  std::int64_t from_stride;
  int slices = 1;
  std::int64_t slice_floats = 0;  ///< from one slice to the next

  template <int Width>
  __device__ void operator()(std::int64_t row, std::int64_t column,
                             device::pack<Width> (&values)[1]) const {
    const float* const sums = from + row * from_stride + column;
    device::pack<Width> x = device::load<Width>(sums);
    for (int slice = 1; slice < slices; ++slice) {
      const device::pack<Width> more = device::load<Width>(sums + slice * slice_floats);
#pragma unroll
      for (int i = 0; i < Width; ++i) x[i] += more[i];
    }
    if (to.bias != nullptr) {
      const device::pack<Width> bias = device::load<Width>(to.bias + column);
#pragma unroll
      for (int i = 0; i < Width; ++i) x[i] += bias[i];
    }
    const std::int64_t at = row * to.stride + column;
    with_epilogue_kind(to, [&](auto kind) {
      constexpr epilogue_kind Kind = decltype(kind)::value;
      const device::pack<Width> other = load_other<Kind, Width>(to, at);
      values[0] = finish_sums<Kind, Width>(to, at, x, other);
    });
  }
};

/// A block takes tiles of products::column_sum_rows rows.
template <int Width, int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    late_epilogue_kernel(late_epilogue epilogue, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t tile_columns = device::warp_size * Width;
  const std::int64_t tiles = (columns + tile_columns - 1) / tile_columns;
  const std::int64_t row_tiles = (rows + products::column_sum_rows - 1) / products::column_sum_rows;
  float* const sums = epilogue.to.column_sums;
  for (std::int64_t work = blockIdx.x; work < tiles * row_tiles; work += gridDim.x) {
    const std::int64_t row_tile = work / tiles;
    const std::int64_t first_row = row_tile * products::column_sum_rows;
    const std::int64_t end_row = first_row + products::column_sum_rows;
    device::column_sum_tile<Width, 1, BlockSize>(
        sums == nullptr ? nullptr : sums + row_tile * columns, first_row,
        end_row < rows ? end_row : rows, work % tiles * tile_columns, columns, epilogue);
  }
}

template <int BlockSize = 256>
void launch_late_epilogue(const char* function, const late_epilogue& epilogue, std::int64_t rows,
                          std::int64_t columns, cudaStream_t stream) {
  const product_output& to = epilogue.to;
  const bool wide =
      columns % 4 == 0 && is_16_byte_accessible(to.stride, to.out, to.bias, to.before_gelu,
                                                epilogue.from, to.other, to.column_sums);
  with_access_width(wide, [&](auto width) {
    const std::int64_t blocks =
        ceil_div(columns, device::warp_size * width()) * ceil_div(rows, products::column_sum_rows);
    launch({function, blocks, BlockSize, 0, stream}, late_epilogue_kernel<width(), BlockSize>,
           epilogue, rows, columns);
  });
}

}  // namespace detail
LLMC_NAMESPACE_END
