/// @file
/// The one way in which the CPU reference uses several cores.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include <llmc/detail/namespace.hpp>

LLMC_REFERENCE_BEGIN

/// Calls `body(i)` for every i in [0, count), on all cores where the file is compiled with OpenMP
/// and in order where it is not. The calls must not write to the same element; then the result does
/// not depend on the number of cores. They must not throw, and so must not allocate: an exception
/// cannot leave a parallel region and would end the program.
template <class Body>
void parallel_for(std::int64_t count, Body body) {
#if defined(_OPENMP)
#pragma omp parallel for schedule(static)
#endif
  for (std::int64_t i = 0; i < count; ++i) body(i);
}

/// The same for `body(i, scratch)`, where `scratch` is memory for `doubles` doubles that no other
/// call uses at the same time. It holds what an earlier call left there.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t doubles, Body body) {
#if defined(_OPENMP)
  const int workers = static_cast<int>(std::clamp<std::int64_t>(count, 1, omp_get_max_threads()));
  std::vector<double> scratch(static_cast<std::size_t>(workers * doubles));
#pragma omp parallel for schedule(static) num_threads(workers)
  for (std::int64_t i = 0; i < count; ++i) {
    body(i, scratch.data() + omp_get_thread_num() * doubles);
  }
#else
  std::vector<double> scratch(static_cast<std::size_t>(doubles));
  for (std::int64_t i = 0; i < count; ++i) body(i, scratch.data());
#endif
}

LLMC_REFERENCE_END
