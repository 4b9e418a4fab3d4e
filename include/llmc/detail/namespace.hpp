/// @file
/// The inline namespaces that keep two copies of llmc in one process apart.
///
/// Templates and inline functions are weak symbols: where two libraries are linked into one
/// process, the loader keeps one definition for both. That is wrong as soon as they were built from
/// different versions of llmc or for different GPU architectures, because a merged launcher would
/// look for a kernel that its own library never had. So the names carry what makes them differ:
///
///  - `LLMC_TYPES_BEGIN`, `LLMC_TYPES_END`: the version only. For types that users name in
///    signatures, which must be the same in .cpp and .cu files.
///  - `LLMC_NAMESPACE_BEGIN`, `LLMC_NAMESPACE_END`: the version and the list of architectures. For
///    launchers, kernels and every helper they call.
///
/// Both are inline: users write `llmc::layernorm_forward` and `llmc::row_shape`, never these names.
#pragma once

#include <llmc/version.hpp>

// __CUDA_ARCH_LIST__ is a comma-separated list (750,800,900), so it is passed as variadic arguments
// and glued together here; unused places hold 0.
#define LLMC_DETAIL_GLUE_16(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ...) \
  sm_##a##_##b##_##c##_##d##_##e##_##f##_##g##_##h##_##i##_##j##_##k##_##l##_##m##_##n##_##o##_##p
#define LLMC_DETAIL_GLUE_LIST(...) \
  LLMC_DETAIL_GLUE_16(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)

#define LLMC_DETAIL_GLUE_VERSION_2(major, minor, patch) v##major##_##minor##_##patch
#define LLMC_DETAIL_GLUE_VERSION(major, minor, patch) \
  LLMC_DETAIL_GLUE_VERSION_2(major, minor, patch)

#define LLMC_DETAIL_VERSION_NAMESPACE \
  LLMC_DETAIL_GLUE_VERSION(LLMC_VERSION_MAJOR, LLMC_VERSION_MINOR, LLMC_VERSION_PATCH)

#define LLMC_TYPES_BEGIN \
  namespace llmc {       \
  inline namespace LLMC_DETAIL_VERSION_NAMESPACE {
#define LLMC_TYPES_END \
  }                    \
  }

#if defined(__CUDACC__)
#define LLMC_NAMESPACE_BEGIN                       \
  namespace llmc {                                 \
  inline namespace LLMC_DETAIL_VERSION_NAMESPACE { \
  inline namespace LLMC_DETAIL_GLUE_LIST(__CUDA_ARCH_LIST__) {
#define LLMC_NAMESPACE_END \
  }                        \
  }                        \
  }
#endif
