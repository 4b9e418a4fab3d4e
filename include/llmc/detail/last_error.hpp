/// @file
/// An earlier error of the user's that llmc neither reports as its own nor clears. Plain C++.
#pragma once

#include <cuda_runtime_api.h>

#include <exception>
#include <thread>

#include <llmc/detail/namespace.hpp>

LLMC_TYPES_BEGIN

/// Runs `body` so that cudaPeekAtLastError says afterwards what it said before. The CUDA calls in
/// `body` would clear the last error: even cudaFuncSetAttribute does where it succeeds, and CUB
/// does all the time. Each host thread has a last error of its own, so a second thread does the
/// work where there is one to lose. Throws what `body` throws.
template <class Body>
[[gnu::visibility("hidden")]] void keeping_last_error(Body body) {
  if (cudaPeekAtLastError() == cudaSuccess) {
    body();
    return;
  }
  int device = 0;
  const cudaError_t found = cudaGetDevice(&device);
  std::exception_ptr failure;
  std::thread([&] {
    try {
      if (found == cudaSuccess) cudaSetDevice(device);  // it, too, is each thread's own
      body();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure != nullptr) std::rethrow_exception(failure);
}

LLMC_TYPES_END
