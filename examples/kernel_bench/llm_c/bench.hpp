/// @file
/// Compares what llm.c computes with what llmc does, then times llm.c as kernel_bench times llmc.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <llmc/types.hpp>

#include "bench_support/stopwatch.hpp"

namespace llm_c_bench {

/// One of llm.c's ways to do an operation of llmc, or a part of it.
struct peer_way {
  std::string operation;
  std::string name;
  std::optional<llmc::precision> arithmetic = {};
  bool is_part = false;
};

/// An array that both computed. `typical` is how large its elements are.
struct peer_output {
  const float* theirs;
  const float* ours;
  std::int64_t count;
  double typical = 1;
};

struct peer_result {
  peer_way way;
  bench_support::timing time;
  double difference;  ///< the largest |theirs - ours| / (typical + |ours|)
};

/// On the default stream, which some of llm.c's launchers use whatever stream they are given.
class peer_bench {
 public:
  using work = bench_support::stopwatch::work;

  static constexpr cudaStream_t stream = nullptr;

  explicit peer_bench(int repeats) : watch_(repeats, stream) {}

  /// `launch` runs llm.c after `prepare`; llmc's results are there already.
  void measure(
      const peer_way& way, const std::vector<peer_output>& outputs, const work& launch,
      const work& prepare = [](cudaStream_t) {});

  const std::vector<peer_result>& results() const { return results_; }

 private:
  bench_support::stopwatch watch_;
  std::vector<peer_result> results_;
};

/// Measures one operation or a few that belong together.
using measurement = void (*)(peer_bench&);

std::vector<measurement> layer_measurements();
std::vector<measurement> product_measurements();
std::vector<measurement> loss_measurements();
std::vector<measurement> optimizer_measurements();

}  // namespace llm_c_bench
