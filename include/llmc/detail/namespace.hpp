/// @file
/// The namespaces that keep several copies of llmc in one process apart.
///
/// Templates and inline functions are weak symbols: where object files are linked into a program,
/// or libraries loaded into a process, one definition is kept for all. That is wrong as soon as
/// they were compiled from different versions of llmc or for different GPU architectures: a merged
/// launcher looks for a kernel that its own file never had. Names cannot keep architectures apart,
/// because no macro of the host's pass tells sm_90 from sm_90a.
///
///  - `LLMC_TYPES_BEGIN`, `LLMC_TYPES_END`: the version. For types that users name in signatures,
///    which must be the same in .cpp and .cu files, and for host code that knows no kernel. Its
///    templates that take a function of the file's own are hidden by an attribute.
///  - `LLMC_NAMESPACE_BEGIN`, `LLMC_NAMESPACE_END`: the version, and a namespace of the file's own.
///    For launchers, kernels and every helper they call: each file calls the kernels that it was
///    compiled with. nvcc turns an unnamed namespace into one that is named after the file's path
///    and its first function, whose templates stay weak symbols. So they are hidden, too: shared
///    libraries built from one file with different flags do not share them.
///  - `LLMC_REFERENCE_BEGIN`, `LLMC_REFERENCE_END`: namespace `reference`, with internal linkage:
///    each file calls the CPU code that it was compiled with, with or without OpenMP and for its
///    own instruction set.
///
/// Users write none of these names: they write `llmc::layernorm_forward` and `llmc::row_shape`.
#pragma once

#include <llmc/version.hpp>

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

#define LLMC_REFERENCE_BEGIN                       \
  namespace llmc {                                 \
  inline namespace LLMC_DETAIL_VERSION_NAMESPACE { \
  namespace reference {                            \
  namespace {
#define LLMC_REFERENCE_END \
  }                        \
  }                        \
  }                        \
  }

#if defined(__CUDACC__)
#define LLMC_NAMESPACE_BEGIN                              \
  _Pragma("GCC visibility push(hidden)") namespace llmc { \
    inline namespace LLMC_DETAIL_VERSION_NAMESPACE {      \
    namespace {
#define LLMC_NAMESPACE_END \
  }                        \
  }                        \
  }                        \
  _Pragma("GCC visibility pop")
#endif
