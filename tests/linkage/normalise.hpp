/// @file
/// One function of a user's, compiled several times under different names and for different
/// architectures; its signature of llmc's types is the same in .cpp and .cu files.
#pragma once

#include <vector>

#include <llmc/types.hpp>

#define LLMC_TEST_DECLARE(name)                                                          \
  /* Normalises on the GPU with unit weights and no bias. */                             \
  std::vector<float> normalise_##name(std::vector<float> values, llmc::row_shape shape); \
  /* Whether this file's llmc::error catches what `call` throws. */                      \
  bool catches_error_##name(void (*call)())

LLMC_TEST_DECLARE(shared_75);
LLMC_TEST_DECLARE(shared_80);
LLMC_TEST_DECLARE(rdc);
