#include "gpt2/tokens/vocabulary_files.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "gpt2/files/file_header.hpp"
#include "gpt2/files/strict_json.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/tokens/forms/vocabulary_builder.hpp"
#include "gpt2/tokens/forms/vocabulary_readers.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* all_forms =
    "tokenizer.json, vocab.json with merges.txt, encoder.json with vocab.bpe, tiktoken's ranks or "
    "llm.c's gpt2_tokenizer.bin";

/// Of the two files that are one vocabulary.
struct file_names {
  std::string_view ids;
  std::string_view merges;
};
constexpr std::array known_names{file_names{"vocab.json", "merges.txt"},
                                 file_names{"encoder.json", "vocab.bpe"}};

/// The file of merges beside one of ids: what begins or ends the one's name does so with the other.
fs::path merges_beside(const fs::path& ids) {
  const std::string name = ids.filename().string();
  std::vector<std::string> tried;
  for (const auto& [ids_name, merges_name] : known_names) {
    const std::size_t at = name.rfind(ids_name);
    if (at == std::string::npos) continue;
    tried.push_back(std::string(name).replace(at, ids_name.size(), merges_name));
  }
  for (const file_names& names : known_names) tried.emplace_back(names.merges);
  for (const std::string& each : tried) {
    const fs::path merges = ids.parent_path() / each;
    if (fs::exists(merges)) return merges;
  }
  throw input_error(ids.string() + ": its merges are wanted beside it, in " + tried.front() +
                    ", but there is no such file");
}

vocabulary read_json(const input_file& from, std::string_view text) {
  const json value = parse_strictly(from, text);
  const auto model = value.find("model");
  const bool is_whole =
      value.count("added_tokens") > 0 || (model != value.end() && model->is_structured());
  if (is_whole) return read_tokenizer_json(from, value);
  return read_vocab_and_merges(from, value, input_file(merges_beside(from.path())));
}

vocabulary read_text_form(const input_file& from, const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') return read_json(from, text);
  if (are_tiktoken_ranks(text)) return read_tiktoken_ranks(from, text);
  from.fail(std::string("a vocabulary is wanted (") + all_forms + "), got a file of another kind");
}

vocabulary read_one(const fs::path& path) {
  input_file from(path);
  if (has_magic(from, tokenizer_kind)) return read_llm_c_tokenizer(from);
  return read_text_form(from, vocabulary_text(from));
}

/// The vocabularies in a folder, in the order in which they are preferred.
std::vector<fs::path> vocabularies_in(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const char* name : {"tokenizer.json", "vocab.json", "encoder.json"}) {
    if (fs::exists(folder / name)) found.push_back(folder / name);
  }
  std::vector<fs::path> ranks;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".tiktoken") ranks.push_back(entry.path());
  }
  std::sort(ranks.begin(), ranks.end());
  found.insert(found.end(), ranks.begin(), ranks.end());
  if (fs::exists(folder / "gpt2_tokenizer.bin")) found.push_back(folder / "gpt2_tokenizer.bin");
  if (!found.empty()) return found;
  throw input_error(folder.string() + ": a folder with a vocabulary is wanted (" + all_forms +
                    "), got one without");
}

bool is_special(const vocabulary& words, std::size_t id) {
  return std::any_of(words.specials.begin(), words.specials.end(), [id](const special_token& each) {
    return static_cast<std::size_t>(each.id) == id;
  });
}

/// Where `other` says something else than `taken`; nothing if they agree as far as both go. Not
/// every form has all special tokens, nor merges as they were listed.
std::optional<std::string> difference(const vocabulary& taken, const vocabulary& other) {
  const std::size_t both = std::min(taken.tokens.size(), other.tokens.size());
  for (std::size_t id = 0; id < both; ++id) {
    if (taken.tokens[id] == other.tokens[id]) continue;
    return "token " + std::to_string(id) + " is " + shown_token(taken.tokens[id]) + " and not " +
           shown_token(other.tokens[id]);
  }
  const vocabulary& longer = taken.tokens.size() > both ? taken : other;
  for (std::size_t id = both; id < longer.tokens.size(); ++id) {
    if (is_special(longer, id)) continue;
    return std::to_string(taken.tokens.size()) + " tokens and not " +
           std::to_string(other.tokens.size());
  }
  const bool same = std::equal(taken.merges.begin(), taken.merges.end(), other.merges.begin(),
                               other.merges.end(), [](const token_merge& a, const token_merge& b) {
                                 return a.left == b.left && a.right == b.right;
                               });
  if (same || other.merges.empty()) return std::nullopt;
  return "other merges";
}

/// What is to be said of a vocabulary that is not taken, since another one is.
std::optional<std::string> look_at(const vocabulary& taken, const fs::path& other) {
  try {
    return difference(taken, read_one(other));
  } catch (const input_error& error) {
    return std::string("this one cannot be read: ") + error.what();
  }
}

vocabulary read_folder(const fs::path& folder) {
  const std::vector<fs::path> found = vocabularies_in(folder);
  vocabulary taken = read_one(found.front());
  for (auto other = found.begin() + 1; other != found.end(); ++other) {
    const std::optional<std::string> difference = look_at(taken, *other);
    if (!difference) continue;
    taken.notes.push_back(found.front().string() + " is taken, which disagrees with " +
                          other->string() + ": " + *difference);
  }
  return taken;
}

}  // namespace

std::string vocabulary_text(const input_file& from) {
  constexpr std::int64_t most_bytes = 1 << 26;
  from.require(from.size() <= most_bytes, "size of a vocabulary",
               "at most " + std::to_string(most_bytes) + " bytes", std::to_string(from.size()));
  std::string text(static_cast<std::size_t>(from.size()), '\0');
  from.read(text.data(), text.size(), 0);
  return text;
}

vocabulary read_vocabulary(const fs::path& path) {
  std::error_code error;  // what is no folder is a file, or cannot be opened as one
  return fs::is_directory(path, error) ? read_folder(path) : read_one(path);
}

}  // namespace gpt2_trainer
