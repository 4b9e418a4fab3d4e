/// @file
/// The lines of a text file, numbered as editors do it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpt2_trainer {

/// Calls `use(line, place)` for each line, without its end, LF or CR LF; `place` is "line 1" and so
/// on. The text after the last end is a line only if it is not empty.
template <class Use>
void for_each_line(std::string_view text, Use use) {
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    use(line, "line " + std::to_string(number));
  }
}

}  // namespace gpt2_trainer
