/// @file
/// What tests of a matmul_context run: a linear layer's product, and kernels that stand for llmc's
/// own.
#pragma once

#include <llmc/matmul_context.hpp>
#include <llmc/reference/matmul.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "compare.hpp"
#include "gpu.cuh"
#include "random.hpp"

namespace llmc_test {

namespace products = llmc::products;
using llmc::matmul_context;
using llmc::matmul_shape;
using products::candidates;
using products::engines;
using products::kernel;
using products::layout;
using products::plan;
using products::product;

// ---- kernels that stand for llmc's own ----

__device__ inline float element(const products::operand& m, std::int64_t outer, std::int64_t k) {
  return m.order == layout::inner_first ? m.data[outer * m.stride + k]
                                        : m.data[k * m.stride + outer];
}

inline constexpr int block_size = 128;

static __global__ void __launch_bounds__(block_size) naive_kernel(product p) {
  const std::int64_t first = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = first; i < p.rows * p.columns; i += step) {
    const std::int64_t row = i / p.columns, column = i % p.columns;
    float sum = p.then.bias == nullptr ? 0.0f : p.then.bias[column];
    for (std::int64_t k = 0; k < p.inner; ++k) {
      sum += element(p.inp1, row, k) * element(p.inp2, column, k);
    }
    const std::int64_t at = row * p.out.stride + column;
    p.out.data[at] = p.then.residual == nullptr ? sum : sum + p.then.residual[at];
  }
}

static __global__ void add_bias_kernel(product p) {
  for (std::int64_t i = threadIdx.x; i < p.rows * p.columns; i += blockDim.x) {
    const std::int64_t row = i / p.columns, column = i % p.columns;
    p.out.data[row * p.out.stride + column] += p.then.bias[column];
  }
}

inline int naive_calls = 0;

// These names of kernels stand for what call() does.
inline constexpr kernel naive = kernel::mma;
inline constexpr kernel slow = kernel::wgmma_split;         ///< one warp: slower than anything
inline constexpr kernel nothing = kernel::wgmma_split_cut;  ///< faster than anything
inline constexpr kernel failing = kernel::wgmma_split_large_cut;  ///< throws
inline constexpr kernel composed = kernel::late_epilogue;         ///< runs a product of its own

inline void call(const product& p, const plan& plan, matmul_context& context, cudaStream_t stream) {
  switch (plan.choice.by) {
    case kernel::cublaslt: context.run_library("test", p, plan, stream); break;
    case naive:
      ++naive_calls;
      naive_kernel<<<16, block_size, 0, stream>>>(p);
      break;
    case slow: naive_kernel<<<1, 32, 0, stream>>>(p); break;
    case failing: throw llmc::unsupported("test: the kernel that always fails");
    case composed: {
      product plain = p;
      plain.then.bias = nullptr;
      context.multiply("test", plain, stream);
      add_bias_kernel<<<1, block_size, 0, stream>>>(p);
      break;
    }
    case nothing:
    case kernel::wgmma_direct: break;
  }
}

/// These alone, of which the first is preferred.
inline candidates own_of(std::initializer_list<kernel> kernels) {
  candidates among(engines::any);
  for (const kernel who : kernels) among.add(who);
  return among;
}

/// These and cuBLASLt, which is preferred.
inline candidates all_of(std::initializer_list<kernel> kernels) {
  candidates among(engines::any);
  among.add(kernel::cublaslt);
  for (const kernel who : kernels) among.add(who);
  return among;
}

// ---- a product to run ----

/// A linear layer's arrays, and what comes out.
struct layer {
  matmul_shape shape;
  std::vector<float> inp_values, weight_values, bias_values;
  buffer<float> inp, weight, bias;
  std::vector<double> expected;

  explicit layer(matmul_shape s, int misalignment = 0)
      : shape(s),
        inp_values(random_normal(s.rows * s.channels, 1)),
        weight_values(random_normal(s.out_channels * s.channels, 2)),
        bias_values(random_normal(s.out_channels, 3)),
        inp(inp_values, misalignment),
        weight(weight_values, misalignment),
        bias(bias_values, misalignment),
        expected(static_cast<std::size_t>(outputs())) {
    const std::vector<double> x = widen(inp_values), w = widen(weight_values),
                              b = widen(bias_values);
    llmc::reference::matmul_forward(expected.data(), x.data(), w.data(), b.data(), s);
  }

  std::int64_t outputs() const { return shape.rows * shape.out_channels; }
  tolerance allowed() const { return sum_tolerance(shape.channels, 4.0); }

  product into(float* out) const {
    const std::int64_t C = shape.channels, OC = shape.out_channels;
    product p{{out, OC}, {inp, C}, {weight, C}, shape.rows, OC, C};
    p.then.bias = bias;
    return p;
  }
};

/// Runs a product as its plan says, or as `list` does where there is none.
inline void run_product(matmul_context& context, const product& p, const candidates& list,
                        cudaStream_t stream) {
  context.run("test", p, list, stream,
              [&](const product& q, const plan& planned) { call(q, planned, context, stream); });
}

/// Finds the plan and leaves the product's outputs as one call does.
inline void tune_product(matmul_context& context, const product& p, const candidates& list) {
  const stream s;
  check_cuda(cudaDeviceSynchronize());  // for what the default stream fills outputs with
  context.tune(s, [&] { run_product(context, p, list, s); });
}

/// Whether tuning or a file says that this kernel computes a product.
inline bool is_planned(const matmul_context& context, const product& p, const candidates& among,
                       kernel who) {
  const kernel* fixed = context.plans().fixed_kernel(p, among);
  return fixed != nullptr && *fixed == who;
}
inline bool is_planned(const matmul_context& context, const product& p, const candidates& among) {
  return context.plans().fixed_kernel(p, among) != nullptr;
}

}  // namespace llmc_test
