/// @file
/// The layers of llmc's CPU reference. With LLMC_NATIVE they are compiled for the processor of this
/// machine; the rest of the program is not.
#pragma once

#include <memory>

#include "gpt2/machine/backend.hpp"

namespace gpt2_trainer {

// No templates: a template's copies are weak symbols, of which the linker takes any.
std::unique_ptr<layers<float>> make_reference_layers_of_floats();
std::unique_ptr<layers<double>> make_reference_layers_of_doubles();

}  // namespace gpt2_trainer
