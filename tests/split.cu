// Splitting matrices into halves: the same bits as the CPU, and what a block holds.
#include <llmc/reference/split_matrix.hpp>
#include <llmc/split.cuh>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/compare.hpp"
#include "support/gpu.cuh"
#include "support/refusal.hpp"
#include "support/split_case.hpp"
#include "support/spoilt_arguments.hpp"

using namespace llmc_test;
using llmc::row_shape;
using llmc::split_matrix;
using llmc::split_variant;

namespace {

/// Splits on the GPU and checks every byte.
template <split_variant Variant>
void check_split(row_shape shape, const std::vector<float>& values, int misalignment) {
  const host_halves wanted(shape, values);
  const buffer<float> inp(values, misalignment);
  output out(static_cast<std::int64_t>(wanted.words().size()));
  output count(2);  // a 64-bit counter
  run({&out, &count}, [&](cudaStream_t s) {
    float* const halves = out;
    auto* const kept = reinterpret_cast<std::uint64_t*>(static_cast<float*>(count));
    check_cuda(cudaMemsetAsync(kept, 0, sizeof *kept, s));
    llmc::split<Variant>({halves, shape}, inp, kept, s);
  });
  const std::vector<float> got = out.values();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, &got[i], sizeof bits);
    if (bits != wanted.words()[i] && wrong++ < 3) {
      UNSCOPED_INFO("word " << i << ": got " << std::hex << bits << ", wanted "
                            << wanted.words()[i]);
    }
  }
  CHECK(wrong == 0);
  std::uint64_t kept = 0;
  std::memcpy(&kept, count.values().data(), sizeof kept);
  CHECK(kept == static_cast<std::uint64_t>(wanted.kept_whole()));
}

}  // namespace

TEMPLATE_TEST_CASE_SIG("split gives the bits of the CPU reference", "[split]",
                       ((split_variant Variant), Variant), (split_variant::automatic),
                       (split_variant::single_loads), (split_variant::packed_loads)) {
  LLMC_REQUIRE_GPU();
  for (const std::int64_t rows : {1, 3, 63, 64, 65, 130}) {
    for (const std::int64_t channels : {1, 4, 33, 64, 68, 127, 192}) {
      for (const split_data& data : split_data_sets(rows, channels)) {
        for (const int misalignment : {0, 1}) {
          INFO(data.name << ", " << rows << " x " << channels << ", misalignment " << misalignment);
          check_split<Variant>({rows, channels}, data.values, misalignment);
        }
      }
    }
  }
}

TEST_CASE("split over nothing does nothing and refuses nothing", "[split]") {
  llmc::split({nullptr, {0, 5}}, nullptr, nullptr, nullptr);
}

TEST_CASE("split passes 2^31 elements", "[split][large]") {
  LLMC_REQUIRE_GPU();
  constexpr std::int64_t side = llmc::split_layout::side;
  const row_shape shape{32808, 65536};  // the last blocks have 40 rows
  const std::int64_t count = shape.rows * shape.channels;
  LLMC_REQUIRE_GPU_BYTES(static_cast<std::size_t>(count) * sizeof(float) +
                         llmc::split_matrix_bytes(shape));
  const buffer<float> inp(count);
  const buffer<unsigned char> out(static_cast<std::int64_t>(llmc::split_matrix_bytes(shape)));
  check_cuda(cudaMemset(inp, 0, static_cast<std::size_t>(count) * sizeof(float)));
  // The last block of the matrix, which a matrix of this one block must equal.
  const row_shape last{shape.rows % side, side};
  const std::vector<float> values = random_normal(last.rows * last.channels, 1);
  const host_halves wanted(last, values);
  const std::size_t row_bytes = static_cast<std::size_t>(shape.channels) * sizeof(float);
  check_cuda(cudaMemcpy2D(inp + (count - (last.rows - 1) * shape.channels - side), row_bytes,
                          values.data(), side * sizeof(float), side * sizeof(float),
                          static_cast<std::size_t>(last.rows), cudaMemcpyHostToDevice));
  check_cuda(cudaDeviceSynchronize());
  const stream s;
  unsigned char* const bytes = out;
  llmc::split({bytes, shape}, inp, nullptr, s);
  s.synchronize();

  const llmc::split_layout layout(shape);
  const std::size_t line = static_cast<std::size_t>(layout.padded_channels()) * 2;
  const std::int64_t first = layout.plane() - (side - 1) * layout.padded_channels() - side;
  std::vector<std::uint32_t> got(wanted.words().size());
  for (const std::int64_t plane : {0, 1}) {
    check_cuda(cudaMemcpy2D(got.data() + plane * side * side / 2, side * 2,
                            bytes + 2 * (plane * layout.plane() + first), line, side * 2, side,
                            cudaMemcpyDeviceToHost));
  }
  check_cuda(cudaMemcpy(&got.back(), bytes + llmc::split_matrix_bytes(shape) - sizeof(float),
                        sizeof(float), cudaMemcpyDeviceToHost));
  const bool same = got == wanted.words();
  CHECK(same);
}

TEST_CASE("split refuses what it cannot do", "[split]") {
  check_refusals("llmc::split", llmc::split<>, halves{"out", {2, 3}}, array{"inp"},
                 optional_array{}, nullptr);
  alignas(16) float x[4] = {};
  check_refused("llmc::split: channels must be at least 1, got 0", [&] {
    llmc::split({x, {1, 0}}, x, nullptr, nullptr);
  });
}
