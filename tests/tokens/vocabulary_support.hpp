/// @file
/// A vocabulary of a few merges, in each form, to be changed where a test wants something wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "../trainer/temporary_folder.hpp"
#include "gpt2/tokens/forms/byte_alphabet.hpp"
#include "gpt2/tokens/vocabulary.hpp"

namespace llmc_test {

/// The bytes, then " t", "he", " the", then the end of text.
inline const std::vector<std::string> small_tokens{" t", "he", " the"};
inline constexpr std::int32_t small_end_of_text = 259;

inline nlohmann::json small_ids() {
  nlohmann::json ids = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte) {
    ids[gpt2_trainer::alphabet_of_bytes(std::string(1, static_cast<char>(byte)))] = byte;
  }
  for (const std::string& token : small_tokens) {
    ids[gpt2_trainer::alphabet_of_bytes(token)] = ids.size();
  }
  ids["<|endoftext|>"] = small_end_of_text;
  return ids;
}

inline const std::string small_merges = "#version: 0.2\nĠ t\nh e\nĠt he\n";

inline nlohmann::json small_tokenizer() {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens",
           {{{"id", small_end_of_text},
             {"content", "<|endoftext|>"},
             {"single_word", false},
             {"lstrip", false},
             {"rstrip", false},
             {"normalized", true},
             {"special", true}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}}},
          {"post_processor",
           {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", false}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"vocab", small_ids()},
            {"merges", {"Ġ t", "h e", "Ġt he"}}}}};
}

/// llm.c's file.
inline std::string small_tokenizer_bin(std::int32_t version = 2, std::int32_t tokens = 260,
                                       std::int32_t end_of_text = small_end_of_text) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = 20240328;
  header[1] = version;
  header[2] = tokens;
  header[3] = end_of_text;
  std::string text(reinterpret_cast<const char*>(header.data()), 1024);
  const auto add = [&text](const std::string& token) {
    text += static_cast<char>(token.size());
    text += token;
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  for (const std::string& token : small_tokens) add(token);
  add("<|endoftext|>");
  return text;
}

inline std::string merges_text(const gpt2_trainer::vocabulary& words) {
  std::string text;
  for (const gpt2_trainer::token_merge& merge : words.merges) {
    text += std::to_string(merge.left) + " " + std::to_string(merge.right) + " " +
            std::to_string(merge.merged) + "\n";
  }
  return text;
}

}  // namespace llmc_test
