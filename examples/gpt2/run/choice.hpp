/// @file
/// Options whose value is one of a few words: the names of an enumeration.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "gpt2/input_error.hpp"
#include "gpt2/run/suggestion.hpp"

namespace gpt2_trainer {

template <class Enum, std::size_t Count>
std::vector<std::string> words_of(const std::array<Enum, Count>& choices) {
  std::vector<std::string> words;
  for (const Enum choice : choices) words.emplace_back(to_string(choice));
  return words;
}

/// The words, with the separator between them.
template <class Enum, std::size_t Count>
std::string joined_words(const std::array<Enum, Count>& choices, const std::string& separator) {
  std::string text;
  for (const Enum choice : choices) text += (text.empty() ? "" : separator) + to_string(choice);
  return text;
}

/// The choice of that name, or an input_error.
template <class Enum, std::size_t Count>
Enum parse_choice(const std::array<Enum, Count>& choices, const std::string& text) {
  for (const Enum choice : choices) {
    if (text == to_string(choice)) return choice;
  }
  throw input_error("must be one of " + joined_words(choices, ", ") + ", got " + text +
                    suggestion(text, words_of(choices)));
}

}  // namespace gpt2_trainer
