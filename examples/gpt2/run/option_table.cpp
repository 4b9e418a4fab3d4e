#include "gpt2/run/option_table.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "gpt2/run/suggestion.hpp"

namespace gpt2_trainer {
namespace {

/// What is not a value although it stands where one could.
bool names_an_option(const std::string& argument) {
  return argument.size() > 1 && argument.front() == '-';
}

/// The known option that was given before this argument, with nothing but values between; null if
/// there is none.
const option_name* option_before(const std::vector<std::string>& arguments, std::size_t at,
                                 const std::vector<option_name>& known) {
  while (at > 0 && !names_an_option(arguments[at])) --at;
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const option_name& each) { return each.is(arguments[at]); });
  return found == known.end() ? nullptr : &*found;
}

/// What to do about a value too many.
std::string advice(const option_name& option) {
  const bool pattern = option.type.find("GLOB") != std::string::npos;
  return option.name() + " takes one value; " +
         (pattern ? "a pattern must be quoted, as in " + option.name() +
                        " '*.txt', or the shell puts all names that match in its place"
                  : "one with spaces must be quoted");
}

}  // namespace

bool option_name::is(const std::string& argument) const {
  std::size_t begin = 0;
  while (begin <= names.size()) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    if (names.substr(begin, end - begin) == argument) return true;
    begin = end + 1;
  }
  return false;
}

std::string unexpected(const std::vector<std::string>& arguments,
                       const std::vector<std::string>& left,
                       const std::vector<option_name>& known) {
  const auto first = std::find_if(arguments.begin(), arguments.end(), [&](const std::string& each) {
    return std::find(left.begin(), left.end(), each) != left.end();
  });
  if (first == arguments.end()) return "not expected: " + left.front();
  if (!names_an_option(*first)) {
    const option_name* const before =
        option_before(arguments, static_cast<std::size_t>(first - arguments.begin()), known);
    if (before != nullptr && !before->type.empty())
      return "not expected: " + *first + " (" + advice(*before) + ")";
  }
  std::vector<std::string> words;
  for (const option_name& each : known) words.push_back(each.name());
  const std::string name = first->substr(0, first->find('='));
  return "not expected: " + name + suggestion(name, words) + " (--help lists the options)";
}

std::optional<std::string> given_twice(const std::vector<std::string>& arguments,
                                       const std::vector<option_name>& known) {
  for (const option_name& each : known) {
    const auto times =
        std::count_if(arguments.begin(), arguments.end(), [&](const std::string& argument) {
          return each.is(argument.substr(0, argument.find('=')));
        });
    if (times > 1)
      return each.name() + " must be given once, got it " + std::to_string(times) + " times";
  }
  return std::nullopt;
}

std::string absolute_path(const std::string& path) {
  return path.empty() ? path : std::filesystem::absolute(path).lexically_normal().string();
}

std::string option_text(const nlohmann::json& value) {
  return value.is_number() ? value.dump() : text_of_json(value);
}

}  // namespace gpt2_trainer
