/// @file
/// What is done with files whose numbers are infinite or none at all.
#pragma once

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpt2_trainer {

enum class non_finite_choice {
  refuse,  ///< neither read nor written
  allow
};

constexpr const char* to_string(non_finite_choice choice) {
  switch (choice) {
    case non_finite_choice::refuse: return "refuse";
    case non_finite_choice::allow: return "allow";
  }
  return "unknown";
}

inline constexpr std::array non_finite_choices{non_finite_choice::refuse, non_finite_choice::allow};

/// "WHAT must be finite, got nan at place 7 (3 of 100 are not)"; empty if they all are.
std::string non_finite_text(const std::string& what, const std::vector<float>& values);

class non_finite_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws that text unless all are finite or others are allowed.
template <class Error>
void require_finite(const std::string& what, const std::vector<float>& values,
                    non_finite_choice choice) {
  if (choice == non_finite_choice::allow) return;
  const std::string text = non_finite_text(what, values);
  if (!text.empty()) throw Error(text);
}

}  // namespace gpt2_trainer
