/// @file
/// One attention problem with what it should give, and a run of both directions of any variants.
#pragma once

#include <llmc/attention.cuh>
#include <llmc/reference/attention.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "attention_oracle.hpp"
#include "column_sums.cuh"
#include "compare.hpp"
#include "gpu.cuh"
#include "random.hpp"

namespace llmc_test {

struct attention_case {
  llmc::attention_shape shape;
  std::vector<float> qkv, dout;
  std::vector<double> out, lse, dqkv;

  /// Normal numbers, the queries multiplied by `query_scale`: large ones make the softmax peaked.
  explicit attention_case(llmc::attention_shape s, float query_scale = 1.0f) : shape(s) {
    const std::int64_t channels = s.heads * s.head_size;
    const std::int64_t positions = s.batch * s.sequence;
    qkv = random_normal(3 * positions * channels, 1);
    for (std::int64_t i = 0; i < 3 * positions * channels; ++i) {
      if (i / channels % 3 == 0) qkv[static_cast<std::size_t>(i)] *= query_scale;
    }
    dout = random_normal(positions * channels, 2);
    compute();
  }

  attention_case(llmc::attention_shape s, std::vector<float> all_qkv, std::vector<float> all_dout)
      : shape(s), qkv(std::move(all_qkv)), dout(std::move(all_dout)) {
    compute();
  }

  /// The closed form, without the reference.
  explicit attention_case(const attention_oracle& o)
      : shape(o.shape), qkv(o.qkv), dout(o.dout), out(o.out), lse(o.lse), dqkv(o.dqkv) {}

 private:
  void compute() {
    out.resize(dout.size());
    lse.resize(static_cast<std::size_t>(shape.batch * shape.heads * shape.sequence));
    dqkv.resize(qkv.size());
    const std::vector<double> inp = widen(qkv), d = widen(dout);
    llmc::reference::attention_forward(out.data(), lse.data(), inp.data(), shape);
    llmc::reference::attention_backward(dqkv.data(), static_cast<double*>(nullptr), d.data(),
                                        inp.data(), out.data(), lse.data(), shape,
                                        llmc::accumulation::overwrite);
  }
};

inline double largest_of(const std::vector<double>& values) {
  double largest = 1;
  for (const double v : values) largest = std::max(largest, std::fabs(v));
  return largest;
}

/// What a variant gave.
struct attention_result {
  std::vector<float> out, lse, dqkv;
};

/// Scratch of exactly that many bytes.
class scratch_buffer {
 public:
  explicit scratch_buffer(std::size_t bytes) : memory_(static_cast<std::int64_t>(bytes)) {}
  operator llmc::workspace() const { return {memory_.get(), memory_.size()}; }
  bool guards_intact() const { return memory_.guards_intact(); }

 private:
  buffer<unsigned char> memory_;
};

/// Runs both directions as `run` does: twice and from a graph, with equal bits, inside the guards.
/// Where a matmul_context is given, the launchers that take one are called.
template <llmc::attention_forward_variant Forward, llmc::attention_backward_variant Backward,
          int ForwardBlock = llmc::attention_forward_block_size<Forward>,
          int BackwardBlock = llmc::attention_backward_block_size<Backward>, class... Context>
attention_result run_attention(const attention_case& c, llmc::precision arithmetic,
                               int misalignment, Context&... context) {
  const buffer<float> qkv(c.qkv, misalignment), dout(c.dout, misalignment);
  const scratch_buffer forward_scratch(llmc::attention_forward_workspace_bytes<Forward>(c.shape));
  const scratch_buffer backward_scratch(
      llmc::attention_backward_workspace_bytes<Backward>(c.shape));
  output out(static_cast<std::int64_t>(c.out.size()), misalignment);
  output lse(static_cast<std::int64_t>(c.lse.size()), misalignment);
  output dqkv(static_cast<std::int64_t>(c.dqkv.size()), misalignment);
  run({&out, &lse}, [&](cudaStream_t s) {
    if constexpr (sizeof...(context) > 0) {
      llmc::attention_forward<Forward, ForwardBlock>(out, lse, forward_scratch, qkv, c.shape,
                                                     arithmetic, context..., s);
    } else {
      llmc::attention_forward<Forward, ForwardBlock>(out, lse, qkv, c.shape, arithmetic, s);
    }
  });
  const llmc::accumulation mode =
      misalignment == 0 ? llmc::accumulation::overwrite : llmc::accumulation::add;
  output dqkv_bias(3 * c.shape.heads * c.shape.head_size, mode, misalignment);
  run({&dqkv, &dqkv_bias}, [&](cudaStream_t s) {
    llmc::attention_backward<Backward, BackwardBlock>(dqkv, dqkv_bias, backward_scratch, dout, qkv,
                                                      out, lse, c.shape, arithmetic, mode,
                                                      context..., s);
  });
  check_column_sums("dqkv_bias", dqkv_bias.values(), dqkv.values(), mode);
  CHECK(forward_scratch.guards_intact());
  CHECK(backward_scratch.guards_intact());
  return {out.values(), lse.values(), dqkv.values()};
}

}  // namespace llmc_test
