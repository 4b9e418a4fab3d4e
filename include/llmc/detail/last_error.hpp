/// @file
/// An earlier error of the user's that llmc neither reports as its own nor clears. Plain C++.
#pragma once

#include <cuda_runtime_api.h>

#include <exception>
#include <thread>

#include <llmc/detail/namespace.hpp>

LLMC_TYPES_BEGIN

/// Runs `body`, whose CUDA calls would clear the last error (even cudaFuncSetAttribute does where
/// it succeeds, and CUB does all the time), so that cudaPeekAtLastError says afterwards what it
/// said before. CUDA keeps the last error of each host thread by itself: where there is one to
/// lose, a second thread does the work. Throws what `body` throws.
template <class Body>
void keeping_last_error(Body body) {
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
