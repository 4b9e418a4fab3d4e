/// @file
/// Included first by every header that holds device code. Where that cannot be compiled,
/// compilation ends here: a file that is missing is the one error after which every compiler stops.
#pragma once

#if (defined(__CUDACC__) || defined(__CUDA__)) && !defined(__NVCC__)
#error \
    "llmc: *.cuh headers are for nvcc, and this CUDA compiler is another one. clang can be nvcc's host \
compiler (nvcc -ccbin clang++, or CMAKE_CUDA_HOST_COMPILER), but cannot take nvcc's place."
#include <llmc/detail/nothing_more>
#elif !defined(__CUDACC__)
#error \
    "llmc: *.cuh headers hold CUDA kernels and must be compiled by nvcc: rename this source file to .cu, \
or include only llmc/*.hpp (types, errors, the CPU reference) in a .cpp file."
#include <llmc/detail/nothing_more>
#endif
