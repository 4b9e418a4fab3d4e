#include <llmc/matmul.cuh>

#include <algorithm>

#include "registry/kernels.hpp"
#include "registry/measure/ceilings.hpp"

namespace llmc_registry {

double product_rate(const stopwatch& watch, llmc::precision arithmetic) {
  constexpr std::int64_t n = 8192;
  const llmc_test::buffer<float> out(n * n), inp(n * n), weight(n * n);
  fill_normal(inp, n * n, 1, 1.0, 0.0);
  fill_normal(weight, n * n, 2, 1.0, 0.0);
  // The precision that makes one product of such operands; an exact product on tensor cores is made
  // of several.
  const auto of_operands = [&](const llmc::precision_facts& facts) {
    return facts.operands == llmc::facts_of(arithmetic).operands && facts.products == 1;
  };
  const llmc::precision in_library =
      std::find_if(llmc::precision_table.begin(), llmc::precision_table.end(), of_operands)->value;
  llmc::matmul_context context;
  const timing t = watch.time([&](cudaStream_t stream) {
    llmc::matmul_forward<llmc::matmul_forward_variant::cublaslt>(
        out, inp, weight, nullptr, {n, n, n}, in_library, context, stream);
  });
  return 2.0 * static_cast<double>(n) * n * n / t.us / 1e6;
}

}  // namespace llmc_registry
