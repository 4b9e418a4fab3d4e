/// @file
/// Included first by every header that holds device code.
#pragma once

#if !defined(__CUDACC__)
#error \
    "llmc: *.cuh headers hold CUDA kernels and must be compiled by nvcc: rename this source file to .cu, \
or include only llmc/*.hpp (types, errors, the CPU reference) in a .cpp file."
#endif
