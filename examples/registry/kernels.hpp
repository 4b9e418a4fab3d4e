/// @file
/// What problems do on the GPU beside the operation itself, because their arrays are too large for
/// the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "registry/tolerance.hpp"

namespace llmc_registry {

/// Writes normal numbers. A seed gives the same numbers on every machine, but for last bits.
/// Returns when they are written.
void fill_normal(float* values, std::int64_t count, std::uint64_t seed, double deviation,
                 double mean);

/// The largest |actual - expected| / (absolute + relative * |expected|); infinity if there is a
/// NaN. Waits for the stream.
double largest_ratio(const float* actual, const float* expected, std::int64_t count,
                     llmc_test::tolerance allowed, cudaStream_t stream);

}  // namespace llmc_registry
