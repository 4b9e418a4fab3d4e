#include "gpt2/data/text.hpp"

#include <algorithm>

#include "gpt2/data/embedded_text.hpp"
#include "gpt2/files/file.hpp"
#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// The bytes of the well-formed character at the beginning of the text; 0 if there is none. The
/// text is not empty. The ranges of the second byte are those of table 3-7 of the Unicode standard.
std::size_t character_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;

  const auto second = static_cast<unsigned char>(text[1]);
  const unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (second < low || second > high) return 0;
  const bool continued = std::all_of(text.begin() + 2, text.begin() + length, is_continuation);
  return continued ? length : 0;
}

/// Whether well-formed text begins with a control character other than newline and tab.
bool is_control(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first == 0xC2) return static_cast<unsigned char>(text[1]) < 0xA0;
  return (first < ' ' && first != '\n' && first != '\t') || first == 0x7F;
}

/// The text with at most eight spaces in a row. A small model that sees nothing but spaces, as
/// between a line of code and a far continuation sign, goes on with spaces without end.
std::string without_gaps(std::string_view text) {
  constexpr std::size_t most = 8;
  std::string result;
  std::size_t spaces = 0;
  for (const char byte : text) {
    spaces = byte == ' ' ? spaces + 1 : 0;
    if (spaces <= most) result += byte;
  }
  return result;
}

void append(text_corpus& corpus, std::string_view document) {
  corpus.text += document_separator;
  corpus.text += document;
  ++corpus.documents;
}

bool is_hidden(const fs::path& path) {
  return path.filename().string().front() == '.';
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  try {
    for (fs::recursive_directory_iterator it(folder), end; it != end; ++it) {
      if (is_hidden(it->path())) {
        it.disable_recursion_pending();
      } else if (it->is_regular_file()) {
        files.push_back(it->path());
      }
    }
  } catch (const fs::filesystem_error& error) {
    throw input_error(folder.string() + ": cannot read the folder: " + error.code().message());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void append_folder(text_corpus& corpus, const fs::path& folder) {
  const std::int64_t before = corpus.documents;
  for (const fs::path& path : files_below(folder)) {
    const std::string document = read_file(path);
    if (valid_text_prefix(document) == document.size()) {
      append(corpus, document);
    } else {
      ++corpus.skipped;
    }
  }
  if (corpus.documents == before) {
    throw input_error(folder.string() + ": a folder with UTF-8 text files is wanted, but none of " +
                      std::to_string(corpus.skipped) + " files is UTF-8 text" +
                      " (token shards are named by a pattern, such as '*.bin')");
  }
}

void append_file(text_corpus& corpus, const fs::path& path) {
  const std::string document = read_file(path);
  const std::size_t valid = valid_text_prefix(document);
  if (valid != document.size()) {
    throw input_error(path.string() + ": UTF-8 text or llm.c's token shards are wanted, but byte " +
                      std::to_string(valid) + " is neither");
  }
  append(corpus, document);
}

}  // namespace

std::size_t valid_text_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && text[at] != document_separator) {
    const std::size_t length = character_length(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

text_corpus read_text(const std::vector<fs::path>& paths) {
  text_corpus corpus;
  for (const fs::path& path : paths) {
    if (fs::is_directory(path)) {
      append_folder(corpus, path);
    } else {
      append_file(corpus, path);
    }
  }
  return corpus;
}

text_corpus embedded_text() {
  text_corpus corpus;
  for (const std::string_view document : embedded_documents()) {
    append(corpus, without_gaps(document));
  }
  return corpus;
}

std::string printable(std::string_view text) {
  constexpr std::string_view replacement = "\xEF\xBF\xBD";
  std::string result;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (text[0] == document_separator) {
      result += "\n\n";
    } else if (length == 0 || is_control(text)) {
      result += replacement;
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

}  // namespace gpt2_trainer
