#include <cstdint>
#include <string>
#include <utility>

#include "gpt2/files/file_header.hpp"
#include "gpt2/tokens/forms/vocabulary_builder.hpp"
#include "gpt2/tokens/forms/vocabulary_readers.hpp"

namespace gpt2_trainer {
namespace {

/// Version 1 does not say which token ends a text; llm.c takes GPT-2's.
constexpr std::int32_t gpt2_end_of_text = 50256;

/// The version of a file that has a header's size; read_header checks it.
std::int32_t version_of(const input_file& from) {
  std::int32_t version = 0;
  from.read(&version, sizeof version, sizeof version);
  return version;
}

/// The next token: its length in a byte, and its bytes.
std::string next_token(input_file& from, std::int32_t id) {
  std::uint8_t length = 0;
  if (from.offset() == from.size()) {
    from.fail("token " + std::to_string(id) + " is wanted, but the file ends before it");
  }
  from.next(&length, sizeof length);
  const std::int64_t left = from.size() - from.offset();
  from.require(length <= left, "length of token " + std::to_string(id),
               "at most the " + std::to_string(left) + " bytes that the file still has",
               std::to_string(length));
  std::string bytes(length, '\0');
  from.next(bytes.data(), bytes.size());
  return bytes;
}

}  // namespace

vocabulary read_llm_c_tokenizer(input_file& from) {
  const bool is_first = version_of(from) == first_tokenizer_kind.version;
  const file_header header = read_header(from, is_first ? first_tokenizer_kind : tokenizer_kind);
  const std::int32_t tokens = header[2];
  // Each has its length and at least one byte.
  from.require_between("number of tokens", 1, (from.size() - header_bytes) / 2, tokens);
  const std::int32_t end_of_text = is_first ? gpt2_end_of_text : header[3];
  from.require_between("token that ends a text", 0, tokens - 1, end_of_text);
  vocabulary_builder builder(from, static_cast<std::size_t>(tokens));
  for (std::int32_t id = 0; id < tokens; ++id) {
    std::string bytes = next_token(from, id);
    if (id == end_of_text) {
      builder.add_special(id, std::move(bytes));
    } else {
      builder.add(id, std::move(bytes));
    }
  }
  from.require_size(from.offset());
  vocabulary words = builder.finish();
  words.end_of_text = end_of_text;
  return words;
}

}  // namespace gpt2_trainer
