/// @file
/// Who computes a product: cuBLASLt, the wgmma kernels (Hopper), or the mma.sync kernel (sm_80 on).
/// The lists here are the only place that knows; the context picks from them, see
/// matmul_context.hpp.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/gelu_forward.cuh>
#include <llmc/detail/matmul/late_epilogue.cuh>
#include <llmc/detail/matmul/mma_product.cuh>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/matmul/wgmma_product.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/matmul_context.hpp>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

template <products::engines Allowed>
void multiply(const char* function, const products::product& p, products::engines_constant<Allowed>,
              matmul_context& context, cudaStream_t stream);

/// Whether all that follows the product and its bias is a GELU, of one row after the other.
inline bool ends_in_gelu(const products::product& p) {
  return p.then.before_gelu != nullptr && p.then.column_sums == nullptr &&
         p.then.residual == nullptr && p.batch == 1 && p.out.stride == p.columns;
}

/// The product with its bias and residual, which cuBLASLt can add, too, by whoever does that best;
/// then the rest of the epilogue. What the pass reads of `out` is then the whole of the sum, also
/// where the residual lay there.
template <products::engines Allowed>
void multiply_then_finish(const char* function, const products::product& p, matmul_context& context,
                          cudaStream_t stream) {
  products::product plain = p;
  plain.then = {};
  plain.then.bias = p.then.bias;
  plain.then.residual = p.then.residual;
  if (ends_in_gelu(p)) {  // made where it is kept, it need not be copied there
    plain.out.data = p.then.before_gelu;
    multiply(function, plain, products::engines_constant<Allowed>{}, context, stream);
    constexpr int block_size = 256;
    constexpr int packs = 4;
    launch_gelu_forward<block_size, packs>(
        function, p.out.data, p.then.before_gelu, p.rows * p.columns,
        is_16_byte_aligned(p.out.data, p.then.before_gelu), stream);
    return;
  }
  late_epilogue rest{output_of(p), p.out.data, p.out.stride};
  rest.to.bias = nullptr;
  if (p.then.residual != nullptr) rest.to.other = nullptr;
  multiply(function, plain, products::engines_constant<Allowed>{}, context, stream);
  launch_late_epilogue(function, rest, p.rows, p.columns, stream);
}

/// Whether cuBLASLt does the whole of it.
inline bool library_does(const products::epilogue& e) {
  return e.before_gelu == nullptr && e.gelu_inp == nullptr && e.column_sums == nullptr;
}

/// Candidates being collected, and why some are not there.
class candidate_list {
 public:
  /// Adds a kernel of llmc's own. The first one added is preferred, if `prefer`.
  template <void (*Launch)(const char*, const products::product&, matmul_context&, cudaStream_t)>
  void add(const char* name, bool prefer = true) {
    if (prefer && list_.preferred < 0) list_.preferred = list_.count;
    list_.kernels[static_cast<std::size_t>(list_.count++)] = {name, Launch};
  }
  /// Why the preferred one is not another; the first reason given counts.
  void explain(const char* reason) {
    if (reason_ == nullptr) reason_ = reason;
  }

  products::candidates& list() { return list_; }
  const products::candidates& list() const { return list_; }
  const char* reason() const { return reason_; }

 private:
  products::candidates list_;
  const char* reason_ = nullptr;
};

// ---- the wgmma kernels ----

/// Whether cutting the last tiles pays: unless they nearly fill their last round.
inline bool should_cut_tiles(const products::product& p, int tile_rows, int tile_columns,
                             int multiprocessors) {
  constexpr double nearly_full = 0.97;
  const std::int64_t tiles = ceil_div(p.rows, tile_rows) * ceil_div(p.columns, tile_columns);
  const std::int64_t rounds = ceil_div(tiles, multiprocessors);
  return static_cast<double>(tiles) < nearly_full * static_cast<double>(rounds * multiprocessors);
}

template <class Tiles>
bool split_kernel_is_there(matmul_context& context) {
  return context.has_kernel(reinterpret_cast<const void*>(&wgmma_split_kernel<Tiles>),
                            Tiles::threads);
}
template <class Tiles>
bool direct_kernel_is_there(matmul_context& context) {
  return context.has_kernel(reinterpret_cast<const void*>(&wgmma_direct_kernel<Tiles>),
                            Tiles::threads);
}

template <class Tiles>
void add_split_kernels(candidate_list& to, const products::product& p, matmul_context& context,
                       const char* cut_name, const char* whole_name) {
  const bool cut = should_cut_tiles(p, Tiles::rows, Tiles::columns, context.multiprocessors());
  to.add<multiply_by_wgmma_split<Tiles, true>>(cut_name, cut);
  to.add<multiply_by_wgmma_split<Tiles, false>>(whole_name);
}

template <bool InnerFirst1, bool InnerFirst2>
void add_exact_wgmma(candidate_list& to, const products::product& p, matmul_context& context) {
  using tiles = split_tiles<precision::tf32x3, InnerFirst1, InnerFirst2, 1>;
  if (!split_kernel_is_there<tiles>(context)) {
    to.explain("this build or card has no wgmma");
    return;
  }
  add_split_kernels<tiles>(to, p, context, "wgmma split 128x128 cut", "wgmma split 128x128");
}

/// TF32: forward and the input's gradient by the direct kernel, the weight's by the splitting one.
template <bool InnerFirst1, bool InnerFirst2>
void add_tf32_wgmma(candidate_list& to, const products::product& p, bool prefer_forward,
                    matmul_context& context) {
  if constexpr (InnerFirst1) {
    using tiles = direct_tiles<!InnerFirst2>;
    if (!direct_kernel_is_there<tiles>(context)) {
      to.explain("this build or card has no wgmma");
    } else if (!tiles::swapped && p.then.column_sums != nullptr) {
      to.explain("the kernel makes no sums of columns in this layout");
    } else {
      to.add<multiply_by_wgmma_direct<tiles::swapped>>("wgmma direct 128x256",
                                                       tiles::swapped || prefer_forward);
    }
  } else {
    using large = split_tiles<precision::tf32, false, false, 2>;
    using small = split_tiles<precision::tf32, false, false, 1>;
    if (!split_kernel_is_there<large>(context)) {
      to.explain("this build or card has no wgmma");
      return;
    }
    const bool few = ceil_div(p.rows, large::rows) * ceil_div(p.columns, large::columns) <
                     context.multiprocessors() / 4;
    if (p.then.column_sums == nullptr) {
      to.add<multiply_by_wgmma_split<large, true>>("wgmma split 256x128 cut", !few);
    }
    to.add<multiply_by_wgmma_split<small, true>>("wgmma split 128x128 cut");
  }
}

template <products::engines Allowed>
void add_wgmma(candidate_list& to, const products::product& p, matmul_context& context) {
  if (const char* reason = why_not_wgmma(p)) {
    to.explain(reason);
    return;
  }
  with_layout(p, [&](auto inner_first_1, auto inner_first_2) {
    constexpr bool first = decltype(inner_first_1)::value;
    constexpr bool second = decltype(inner_first_2)::value;
    if (p.arithmetic == precision::tf32x3) {
      add_exact_wgmma<first, second>(to, p, context);
    } else {
      const bool prefer_forward = Allowed == products::engines::own || !library_does(p.then);
      add_tf32_wgmma<first, second>(to, p, prefer_forward, context);
    }
  });
}

// ---- all of them ----

/// Adds llmc's own kernels. False if none can do this product.
template <products::engines Allowed>
bool add_own(candidate_list& to, const products::product& p, matmul_context& context) {
  if constexpr (Allowed == products::engines::library) {
    return false;
  } else {
    if (p.arithmetic == precision::ieee || p.batch != 1 || p.factor != 1.0f ||
        (p.inp1.transposed && p.inp2.transposed) ||
        !mma_product_is_there<precision::tf32>(p, context)) {
      return false;
    }
    add_wgmma<Allowed>(to, p, context);
    const bool exact = p.arithmetic == precision::tf32x3;
    const bool prefer = exact || Allowed == products::engines::own;
    if (exact) {
      to.add<multiply_by_mma<precision::tf32x3>>("mma", prefer);
    } else {
      to.add<multiply_by_mma<precision::tf32>>("mma", prefer);
    }
    return true;
  }
}

/// Every kernel that can do this product on this device. What is preferred is a fixed rule of
/// shape, layout and card, so that every process gets the same bits:
///
///  - tf32x3: our own kernels;
///  - tf32: our own for gradients on Hopper, cuBLASLt otherwise, whose forward product is fastest;
///  - ieee, and where there are no TF32 tensor cores: cuBLASLt.
template <products::engines Allowed>
candidate_list list_candidates(const products::product& p, matmul_context& context) {
  using products::engines;
  candidate_list result;
  products::candidates& list = result.list();
  const bool own = add_own<Allowed>(result, p, context);
  const bool exact_own = own && p.arithmetic == precision::tf32x3;
  const bool may_use_library = !own || (Allowed != engines::own && !exact_own);
  list.library = may_use_library && library_does(p.then);
  if (!library_does(p.then)) {
    constexpr engines rest = Allowed == engines::library ? engines::library : engines::any;
    result.add<multiply_then_finish<rest>>("product, then epilogue");
  }
  if (p.arithmetic == precision::ieee) {
    result.explain("only cuBLASLt has ieee arithmetic");
  } else if (Allowed == engines::library) {
    result.explain("it was asked for");
  } else if (!own) {
    result.explain("this build or card has no TF32 tensor cores, or the product is one of a batch");
  } else if (list.preferred < 0) {
    result.explain("cuBLASLt is the fastest for this layout unless tuning shows otherwise");
  } else {
    result.explain("it is the fastest kernel for this layout and alignment");
  }
  return result;
}

/// A product and its epilogue, by whom the context's plan says.
template <products::engines Allowed>
void multiply(const char* function, const products::product& p, products::engines_constant<Allowed>,
              matmul_context& context, cudaStream_t stream) {
  context.run(
      function, p, Allowed, [&] { return list_candidates<Allowed>(p, context).list(); }, stream);
}

}  // namespace detail
LLMC_NAMESPACE_END
