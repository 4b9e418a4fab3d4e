/// @file
/// What each layer adds to the registry; defined in the file of that name.
#pragma once

#include <vector>

#include "registry/registry.hpp"

namespace llmc_registry {

std::vector<operation> adamw();
std::vector<operation> attention();
std::vector<operation> causal_product();
std::vector<operation> causal_softmax();
std::vector<operation> classifier();
std::vector<operation> crossentropy();
std::vector<operation> encoder();
std::vector<operation> gelu();
std::vector<operation> global_norm();
std::vector<operation> layernorm();
std::vector<operation> loss_sum();
std::vector<operation> matmul();
std::vector<operation> permute();
std::vector<operation> residual();
std::vector<operation> residual_layernorm();
std::vector<operation> softmax();
std::vector<operation> split();

}  // namespace llmc_registry
