/// @file
/// Reads files of any size in blocks that can be tokenised by themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpt2/documents/document_files.hpp"
#include "gpt2/files/file.hpp"

namespace gpt2_trainer {

/// Neighbouring bytes of a document. Their tokens are those that they have in the whole document.
struct text_stretch {
  std::size_t begin;     ///< in the block
  std::size_t size;      ///< at least 1
  std::int64_t offset;   ///< in the file
  bool begins_document;  ///< else it goes on with the document of the stretch before
};

struct text_block {
  std::string bytes;
  std::vector<text_stretch> stretches;  ///< of text
  std::int64_t first_line = 1;          ///< of JSON lines: its number in the file
  std::int64_t end = 0;                 ///< in the file: how much of it was read up to here
};

/// Gives the file's blocks to `use`, in order, each of about `rules.block_bytes`. Returns the
/// file's checksum; none where `use` returned false, which ends reading.
///
/// A document that is longer than a block is cut where GPT-2's pattern ends a piece whatever stands
/// around: see may_cut. JSON lines are cut between lines. Text without such a place, or a line, of
/// more than `rules.longest_stretch` is an input_error.
std::optional<std::string> read_blocks(const input_file& file, const document_rules& rules,
                                       const std::function<bool(text_block&&)>& use);

/// Whether the file is read so, by what was asked for and by its name.
bool is_json_lines(const std::filesystem::path& path, document_form form);

/// Whether text may be cut before `text[at]`: then what is before has the same tokens whatever
/// follows, and what follows has the same tokens whatever is before. That is so between characters
/// of two classes (letters, numbers, white space, others), except after white space, whose last
/// character can belong to what follows, and after an apostrophe. Both neighbours are in the text.
bool may_cut(std::string_view text, std::size_t at);

}  // namespace gpt2_trainer
