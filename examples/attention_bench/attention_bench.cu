// llmc's attention as a shared library with C names, for compare_pytorch.py.
#include <llmc/attention.cuh>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "bench_support/c_interface.hpp"

namespace {

using bench_support::precision_named;
using bench_support::text_of_error;
using forward_variant = llmc::attention_forward_variant;
using backward_variant = llmc::attention_backward_variant;

/// Plans are kept between calls, so the context must outlive them.
llmc::matmul_context& context() {
  static llmc::matmul_context instance;
  return instance;
}

/// Calls `body` with the variants of that name.
template <class Body>
void with_variant(const std::string& name, Body body) {
  using flash = std::integral_constant<forward_variant, forward_variant::flash>;
  using materialised = std::integral_constant<forward_variant, forward_variant::materialised>;
  if (name == "flash") {
    body(flash{}, std::integral_constant<backward_variant, backward_variant::flash>{});
  } else if (name == "materialised") {
    body(materialised{},
         std::integral_constant<backward_variant, backward_variant::materialised>{});
  } else {
    throw std::invalid_argument("variant must be flash or materialised, got " + name);
  }
}

}  // namespace

extern "C" {

/// Enough for both directions; 0 for what is refused, which the calls below then explain.
std::size_t attention_bench_workspace_bytes(const char* variant, const std::int64_t* shape) {
  const llmc::attention_shape s{shape[0], shape[1], shape[2], shape[3]};
  std::size_t bytes = 0;
  text_of_error([&] {
    with_variant(variant, [&](auto forward, auto backward) {
      const std::size_t a = llmc::attention_forward_workspace_bytes<forward.value>(s);
      const std::size_t b = llmc::attention_backward_workspace_bytes<backward.value>(s);
      bytes = a > b ? a : b;
    });
  });
  return bytes;
}

/// `shape` is B, T, NH, HS. Each returns null, or the text of an error.
const char* attention_bench_forward(const char* variant, const char* precision, float* out,
                                    float* lse, void* workspace, const float* qkv,
                                    const std::int64_t* shape, cudaStream_t stream) {
  return text_of_error([&] {
    with_variant(variant, [&](auto forward, auto) {
      llmc::attention_forward<forward.value>(out, lse, workspace, qkv,
                                             {shape[0], shape[1], shape[2], shape[3]},
                                             precision_named(precision), context(), stream);
    });
  });
}

const char* attention_bench_backward(const char* variant, const char* precision, float* dqkv,
                                     void* workspace, const float* dout, const float* qkv,
                                     const float* out, const float* lse, const std::int64_t* shape,
                                     cudaStream_t stream) {
  return text_of_error([&] {
    with_variant(variant, [&](auto, auto backward) {
      llmc::attention_backward<backward.value>(
          dqkv, nullptr, workspace, dout, qkv, out, lse, {shape[0], shape[1], shape[2], shape[3]},
          precision_named(precision), llmc::accumulation::overwrite, context(), stream);
    });
  });
}

}  // extern "C"
