/// @file
/// Catch2 3 where there is one, Debian's 2.13 too.
#pragma once

// CMake says which of the two it found: a machine may have the headers of both. Without CMake, the
// newer one that is there.
#if !defined(LLMC_CATCH_VERSION)
#if __has_include(<catch2/catch_all.hpp>)
#define LLMC_CATCH_VERSION 3
#else
#define LLMC_CATCH_VERSION 2
#endif
#endif

#if LLMC_CATCH_VERSION == 3
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
