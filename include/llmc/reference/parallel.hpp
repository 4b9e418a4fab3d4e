/// @file
/// The one way in which the CPU reference uses several cores.
#pragma once

#include <cstdint>

#include <llmc/detail/namespace.hpp>

LLMC_REFERENCE_BEGIN

/// Calls `body(i)` for every i in [0, count), on all cores where the file is compiled with OpenMP
/// and in order where it is not. The calls must not write to the same element; then the result does
/// not depend on the number of cores.
template <class Body>
void parallel_for(std::int64_t count, Body body) {
#if defined(_OPENMP)
#pragma omp parallel for schedule(static)
#endif
  for (std::int64_t i = 0; i < count; ++i) body(i);
}

LLMC_REFERENCE_END
