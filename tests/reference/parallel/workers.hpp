/// @file
/// One function of a user's, compiled with OpenMP under one name and without it under the other.
#pragma once

#include <cstddef>

/// How many threads this file's copy of parallel_for uses for 64 calls.
std::size_t workers_with_openmp();
std::size_t workers_without_openmp();
