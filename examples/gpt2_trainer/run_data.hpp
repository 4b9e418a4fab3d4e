/// @file
/// The tokens that a run's options name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "gpt2/data/token_source.hpp"
#include "options.hpp"

namespace gpt2_trainer {

enum class data_kind {
  text,    ///< tokens are bytes
  shards,  ///< llm.c's
  random   ///< for measuring, which needs no data that means anything
};

data_kind kind_of_data(const run_options& options);

/// The tokens of a run. Validation may be null.
struct run_data {
  bool text = false;        ///< tokens are bytes
  std::string name;         ///< as the user knows it
  std::string description;  ///< what there is of it
  std::unique_ptr<token_source> training;
  std::unique_ptr<token_source> validation;
};

/// The data that the options name, of this kind; batch and sequence must have their values. Shards
/// that `known` has an unchanged record of are not read anew.
run_data open_data(const run_options& options, data_kind kind, std::int64_t vocabulary,
                   const data_record& known);

}  // namespace gpt2_trainer
