/// @file
/// Which instruction sets the CPU's layers were compiled for, and whether this processor has them.
#pragma once

#include <iosfwd>
#include <string>

namespace gpt2_trainer {

/// An extension that compilers use by themselves, by the name that Linux gives it in /proc/cpuinfo.
struct instruction_set {
  const char* name;
  bool compiled;  ///< whether reference_layers.cpp was compiled for it
};

/// Ends with a name that is null. Data, not a function: it is in the file that may be compiled for
/// instructions that this processor lacks, so nothing of that file may run before it was looked at.
extern const instruction_set reference_layers_instruction_sets[];

/// Those of `sets` that were compiled for and that this text of /proc/cpuinfo does not have, with
/// commas. Empty if there are none, or if the text says nothing about instruction sets.
std::string missing_instruction_sets(const instruction_set* sets, std::istream& cpuinfo);

/// An input_error if the CPU's layers would end in an illegal instruction here.
void require_instruction_sets();

}  // namespace gpt2_trainer
