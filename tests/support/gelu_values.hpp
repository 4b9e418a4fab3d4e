/// @file
/// Values of the tanh form of GELU and of its derivative, to 8 decimals.
#pragma once

#include <vector>

namespace llmc_test {

inline const std::vector<float> gelu_inputs{-500, -13.24f, -6, -3, -1, 0, 1, 3, 13.24f, 500};
inline const std::vector<double> gelu_outputs{0, 0,          -8e-11,     -0.00363739, -0.15880801,
                                              0, 0.84119199, 2.99636261, 13.24f,      500};
inline const std::vector<double> gelu_derivatives{
    0, 0, -8e-10, -0.01158417, -0.08296408, 0.5, 1.08296408, 1.01158417, 1, 1};

}  // namespace llmc_test
