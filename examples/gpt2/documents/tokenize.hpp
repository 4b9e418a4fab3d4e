/// @file
/// Documents to tokens to shards.
#pragma once

#include <cstdint>
#include <functional>

#include "gpt2/data/corpus.hpp"
#include "gpt2/data/data_record.hpp"
#include "gpt2/documents/document_files.hpp"
#include "gpt2/documents/shard_writer.hpp"
#include "gpt2/tokens/tokenizer.hpp"

namespace gpt2_trainer {

/// What was tokenised.
struct tokenized {
  std::int64_t documents = 0;  ///< none of them empty
  std::int64_t tokens = 0;     ///< with the end of text that stands before each document
  std::int64_t text_bytes = 0;
  std::int64_t skipped_lines = 0;  ///< bad_line::skip
  pass_over_counts passed_over;
  /// All files that were read, for are_unchanged. One that was passed over has no checksum.
  data_record files;
  bool stopped = false;  ///< by `go_on`
};

/// Before each document comes the end of text, as in llm.c's data. `go_on` is called again and
/// again with the number of bytes that are done; where it returns false, reading ends. The tokens
/// and their order do not depend on the number of threads. The caller commits the shards. An
/// input_error if something cannot be read, or if there is no text in it.
tokenized tokenize(
    const document_files& files, const document_rules& rules, const tokenizer& words, int threads,
    shard_writer& to,
    const std::function<bool(std::int64_t)>& go_on = [](std::int64_t) { return true; });

}  // namespace gpt2_trainer
