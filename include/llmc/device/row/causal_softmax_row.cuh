/// @file
/// The softmax of a query's scores, of which it sees the first `visible`, and its gradient, for
/// kernels of your own. Rows are `keys` long; what belongs to keys that are not visible takes no
/// part, whatever it holds, and their results are 0.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/kept_rows.cuh>
#include <llmc/device/row/reduce.cuh>
#include <llmc/device/row/row_softmax.cuh>
#include <llmc/device/row/row_workers.cuh>

LLMC_NAMESPACE_BEGIN
namespace device {

/// out = softmax(scale * inp) in three passes: maximum, sum, result. Returns
/// log sum exp(scale * inp). `out` may be `inp`.
///
/// A worker without keys holds the maximum -infinity, which must not meet itself in
/// exp(-infinity + infinity): it has no exponentials to take.
template <class Workers>
__device__ float causal_softmax_row(const Workers& workers, float* out, const float* inp,
                                    float scale, std::int64_t visible, std::int64_t keys) {
  const int step = workers.count();
  float largest = minus_infinity();
  for (std::int64_t j = workers.rank(); j < visible; j += step) {
    largest = fmaxf(largest, scale * inp[j]);
  }
  largest = workers.max(largest);

  float sum = 0.0f;
  for (std::int64_t j = workers.rank(); j < visible; j += step) {
    sum += expf(scale * inp[j] - largest);
  }
  sum = workers.sum(sum);

  const float factor = 1.0f / sum;
  for (std::int64_t j = workers.rank(); j < keys; j += step) {
    out[j] = j < visible ? expf(scale * inp[j] - largest) * factor : 0.0f;
  }
  return largest + logf(sum);
}

/// The statistics of all workers from those of each.
template <class Workers>
__device__ softmax_statistics combined_statistics(const Workers& workers,
                                                  softmax_statistics statistics) {
  const float max = workers.max(statistics.max);
  return {max, workers.sum(statistics.sum * expf(statistics.max - softmax_shift(max)))};
}

/// The same in two passes: maximum and sum together, the sum rescaled when the maximum grows.
template <class Workers>
__device__ void causal_softmax_row_online(const Workers& workers, float* out, const float* inp,
                                          float scale, std::int64_t visible, std::int64_t keys) {
  const int step = workers.count();
  softmax_statistics statistics{minus_infinity(), 0.0f};
  for (std::int64_t j = workers.rank(); j < visible; j += step) {
    const pack<1> score[1] = {{{scale * inp[j]}}};
    softmax_add(statistics, score);
  }
  statistics = combined_statistics(workers, statistics);

  const float factor = 1.0f / statistics.sum;
  for (std::int64_t j = workers.rank(); j < keys; j += step) {
    out[j] = j < visible ? expf(scale * inp[j] - statistics.max) * factor : 0.0f;
  }
}

/// dinp = scale * out * (dout - sum_j dout[j] * out[j]). `dinp` may be `dout`.
template <class Workers>
__device__ void causal_softmax_backward_row(const Workers& workers, float* dinp, const float* dout,
                                            const float* out, float scale, std::int64_t visible,
                                            std::int64_t keys) {
  const int step = workers.count();
  float sum = 0.0f;
  for (std::int64_t j = workers.rank(); j < visible; j += step) sum += dout[j] * out[j];
  const float mean = workers.sum(sum);
  for (std::int64_t j = workers.rank(); j < keys; j += step) {
    dinp[j] = j < visible ? scale * (out[j] * (dout[j] - mean)) : 0.0f;
  }
}

// ---- by a warp that keeps what it has read ----

/// Packs of a row that a lane keeps: rows of up to 1024 numbers are read once, or 512 where they
/// are read a float at a time.
template <int Width>
inline constexpr int kept_packs = Width == 1 ? 16 : 8;

/// 0 for the packs that begin at `visible` or later, by a warp.
template <int Width>
__device__ __forceinline__ void clear_invisible(float* row, std::int64_t visible,
                                                std::int64_t keys) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const std::int64_t first = (visible + Width - 1) / Width + lane;
  for (std::int64_t c = first * Width; c < keys; c += warp_size * Width) {
    store<Width>(row + c, {});
  }
}

/// causal_softmax_row_online by a warp that reads a row once. `keys` must be a multiple of Width,
/// and the rows aligned to a pack.
template <int Width>
__device__ void causal_softmax_row_kept(float* out, const float* inp, float scale,
                                        std::int64_t visible, std::int64_t keys) {
  kept_rows<Width, 1, kept_packs<Width>> row({inp}, visible);
  softmax_statistics statistics{minus_infinity(), 0.0f};
  row.visit([&](const pack<Width>(&x)[1], std::int64_t, int valid) {
    pack<Width> scores[1];
#pragma unroll
    for (int i = 0; i < Width; ++i) {
      scores[0][i] = i < valid ? scale * x[0][i] : minus_infinity();
    }
    softmax_add(statistics, scores);
  });
  statistics = combined_statistics(whole_warp(), statistics);

  const float factor = 1.0f / statistics.sum;
  row.visit([&](const pack<Width>(&x)[1], std::int64_t c, int valid) {
    pack<Width> p;
#pragma unroll
    for (int i = 0; i < Width; ++i) {
      p[i] = i < valid ? expf(scale * x[0][i] - statistics.max) * factor : 0.0f;
    }
    store<Width>(out + c, p);
  });
  clear_invisible<Width>(out, visible, keys);
}

/// causal_softmax_backward_row by a warp that reads both rows once; the same conditions.
template <int Width>
__device__ void causal_softmax_backward_row_kept(float* dinp, const float* dout, const float* out,
                                                 float scale, std::int64_t visible,
                                                 std::int64_t keys) {
  kept_rows<Width, 2, kept_packs<Width>> rows({dout, out}, visible);
  float sum = 0.0f;
  rows.visit([&](const pack<Width>(&x)[2], std::int64_t, int valid) {
#pragma unroll
    for (int i = 0; i < Width; ++i) {
      if (i < valid) sum += x[0][i] * x[1][i];
    }
  });
  const float mean = warp_sum(sum);
  rows.visit([&](const pack<Width>(&x)[2], std::int64_t c, int valid) {
    pack<Width> d;
#pragma unroll
    for (int i = 0; i < Width; ++i) {
      d[i] = i < valid ? scale * (x[1][i] * (x[0][i] - mean)) : 0.0f;
    }
    store<Width>(dinp + c, d);
  });
  clear_invisible<Width>(dinp, visible, keys);
}

}  // namespace device
LLMC_NAMESPACE_END
