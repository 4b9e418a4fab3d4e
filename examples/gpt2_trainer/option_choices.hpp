/// @file
/// The values of options that are one of a few words.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "config.hpp"
#include "options.hpp"

namespace gpt2_trainer {

template <class Enum>
inline constexpr std::array<Enum, 0> choices{};
template <>
inline constexpr std::array choices<token_order>{token_order::shuffled, token_order::sequential};
template <>
inline constexpr std::array choices<schedule_kind>{schedule_kind::cosine, schedule_kind::linear,
                                                   schedule_kind::constant};
template <>
inline constexpr std::array choices<backend_choice>{backend_choice::automatic, backend_choice::cuda,
                                                    backend_choice::cpu};
template <>
inline constexpr std::array choices<llmc::precision>{llmc::precision::ieee, llmc::precision::tf32,
                                                     llmc::precision::tf32x3};
template <>
inline constexpr std::array choices<recompute_choice>{recompute_choice::none,
                                                      recompute_choice::gelu};

/// The words with this between them.
template <class Enum>
std::string joined_choices(const std::string& separator) {
  std::string text;
  for (const Enum choice : choices<Enum>) {
    text += (text.empty() ? "" : separator) + to_string(choice);
  }
  return text;
}

/// The choice of that name, or an input_error.
template <class Enum>
Enum parse_choice(const std::string& text) {
  for (const Enum choice : choices<Enum>) {
    if (text == to_string(choice)) return choice;
  }
  throw input_error("must be one of " + joined_choices<Enum>(", ") + ", got " + text);
}

}  // namespace gpt2_trainer
