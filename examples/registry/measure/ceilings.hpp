/// @file
/// What the card can do at best, measured with the same stopwatch and in the same run as the times
/// that are compared with it.
#pragma once

#include <cstdint>

#include <llmc/types.hpp>

#include "registry/measure/stopwatch.hpp"

namespace llmc_registry {

/// GB/s of the fastest of a few copy kernels that move that many bytes, half of them read and half
/// written.
double copy_rate(const stopwatch& watch, std::int64_t bytes);

/// TF/s of cuBLASLt at an 8192 x 8192 x 8192 product. A precision that makes one product of several
/// on tensor cores, such as `tf32x3`, has the rate of one of those products.
double product_rate(const stopwatch& watch, llmc::precision arithmetic);

}  // namespace llmc_registry
