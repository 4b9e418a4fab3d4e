/// @file
/// llmc's CPU reference as a backend: for training without a GPU (float) and for tests (double).
#pragma once

#include <memory>

#include "gpt2/machine/backend.hpp"

namespace gpt2_trainer {

/// Instantiated for float and double.
template <class Real>
std::unique_ptr<backend<Real>> make_reference_backend();

}  // namespace gpt2_trainer
