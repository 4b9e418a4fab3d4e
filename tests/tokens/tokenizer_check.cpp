/// @file
/// What compare_tokenizers.py runs:
///
///     tokenizer_check VOCABULARY DOCUMENTS TOKENS   encodes and decodes, prints seconds as JSON
///     tokenizer_check --classes OUT                 the class of each code point, a byte each
///
/// A list of documents or tokens is for each its length as 64 bits, then bytes or 32-bit ids.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>

#include "fixture_vocabulary.hpp"
#include "gpt2/tokens/character_class.hpp"
#include "gpt2/tokens/tokenizer.hpp"

namespace {

using namespace gpt2_trainer;

std::vector<std::string> read_documents(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::string> documents;
  for (std::uint64_t size = 0; file.read(reinterpret_cast<char*>(&size), sizeof size);) {
    documents.emplace_back(size, '\0');
    file.read(documents.back().data(), static_cast<std::streamsize>(size));
  }
  return documents;
}

void write_classes(const char* path) {
  std::ofstream file(path, std::ios::binary);
  for (char32_t code = 0; code < 0x110000; ++code) file.put(static_cast<char>(class_of(code)));
}

template <class Work>
double seconds_of(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int compare(const char* vocabulary_folder, const char* documents_path, const char* tokens_path) {
  const std::vector<std::string> documents = read_documents(documents_path);
  std::optional<tokenizer> tokenizer;
  const double load =
      seconds_of([&] { tokenizer.emplace(llmc_test::fixture_vocabulary(vocabulary_folder)); });
  std::vector<std::vector<std::int32_t>> tokens(documents.size());
  std::vector<std::string> decoded(documents.size());
  std::vector<std::string> copied(documents.size());
  double encode = 1e9, decode = 1e9, copy = 1e9;
  for (int time = 0; time < 3; ++time) {  // the best of three: the machine has other work
    encode = std::min(encode, seconds_of([&] {
                        for (std::size_t i = 0; i < documents.size(); ++i)
                          tokens[i] = tokenizer->encode(documents[i]);
                      }));
    decode = std::min(decode, seconds_of([&] {
                        for (std::size_t i = 0; i < documents.size(); ++i)
                          decoded[i] = tokenizer->decode(tokens[i]);
                      }));
    copy = std::min(copy, seconds_of([&] {
                      for (std::size_t i = 0; i < documents.size(); ++i)
                        copied[i] = std::string(documents[i]);
                    }));
  }
  std::ofstream file(tokens_path, std::ios::binary);
  for (const std::vector<std::int32_t>& of_document : tokens) {
    const std::uint64_t count = of_document.size();
    file.write(reinterpret_cast<const char*>(&count), sizeof count);
    file.write(reinterpret_cast<const char*>(of_document.data()),
               static_cast<std::streamsize>(count * sizeof(std::int32_t)));
  }
  std::printf(
      "{\"load\": %.6f, \"encode\": %.6f, \"decode\": %.6f, \"copy\": %.6f, \"same\": %s}\n", load,
      encode, decode, copy, decoded == documents ? "true" : "false");
  return 0;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count == 3 && std::strcmp(arguments[1], "--classes") == 0) {
    write_classes(arguments[2]);
    return 0;
  }
  if (count == 4) return compare(arguments[1], arguments[2], arguments[3]);
  std::cerr << "usage: tokenizer_check VOCABULARY DOCUMENTS TOKENS | --classes OUT\n";
  return 2;
} catch (const std::exception& error) {
  std::cerr << "tokenizer_check: " << error.what() << '\n';
  return 1;
}
