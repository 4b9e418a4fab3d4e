#include <llmc/matmul_bias.cuh>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/compare.hpp"
#include "support/gpu.cuh"
#include "support/product_case.cuh"
#include "support/random.hpp"
#include "support/refusal.hpp"
#include "support/spoilt_arguments.hpp"

using namespace llmc_test;
using llmc::accumulation;
using llmc::matmul_bias_backward_variant;
using llmc::row_shape;

TEMPLATE_TEST_CASE_SIG("matmul_bias_backward agrees with the reference", "[matmul_ladder]",
                       ((matmul_bias_backward_variant Variant, int BlockSize), Variant, BlockSize),
                       (matmul_bias_backward_variant::automatic, 256),
                       (matmul_bias_backward_variant::column_per_block, 32),
                       (matmul_bias_backward_variant::column_per_block, 1024),
                       (matmul_bias_backward_variant::warp_columns, 96),
                       (matmul_bias_backward_variant::two_stage, 128)) {
  LLMC_REQUIRE_GPU();
  constexpr bool has_scratch = Variant == matmul_bias_backward_variant::automatic ||
                               Variant == matmul_bias_backward_variant::two_stage;
  const accumulation mode = GENERATE(accumulation::overwrite, accumulation::add);
  for (const row_shape shape :
       std::vector<row_shape>{{0, 5}, {1, 1}, {31, 33}, {1025, 32}, {7, 50257}, {4099, 65}}) {
    for (const int misalignment : {0, 1}) {
      INFO("rows " << shape.rows << ", OC " << shape.channels << ", misalignment " << misalignment);
      const std::vector<float> values = random_normal(shape.rows * shape.channels, 1);
      std::vector<double> wanted(static_cast<std::size_t>(shape.channels), 0.0);
      for (std::size_t i = 0; i < values.size(); ++i) wanted[i % wanted.size()] += values[i];
      const buffer<float> dout(values, misalignment);
      const buffer<unsigned char> workspace(
          static_cast<std::int64_t>(llmc::matmul_bias_backward_workspace_bytes(shape)));
      output dbias(shape.channels, mode, misalignment);
      run({&dbias}, [&](cudaStream_t s) {
        llmc::matmul_bias_backward<Variant, BlockSize>(
            dbias, has_scratch ? scratch_in(workspace) : llmc::workspace{},
            shape.rows > 0 ? dout.get() : nullptr, shape, mode, s);
      });
      CHECK(workspace.guards_intact());
      check_close("dbias", dbias.values(), expected_gradient(wanted, mode),
                  sum_tolerance(shape.rows, 4.0));
    }
  }
}

TEST_CASE("matmul_bias_backward refuses what it cannot do", "[matmul_ladder]") {
  constexpr row_shape shape{3, 2};
  check_refusals("llmc::matmul_bias_backward", llmc::matmul_bias_backward<>, array{"dbias"},
                 needed_scratch{llmc::matmul_bias_backward_workspace_bytes(shape)}, array{"dout"},
                 shape, accumulation::add, nullptr);
  check_refused("llmc::matmul_bias_backward_workspace_bytes: channels must be at least 1, got 0",
                [] {
                  llmc::matmul_bias_backward_workspace_bytes({1, 0});
                });
}
