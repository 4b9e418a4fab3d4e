/// @file
/// One function of a user's, compiled for sm_90 under one name and for sm_90a under the other, and
/// called from a .cpp file with llmc's types. The names are C's for dlsym.
#pragma once

#include <string>

#include <llmc/matmul_context.hpp>

/// Sets `kernel` to the name of the kernel with which this file computes a product in tf32x3.
extern "C" void product_kernel_sm_90(std::string& kernel, llmc::matmul_context& context);
extern "C" void product_kernel_sm_90a(std::string& kernel, llmc::matmul_context& context);
