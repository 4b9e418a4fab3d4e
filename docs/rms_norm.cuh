// RMS normalisation (Zhang and Sennrich, 2019), a row layer over llmc/device/row/:
//
//     scale  = 1 / sqrt(sum_c inp[c]^2 / C + epsilon)
//     out[c] = inp[c] * scale * weight[c]

#include <cuda_runtime.h>

#include <cstdint>

#include <llmc/device/column_sum.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/group.cuh>
#include <llmc/device/row/row.cuh>
#include <llmc/device/row/row_in_registers.cuh>

/// What any group does with a row, wherever the row lives.
struct rms_norm {
  const float* weight;
  int channels;
  float epsilon;

  /// Returns scale, which the backward pass needs.
  template <class Group, class Row>
  __device__ float forward(const Group& group, float* out, Row& inp) const {
    float squares = 0.0f;
    inp.visit([&](auto& x, auto where) {
      for (int i = 0; i < where.width; ++i) squares += x[i] * x[i];
    });
    const float scale = 1.0f / sqrtf(group.sum(squares) / static_cast<float>(channels) + epsilon);
    inp.write(out, [&](auto& x, auto where) {
      const auto w = llmc::device::at(weight, where);
      for (int i = 0; i < where.width; ++i) x[i] *= scale * w[i];
    });
    return scale;
  }

  /// dinp = scale * (dout * weight - norm * sum_c(dout * weight * norm) / C), norm = inp * scale
  template <class Group, class Row>
  __device__ void backward(const Group& group, float* dinp, Row& dout, const float* inp,
                           float scale) const {
    float sum = 0.0f;
    dout.visit([&](auto& d, auto where) {
      const auto w = llmc::device::at(weight, where), x = llmc::device::at(inp, where);
      for (int i = 0; i < where.width; ++i) sum += d[i] * w[i] * (x[i] * scale);
    });
    const float mean = group.sum(sum) / static_cast<float>(channels);
    dout.write(dinp, [&](auto& d, auto where) {
      const auto w = llmc::device::at(weight, where), x = llmc::device::at(inp, where);
      for (int i = 0; i < where.width; ++i) d[i] = scale * (d[i] * w[i] - x[i] * scale * mean);
    });
  }
};

/// Gives each row to a warp, which keeps it in registers, or to a block, which reads it again.
template <bool ByWarps, class Work>
__device__ void for_each_rms_norm_row(std::int64_t rows, int channels, const float* from,
                                      Work work) {
  if constexpr (ByWarps) {
    using group = llmc::device::whole_warp<256>;
    group::for_each_row(rows, [&](std::int64_t row) {
      llmc::device::row_in_registers<group, 4, 32> x(channels);
      x.load(from + row * channels);
      work(group(), x, row);
    });
  } else {
    using group = llmc::device::whole_block<256>;
    __shared__ group::storage storage;
    group::for_each_row(rows, [&](std::int64_t row) {
      llmc::device::row_in_memory<group, 1> x(from + row * channels, channels);
      work(group(storage), x, row);
    });
  }
}

template <bool ByWarps>
__global__ void rms_norm_forward(float* out, float* scale, const float* inp, std::int64_t rows,
                                 rms_norm layer) {
  for_each_rms_norm_row<ByWarps>(
      rows, layer.channels, inp, [&](const auto& group, auto& x, std::int64_t row) {
        const float s = layer.forward(group, out + row * layer.channels, x);
        if (group.rank() == 0) scale[row] = s;
      });
}

template <bool ByWarps>
__global__ void rms_norm_backward(float* dinp, const float* dout, const float* inp,
                                  const float* scale, std::int64_t rows, rms_norm layer) {
  for_each_rms_norm_row<ByWarps>(
      rows, layer.channels, dout, [&](const auto& group, auto& d, std::int64_t row) {
        const std::int64_t offset = row * layer.channels;
        layer.backward(group, dinp + offset, d, inp + offset, scale[row]);
      });
}

/// dweight[c] = sum_rows dout * inp * scale; a block for each 32 columns.
template <int BlockSize>
__global__ void rms_norm_dweight(float* dweight, const float* dout, const float* inp,
                                 const float* scale, std::int64_t rows, int channels) {
  llmc::device::column_sum_tile<1, 1, BlockSize>(
      dweight, 0, rows, blockIdx.x * 32, channels,
      [&](std::int64_t row, std::int64_t c, llmc::device::pack<1>(&terms)[1]) {
        terms[0][0] = dout[row * channels + c] * (inp[row * channels + c] * scale[row]);
      });
}

/// Whether warps can keep rows that begin at these addresses in registers; they read 16 bytes at a
/// time, up to 32 numbers a lane. Launch blocks of 256 threads: as many as rows will always do.
template <class... Pointers>
bool rms_norm_by_warps(int channels, Pointers... rows) {
  return channels <= 1024 && channels % 4 == 0 &&
         ((reinterpret_cast<std::uintptr_t>(rows) % 16 == 0) && ...);
}
