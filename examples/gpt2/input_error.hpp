/// @file
/// What is thrown where the user has to change something.
#pragma once

#include <stdexcept>

namespace gpt2_trainer {

/// A file or an option that cannot be used. The text is one line and says what was seen and what
/// was wanted.
class input_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace gpt2_trainer
