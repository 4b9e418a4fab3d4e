/// @file
/// AdamW in closed form. Under a gradient that never changes the corrected moments are g and g^2,
/// so the direction is the same at every step and the parameter follows a linear recurrence.
#pragma once

#include <cmath>

namespace llmc_test {

/// The parameter that began as `param`, after `steps` steps from zero moments under the constant
/// gradient `grad`.
inline double adamw_constant_gradient(double param, double grad, int steps, double learning_rate,
                                      double epsilon, double weight_decay) {
  const double direction = grad / (std::fabs(grad) + epsilon);
  if (weight_decay == 0) return param - steps * learning_rate * direction;
  const double fixed_point = -direction / weight_decay;
  const double shrink = 1 - learning_rate * weight_decay;
  return fixed_point + (param - fixed_point) * std::pow(shrink, steps);
}

}  // namespace llmc_test
