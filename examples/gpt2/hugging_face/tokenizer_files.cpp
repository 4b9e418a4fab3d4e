#include "gpt2/hugging_face/tokenizer_files.hpp"

#include <algorithm>

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

/// Files that belong together.
using file_set = std::vector<tokenizer_file>;

bool are_there(const file_set& files) {
  return std::all_of(files.begin(), files.end(),
                     [](const tokenizer_file& each) { return fs::is_regular_file(each.from); });
}

}  // namespace

std::vector<tokenizer_file> tokenizer_files(const fs::path& path) {
  const bool is_folder = fs::is_directory(path);
  const fs::path folder = is_folder ? path : path.parent_path();
  const std::vector<file_set> vocabularies{
      {{folder / "tokenizer.json", "tokenizer.json"}},
      {{folder / "vocab.json", "vocab.json"}, {folder / "merges.txt", "merges.txt"}},
      {{folder / "encoder.json", "vocab.json"}, {folder / "vocab.bpe", "merges.txt"}}};
  std::vector<tokenizer_file> found;
  const auto has_name = [&](const tokenizer_file& each) {
    return std::any_of(found.begin(), found.end(),
                       [&](const tokenizer_file& other) { return other.name == each.name; });
  };
  const auto add = [&](const file_set& files) {
    if (are_there(files) && !has_name(files.front())) {
      found.insert(found.end(), files.begin(), files.end());
    }
  };
  for (const file_set& files : vocabularies) {
    const bool is_named = std::any_of(files.begin(), files.end(), [&](const tokenizer_file& each) {
      return each.from.filename() == path.filename();
    });
    if (is_folder || is_named) add(files);
  }
  if (found.empty()) return {};
  for (const char* name :
       {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"}) {
    add({{folder / name, name}});
  }
  return found;
}

}  // namespace gpt2_trainer
