// llmc's products of a linear layer as a shared library with C names, for compare_pytorch.py.
#include <llmc/gelu.cuh>
#include <llmc/matmul.cuh>
#include <llmc/matmul_gelu.cuh>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "bench_support/c_interface.hpp"

namespace {

using bench_support::precision_named;
using bench_support::text_of_error;
using llmc::accumulation;
using llmc::matmul_backward_variant;
using llmc::matmul_forward_variant;
using llmc::matmul_shape;
using llmc::precision;

/// A product of a linear layer: out and its two operands.
struct arguments {
  std::string product;  // forward, dinp, dweight
  float* out;
  const float* inp1;
  const float* inp2;
  const float* bias;
  matmul_shape shape;
  precision arithmetic;
  cudaStream_t stream;
};

template <matmul_forward_variant Forward, matmul_backward_variant Backward>
void by_variant(const arguments& a, llmc::matmul_context& context) {
  if (a.product == "forward") {
    llmc::matmul_forward<Forward>(a.out, a.inp1, a.inp2, a.bias, a.shape, a.arithmetic, context,
                                  a.stream);
  } else if (a.product == "dinp") {
    llmc::matmul_backward<Backward>(a.out, nullptr, nullptr, {}, a.inp1, nullptr, a.inp2, a.shape,
                                    a.arithmetic, accumulation::overwrite, context, a.stream);
  } else if (a.product == "dweight") {
    llmc::matmul_backward<Backward>(nullptr, a.out, nullptr, {}, a.inp1, a.inp2, nullptr, a.shape,
                                    a.arithmetic, accumulation::overwrite, context, a.stream);
  } else {
    throw std::invalid_argument("product must be forward, dinp or dweight, got " + a.product);
  }
}

/// The mma.sync kernel also where the variant tensor_core would take a faster one.
void by_mma(const arguments& a, llmc::matmul_context& context) {
  const std::int64_t rows = a.shape.rows, C = a.shape.channels, OC = a.shape.out_channels;
  llmc::products::product p{};
  if (a.product == "forward") {
    p = {{a.out, OC}, {a.inp1, C}, {a.inp2, C, true}, rows, OC, C};
  } else if (a.product == "dinp") {
    p = {{a.out, C}, {a.inp1, OC}, {a.inp2, C}, rows, C, OC};
  } else {
    p = {{a.out, C}, {a.inp1, OC, true}, {a.inp2, C}, OC, C, rows};
  }
  p.then.bias = a.bias;
  p.arithmetic = a.arithmetic;
  if (a.arithmetic == precision::tf32x3) {
    llmc::detail::multiply_by_mma<precision::tf32x3>("matmul_bench", p, context, a.stream);
  } else {
    llmc::detail::multiply_by_mma<precision::tf32>("matmul_bench", p, context, a.stream);
  }
}

void by_name(const std::string& variant, const arguments& a, llmc::matmul_context& context) {
  if (variant == "automatic") {
    by_variant<matmul_forward_variant::automatic, matmul_backward_variant::automatic>(a, context);
  } else if (variant == "cublaslt") {
    by_variant<matmul_forward_variant::cublaslt, matmul_backward_variant::cublaslt>(a, context);
  } else if (variant == "tensor_core") {
    by_variant<matmul_forward_variant::tensor_core, matmul_backward_variant::tensor_core>(a,
                                                                                          context);
  } else if (variant == "mma") {
    by_mma(a, context);
  } else {
    throw std::invalid_argument("variant must be automatic, cublaslt, tensor_core or mma, got " +
                                variant);
  }
}

}  // namespace

extern "C" {

llmc::matmul_context* matmul_bench_context() {
  return new llmc::matmul_context;
}

/// `shape` is rows, C, OC; `bias` may be null. With `tune`, finds the plan first. Returns null, or
/// the text of an error.
const char* matmul_bench_product(llmc::matmul_context* context, const char* variant,
                                 const char* precision_name, const char* product, float* out,
                                 const float* inp1, const float* inp2, const float* bias,
                                 const std::int64_t* shape, cudaStream_t stream, int tune) {
  return text_of_error([&] {
    const arguments a{product,
                      out,
                      inp1,
                      inp2,
                      bias,
                      {shape[0], shape[1], shape[2]},
                      precision_named(precision_name),
                      stream};
    const auto run = [&] { by_name(variant, a, *context); };
    if (tune != 0) {
      context->tune(stream, run);
    } else {
      run();
    }
  });
}

/// A forward product with its GELU: in one launcher, or by matmul_forward, then gelu_forward.
const char* matmul_bench_gelu(llmc::matmul_context* context, const char* precision_name, int fused,
                              float* out, float* before, const float* inp, const float* weight,
                              const float* bias, const std::int64_t* shape, cudaStream_t stream,
                              int tune) {
  return text_of_error([&] {
    const matmul_shape s{shape[0], shape[1], shape[2]};
    const precision arithmetic = precision_named(precision_name);
    const auto run = [&] {
      if (fused != 0) {
        llmc::matmul_gelu_forward<llmc::matmul_forward_variant::tensor_core>(
            out, before, inp, weight, bias, s, arithmetic, *context, stream);
      } else {
        llmc::matmul_forward(before, inp, weight, bias, s, arithmetic, *context, stream);
        llmc::gelu_forward(out, before, s.rows * s.out_channels, stream);
      }
    };
    if (tune != 0) {
      context->tune(stream, run);
    } else {
      run();
    }
  });
}

/// The gradient through a product and the GELU before it, with the bias gradient of the layer
/// before that: in one launcher, or in three.
const char* matmul_bench_dgelu(llmc::matmul_context* context, const char* precision_name, int fused,
                               float* dinp, float* dinp_sums, void* workspace, const float* dout,
                               const float* gelu_inp, const float* weight,
                               const std::int64_t* shape, cudaStream_t stream, int tune) {
  return text_of_error([&] {
    const matmul_shape s{shape[0], shape[1], shape[2]};
    const precision arithmetic = precision_named(precision_name);
    const llmc::workspace scratch{workspace, std::size_t{64} << 20};  // compare_pytorch.py's
    const auto run = [&] {
      if (fused != 0) {
        llmc::gelu_matmul_backward<llmc::matmul_backward_variant::tensor_core>(
            dinp, dinp_sums, nullptr, nullptr, scratch, dout, gelu_inp, nullptr, weight, s,
            arithmetic, accumulation::overwrite, *context, stream);
      } else {
        llmc::matmul_backward(dinp, nullptr, nullptr, {}, dout, nullptr, weight, s, arithmetic,
                              accumulation::overwrite, *context, stream);
        llmc::gelu_backward(dinp, dinp, gelu_inp, s.rows * s.channels, stream);
        llmc::matmul_backward(nullptr, nullptr, dinp_sums, scratch, dinp, nullptr, nullptr,
                              {s.rows, 1, s.channels}, arithmetic, accumulation::overwrite,
                              *context, stream);
      }
    };
    if (tune != 0) {
      context->tune(stream, run);
    } else {
      run();
    }
  });
}

}  // extern "C"
