/// @file
/// Text to train on. Tokens are bytes, so the vocabulary is 256; byte 0 begins each document.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace gpt2_trainer {

inline constexpr std::int64_t byte_vocabulary = 256;
/// What separates documents. It never occurs in text: a file that holds it is taken as binary.
inline constexpr char document_separator = '\0';

/// Offset of the first byte that is not part of well-formed UTF-8 (no overlong forms, surrogates or
/// code points past U+10FFFF) or is NUL; the size of the text if there is none.
std::size_t valid_text_prefix(std::string_view text);

/// For each document, in order: a separator, then the document.
struct text_corpus {
  std::string text;
  std::int64_t documents = 0;
  std::int64_t skipped = 0;  ///< files in folders that are not UTF-8 text
};

/// Reads files, and folders with all below them. A file that is named must be UTF-8 text. In a
/// folder, files that are not and names that begin with a dot are skipped. The order within a
/// folder is that of the names' bytes.
text_corpus read_text(const std::vector<std::filesystem::path>& paths);

/// llmc's own documentation and headers, which the program carries with it, without wide gaps.
text_corpus embedded_text();

/// Text for the terminal: what is not UTF-8 or could steer the terminal becomes U+FFFD, a separator
/// becomes an empty line.
std::string printable(std::string_view text);

}  // namespace gpt2_trainer
