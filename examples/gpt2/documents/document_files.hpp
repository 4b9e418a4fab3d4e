/// @file
/// Which files documents are read from, and how documents lie in them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gpt2/data/corpus.hpp"
#include "gpt2/data/data_record.hpp"

namespace gpt2_trainer {

enum class document_form {
  by_suffix,  ///< JSON lines where the name ends in .jsonl or .ndjson, else text
  text,       ///< a file is a document, or several with a separator between them
  json_lines  ///< a line is an object, one string of which is a document
};

constexpr const char* to_string(document_form form) {
  switch (form) {
    case document_form::by_suffix: return "auto";
    case document_form::text: return "text";
    case document_form::json_lines: return "json-lines";
  }
  return "unknown";
}

inline constexpr std::array document_forms{document_form::by_suffix, document_form::text,
                                           document_form::json_lines};

/// What to do with a line of JSON lines that is no JSON or has no document.
enum class bad_line { refuse, skip };

constexpr const char* to_string(bad_line choice) {
  switch (choice) {
    case bad_line::refuse: return "refuse";
    case bad_line::skip: return "skip";
  }
  return "unknown";
}

inline constexpr std::array bad_lines{bad_line::refuse, bad_line::skip};

/// What to do with a file that is not UTF-8 or holds byte 0.
enum class invalid_text {
  refuse,  ///< it is an error, or passed over if a folder was named
  keep     ///< its bytes are taken as they are
};

constexpr const char* to_string(invalid_text choice) {
  switch (choice) {
    case invalid_text::refuse: return "refuse";
    case invalid_text::keep: return "keep";
  }
  return "unknown";
}

inline constexpr std::array invalid_texts{invalid_text::refuse, invalid_text::keep};

/// How documents lie in files.
struct document_rules {
  document_form form = document_form::by_suffix;
  std::string json_field = "text";
  bad_line bad = bad_line::refuse;
  std::string separator;  ///< of documents in text; empty: a file is a document
  invalid_text invalid = invalid_text::refuse;
  /// What is tokenised at once, in bytes. It decides about speed and memory, never about tokens.
  std::size_t block_bytes = 1 << 20;
  /// A line of JSON lines, or text without a place where it may be cut, is at most that long.
  std::size_t longest_stretch = std::size_t{1} << 28;
};

struct document_file {
  std::filesystem::path path;
  std::string name;  ///< for messages and records, so printable
  file_stamp stamp;
  bool is_named;  ///< by the user; else it was found in a folder
};

struct document_files {
  std::vector<document_file> files;  ///< in the order in which they are read
  pass_over_counts passed_over;

  std::int64_t bytes() const;
};

/// Files, and folders with all below them by the rules of read_text. Only names and stamps are read
/// yet. An input_error if something that is named is not there, or a folder has no files.
document_files find_documents(const std::vector<std::filesystem::path>& paths);

/// Whether the files are those of the record, none of them changed since: then their tokens are the
/// same, too.
bool are_unchanged(const document_files& now, const data_record& before);

}  // namespace gpt2_trainer
