/// @file
/// Catch2 3 where there is one, Debian's 2.13 too.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#define LLMC_CATCH_VERSION 3
#else
#include <catch2/catch.hpp>
#define LLMC_CATCH_VERSION 2
#endif
