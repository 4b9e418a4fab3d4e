/// @file
/// Who computes a product: cuBLASLt, the wgmma kernels (Hopper), or the mma.sync kernel (sm_80 on).
/// This file alone knows which kernels can compute a product, which one does unless tuned, and how
/// a kernel is called by its name.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/gelu_forward.cuh>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/matmul/epilogue.cuh>
#include <llmc/detail/matmul/kernels.hpp>
#include <llmc/detail/matmul/mma/launch.cuh>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/matmul/wgmma/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/matmul_context.hpp>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

// ---- which can, and which does ----

/// Whether cutting the last tiles pays: unless they nearly fill their last round.
inline bool should_cut_tiles(const products::product& p, int tile_rows, int tile_columns,
                             int multiprocessors) {
  constexpr double nearly_full = 0.97;
  const std::int64_t tiles = ceil_div(p.rows, tile_rows) * ceil_div(p.columns, tile_columns);
  const std::int64_t rounds = ceil_div(tiles, multiprocessors);
  return static_cast<double>(tiles) < nearly_full * static_cast<double>(rounds * multiprocessors);
}

/// Adds the wgmma kernels for exact precisions.
template <precision Arithmetic, products::layout First, products::layout Second>
void add_exact_wgmma(products::candidates& to, const products::product& p,
                     const products::resources& on) {
  using tiles = split_tiles<Arithmetic, First, Second, 1>;
  if (!wgmma_split_is_there<tiles>(on.device())) {
    to.explain("this build or card has no wgmma");
    return;
  }
  const bool cut = should_cut_tiles(p, tiles::rows, tiles::columns, on.multiprocessors());
  to.add(products::kernel::wgmma_split_cut, cut);
  to.add(products::kernel::wgmma_split);
}

/// Adds the wgmma kernels for the other precisions: the direct kernel for forward and the input's
/// gradient, the splitting one for the weight's.
template <precision Arithmetic, products::layout First, products::layout Second>
void add_rounded_wgmma(products::candidates& to, const products::product& p, bool prefer_forward,
                       const products::resources& on) {
  if constexpr (First == products::layout::inner_first) {
    using tiles = direct_tiles<Second>;
    if (!wgmma_direct_is_there<tiles>(on.device())) {
      to.explain("this build or card has no wgmma");
    } else if (!tiles::swapped && p.then.column_sums != nullptr) {
      to.explain("the kernel makes no sums of columns in this layout");
    } else {
      to.add(products::kernel::wgmma_direct, tiles::swapped || prefer_forward);
    }
  } else {
    using large = split_tiles<Arithmetic, First, Second, 2>;
    if (!wgmma_split_is_there<large>(on.device())) {
      to.explain("this build or card has no wgmma");
      return;
    }
    const bool few = ceil_div(p.rows, large::rows) * ceil_div(p.columns, large::columns) <
                     on.multiprocessors() / 4;
    if (p.then.column_sums == nullptr) to.add(products::kernel::wgmma_split_large_cut, !few);
    to.add(products::kernel::wgmma_split_cut);
  }
}

/// Whether cuBLASLt does the whole of an epilogue.
inline bool library_does(const products::epilogue& e) {
  return e.before_gelu == nullptr && e.gelu_inp == nullptr && e.column_sums == nullptr;
}

/// Adds llmc's own kernels. False if none can do this product.
template <products::engines Allowed, precision Arithmetic>
bool add_own(products::candidates& to, const products::product& p, const products::resources& on) {
  constexpr bool exact = facts_of(Arithmetic).is_exact();
  constexpr bool prefer = exact || Allowed == products::engines::own;
  if (p.batch != 1 || p.factor != 1.0f || products::has_odd_layouts(p)) return false;
  bool found = false;
  products::with_layouts(p, [&](auto order_1, auto order_2) {
    constexpr auto first = decltype(order_1)::value, second = decltype(order_2)::value;
    found = mma_is_there<mma_tiles<Arithmetic, first, second>>(on.device());
    if (!found) return;
    if (const char* reason = why_not_wgmma(p)) {
      to.explain(reason);
    } else if constexpr (exact) {
      add_exact_wgmma<Arithmetic, first, second>(to, p, on);
    } else {
      add_rounded_wgmma<Arithmetic, first, second>(to, p, prefer || !library_does(p.then), on);
    }
    to.add(products::kernel::mma, prefer);
  });
  return found;
}

/// The kernels that can do this product on this device. A fixed rule of shape, layout and card says
/// which is preferred, so that every process gets the same bits:
///
///  - tf32x3: our own kernels;
///  - tf32: our own for gradients on Hopper; otherwise cuBLASLt, whose forward product is the
///    fastest;
///  - ieee, and where there are no TF32 tensor cores: cuBLASLt.
template <products::engines Allowed>
products::candidates candidates_for(const char* function, const products::product& p,
                                    const products::resources& on) {
  on.require_current_device(function);
  products::candidates result(Allowed);
  bool own = false;
  if constexpr (Allowed != products::engines::library) {
    with_precision(p.arithmetic, [&](auto arithmetic) {
      constexpr precision Arithmetic = decltype(arithmetic)::value;
      if constexpr (facts_of(Arithmetic).on_tensor_cores()) {
        own = add_own<Allowed, Arithmetic>(result, p, on);
      }
    });
  }
  const bool is_exact = facts_of(p.arithmetic).is_exact();
  const bool is_own_only = own && (Allowed == products::engines::own || is_exact);
  if (!library_does(p.then)) {
    result.add(products::kernel::late_epilogue);
  } else if (!is_own_only) {
    result.add(products::kernel::cublaslt);
  }
  if (!facts_of(p.arithmetic).on_tensor_cores()) {
    result.explain("only cuBLASLt has ieee arithmetic");
  } else if (Allowed == products::engines::library) {
    result.explain("it was asked for");
  } else if (!own) {
    result.explain("this build or card has no TF32 tensor cores, or the product is one of a batch");
  } else if (result.preferred() == products::kernel::cublaslt) {
    result.explain("cuBLASLt is the fastest for this layout unless tuning shows otherwise");
  } else {
    result.explain("it is the fastest kernel for this layout and alignment");
  }
  return result;
}

// ---- calling them ----

/// Runs a product by this file's kernel of that name, one that candidates_for has added.
template <precision Arithmetic, products::layout First, products::layout Second>
void run_own(products::kernel who, const char* function, const products::product& p,
             products::resources& on, cudaStream_t stream) {
  constexpr bool exact = facts_of(Arithmetic).is_exact();
  constexpr bool splits = exact || First == products::layout::outer_first;
  switch (who) {
    case products::kernel::mma:
      multiply_by_mma<mma_tiles<Arithmetic, First, Second>>(function, p, on, stream);
      break;
    case products::kernel::wgmma_split:
      if constexpr (exact) {
        multiply_by_wgmma_split<split_tiles<Arithmetic, First, Second, 1>, false>(function, p, on,
                                                                                  stream);
      }
      break;
    case products::kernel::wgmma_split_cut:
      if constexpr (splits) {
        multiply_by_wgmma_split<split_tiles<Arithmetic, First, Second, 1>, true>(function, p, on,
                                                                                 stream);
      }
      break;
    case products::kernel::wgmma_split_large_cut:
      if constexpr (splits && !exact) {
        multiply_by_wgmma_split<split_tiles<Arithmetic, First, Second, 2>, true>(function, p, on,
                                                                                 stream);
      }
      break;
    case products::kernel::wgmma_direct:
      if constexpr (!splits) multiply_by_wgmma_direct<Second>(function, p, on, stream);
      break;
    case products::kernel::cublaslt:
    case products::kernel::late_epilogue: break;
  }
}

template <products::engines Allowed>
void multiply(const char* function, const products::product& p, products::engines_constant<Allowed>,
              matmul_context& context, cudaStream_t stream);

/// Whether a GELU is all that follows the product and its bias, and the rows of out lie one behind
/// the other.
inline bool ends_in_gelu(const products::product& p) {
  return p.then.before_gelu != nullptr && p.then.column_sums == nullptr &&
         p.then.residual == nullptr && p.batch == 1 && p.out.stride == p.columns;
}

/// Computes the product with its bias and residual, by the kernel that does that best (cuBLASLt
/// adds both, too); then the rest of the epilogue. The rest finds whole sums in `out`, also where
/// the residual lay there.
template <products::engines Allowed>
void multiply_then_finish(const char* function, const products::product& p, matmul_context& context,
                          cudaStream_t stream) {
  constexpr products::engines_constant<Allowed> allowed{};
  products::product plain = p;
  plain.then = {};
  plain.then.bias = p.then.bias;
  plain.then.residual = p.then.residual;
  if (ends_in_gelu(p)) {  // the product goes straight to where it is kept
    plain.out.data = p.then.before_gelu;
    multiply(function, plain, allowed, context, stream);
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
  multiply(function, plain, allowed, context, stream);
  launch_late_epilogue(function, rest, p.rows, p.columns, stream);
}

/// Runs a product as a plan says.
template <products::engines Allowed>
void run_plan(const char* function, const products::product& p, const products::plan& plan,
              matmul_context& context, cudaStream_t stream) {
  const products::kernel who = plan.choice.by;
  if (who == products::kernel::cublaslt) {
    context.run_library(function, p, plan, stream);
  } else if (who == products::kernel::late_epilogue) {
    constexpr auto rest =
        Allowed == products::engines::library ? products::engines::library : products::engines::any;
    multiply_then_finish<rest>(function, p, context, stream);
  } else if constexpr (Allowed != products::engines::library) {
    with_precision(p.arithmetic, [&](auto arithmetic) {
      constexpr precision Arithmetic = decltype(arithmetic)::value;
      if constexpr (facts_of(Arithmetic).on_tensor_cores()) {
        products::with_layouts(p, [&](auto order_1, auto order_2) {
          constexpr auto first = decltype(order_1)::value, second = decltype(order_2)::value;
          run_own<Arithmetic, first, second>(who, function, p, context.resources(), stream);
        });
      }
    });
  }
}

/// Finds the plan of a product with its epilogue, and runs it.
template <products::engines Allowed>
void multiply(const char* function, const products::product& p, products::engines_constant<Allowed>,
              matmul_context& context, cudaStream_t stream) {
  const products::candidates among = candidates_for<Allowed>(function, p, context.resources());
  context.run(function, p, among, stream,
              [&](const products::product& q, const products::plan& plan) {
                run_plan<Allowed>(function, q, plan, context, stream);
              });
}

}  // namespace detail
LLMC_NAMESPACE_END
