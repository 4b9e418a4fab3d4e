/// @file
/// The version of llmc. CMake reads it from here.
#pragma once

#define LLMC_VERSION_MAJOR 0
#define LLMC_VERSION_MINOR 2
#define LLMC_VERSION_PATCH 0
