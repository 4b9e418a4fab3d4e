/// @file
/// GPT-2 124M's shapes with 8192 rows, and arrays on the GPU. Shapes and contents are those of
/// examples/registry; where something differs, it is said there.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <llmc/types.hpp>

#include "registry/flat.hpp"
#include "registry/kernels.hpp"
#include "registry/rows.hpp"
#include "support/device_memory.hpp"

namespace llm_c_bench {

using llmc_test::check_cuda;

using floats = llmc_test::buffer<float>;
using bytes = llmc_test::buffer<unsigned char>;
using integers = llmc_test::buffer<std::int32_t>;

inline constexpr int batch = 8, sequence = 1024, heads = 12, head_size = 64;
inline constexpr int rows{llmc_registry::gpt2_rows}, channels{llmc_registry::gpt2_channels};
inline constexpr int vocabulary{llmc_registry::gpt2_vocabulary};
inline constexpr int padded_vocabulary{llmc_registry::gpt2_padded_vocabulary};
inline constexpr int hidden = 4 * channels;
static_assert(rows == batch * sequence && channels == heads * head_size);

inline constexpr std::int64_t activations = std::int64_t{rows} * channels;
inline constexpr std::int64_t hidden_activations = std::int64_t{rows} * hidden;
inline constexpr std::int64_t logits_count = std::int64_t{rows} * padded_vocabulary;
inline constexpr int matrices = batch * heads;
inline constexpr std::int64_t scores = std::int64_t{matrices} * sequence * sequence;

inline constexpr llmc::row_shape row_shape{rows, channels};
inline constexpr llmc::matmul_shape linear_shape{rows, channels, hidden};
inline constexpr llmc::attention_shape head_shape{batch, sequence, heads, head_size};

inline std::int64_t parameter_count() {
  return llmc_registry::flat_parameters().front().value;
}

inline constexpr std::int64_t most_blocks = 1024;  // of a kernel that leaves a sum for each block

/// Normal numbers, others in every array.
class normal_floats : public floats {
 public:
  explicit normal_floats(std::int64_t count, double deviation = 1, double mean = 0)
      : floats(count) {
    static std::uint64_t seed = 0;
    llmc_registry::fill_normal(get(), count, ++seed, deviation, mean);
  }
};

inline bytes make_workspace(std::size_t size) {
  return bytes(static_cast<std::int64_t>(size));
}

inline void copy(float* to, const floats& from, cudaStream_t stream) {
  check_cuda(cudaMemcpyAsync(to, from.get(), from.size() * sizeof(float), cudaMemcpyDeviceToDevice,
                             stream));
}

inline void clear(const floats& array, cudaStream_t stream) {
  check_cuda(cudaMemsetAsync(array.get(), 0, array.size() * sizeof(float), stream));
}

/// How large sums of that many normal numbers are.
inline double typical_sum(int terms) {
  return std::sqrt(static_cast<double>(terms));
}

}  // namespace llm_c_bench
