/// @file
/// What the card can do at best. Measured with the same stopwatch, in the same run, as the times
/// that are compared with it.
#pragma once

#include <cstdint>

#include <llmc/types.hpp>

#include "registry/measure/stopwatch.hpp"

namespace llmc_registry {

/// GB/s of the fastest of a few copy kernels that move that many bytes, half of them read and half
/// written.
double copy_rate(const stopwatch& watch, std::int64_t bytes);

/// TF/s of cuBLASLt at an 8192 x 8192 x 8192 product; that of TF32 for `tf32x3`, which is made of
/// such products.
double product_rate(const stopwatch& watch, llmc::precision arithmetic);

}  // namespace llmc_registry
