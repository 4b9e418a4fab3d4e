#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "gpt2/tokens/forms/byte_level.hpp"
#include "gpt2/tokens/forms/lines.hpp"
#include "gpt2/tokens/forms/vocabulary_builder.hpp"
#include "gpt2/tokens/forms/vocabulary_readers.hpp"

namespace gpt2_trainer {
namespace {

using nlohmann::json;

/// What `tokenizers` writes in the first line, with a number that no reader looks at.
constexpr std::string_view version_mark = "#version";

}  // namespace

vocabulary read_vocab_and_merges(const input_file& from, const json& ids,
                                 const input_file& merges) {
  vocabulary_builder builder(from, ids.size());
  add_byte_level_tokens(builder, from, ids, {end_of_text_name});
  bool has_merges = false;
  for_each_line(vocabulary_text(merges), [&](std::string_view line, const std::string& place) {
    if (place == "line 1" && line.substr(0, version_mark.size()) == version_mark) return;
    add_byte_level_merge(builder, merges, place, line);
    has_merges = true;
  });
  if (!has_merges) merges.fail("at least one merge is wanted, got none");
  return builder.finish();
}

}  // namespace gpt2_trainer
