/// @file
/// What llmc throws. Every text names the function, the argument, what it was and what it must be,
/// for example `llmc::layernorm_forward: channels must be at least 1, got 0`.
#pragma once

#include <stdexcept>
#include <string>

#if defined(__GNUC__)
#define LLMC_VISIBLE __attribute__((visibility("default")))
#else
#define LLMC_VISIBLE
#endif

// Outside the versioned namespaces and visible even under -fvisibility=hidden, so that an error
// thrown in one shared library can be caught in another that was built with another llmc.
namespace llmc {

/// The base of everything that llmc throws on purpose.
class LLMC_VISIBLE error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An argument that no device could work with: a negative extent, a null pointer, an overflowing
/// size.
class LLMC_VISIBLE invalid_argument : public error {
 public:
  using error::error;
};

/// A valid request that the named variant cannot serve on this device, in this build or for this
/// shape. `automatic` never throws it.
class LLMC_VISIBLE unsupported : public error {
 public:
  using error::error;
};

/// A CUDA runtime call or a kernel launch that failed.
class LLMC_VISIBLE cuda_error : public error {
 public:
  cuda_error(const std::string& text, int code) : error(text), code_(code) {}

  /// The `cudaError_t` as an integer, so that this header needs no CUDA.
  int code() const noexcept { return code_; }

 private:
  int code_;
};

/// A cuBLASLt call that failed.
class LLMC_VISIBLE cublas_error : public error {
 public:
  cublas_error(const std::string& text, int status) : error(text), status_(status) {}

  /// The `cublasStatus_t` as an integer, so that this header needs no cuBLAS.
  int status() const noexcept { return status_; }

 private:
  int status_;
};

}  // namespace llmc
