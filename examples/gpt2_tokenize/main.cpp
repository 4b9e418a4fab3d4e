/// @file
/// gpt2_tokenize: text to token shards. See --help.
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpt2/data/token_source.hpp"
#include "gpt2/documents/tokenize.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/machine/threads.hpp"
#include "gpt2/run/option_table.hpp"
#include "gpt2/run/program.hpp"
#include "gpt2/run/progress.hpp"
#include "gpt2/run/report.hpp"
#include "gpt2/run/stop_request.hpp"
#include "gpt2/tokens/tokenizer.hpp"
#include "gpt2/tokens/vocabulary_files.hpp"

namespace {

using namespace gpt2_trainer;
namespace fs = std::filesystem;

constexpr const char* program_name = "gpt2_tokenize";

struct tokenize_options {
  std::vector<std::string> inputs;
  std::string tokenizer;

  document_form form = document_form::by_suffix;
  std::string json_field = "text";
  std::string separator;
  bad_line bad_lines = bad_line::refuse;
  invalid_text invalid_utf8 = invalid_text::refuse;

  std::string out;
  double val_fraction = 0.05;
  std::uint64_t seed = 42;
  std::int64_t shard_tokens = 100'000'000;
  token_width token_bits = token_width::automatic;
  existing_shards existing = existing_shards::refuse;

  std::optional<std::int64_t> threads;
  bool quiet = false;
};

/// A text in which \n, \r, \t and \\ stand for what they do in C, since shells have no good way to
/// write a new line.
std::string unescaped(const std::string& text) {
  constexpr std::string_view letters = "nrt\\";
  constexpr std::string_view meanings = "\n\r\t\\";
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\') {
      result += text[at];
      continue;
    }
    const std::size_t which = ++at < text.size() ? letters.find(text[at]) : std::string_view::npos;
    if (which == std::string_view::npos) {
      throw input_error("a backslash must be followed by n, r, t or another one, got " + text);
    }
    result += meanings[which];
  }
  if (result.empty()) throw input_error("must be a text, got none");
  return result;
}

using opt = tokenize_options;

const option_table<tokenize_options> table{
    {"Input",
     {with_required(paths("inputs", &opt::inputs, "PATH|GLOB",
                          "files, and folders with all below them that is text and not hidden")),
      with_required(text("--tokenizer", &opt::tokenizer, "PATH",
                         "tokenizer.json, vocab.json with merges.txt beside it, encoder.json\n"
                         "with vocab.bpe, tiktoken's ranks, or a folder with one of these")),
      choice("--format", &opt::form, document_forms,
             "of the files; auto: JSON lines where the name ends in .jsonl or\n"
             ".ndjson, else text [auto]"),
      text("--json-field", &opt::json_field, "NAME",
           "the string that is a document, in each line of JSON lines [text]"),
      choice("--bad-lines", &opt::bad_lines, bad_lines,
             "of JSON lines: those that are no JSON or lack the string [refuse]"),
      entry("--separator", &opt::separator, "TEXT",
            "of documents in a text file, such as '<|endoftext|>' or '\\n\\n\\n';\n"
            "\\n, \\r, \\t and \\\\ are as in C [none: a file is a document]",
            on_resume::forget, unescaped),
      choice("--invalid-utf8", &opt::invalid_utf8, invalid_texts,
             "text files that are not UTF-8 or hold byte 0: refuse those that\n"
             "are named and pass over those in folders, or keep all of them,\n"
             "byte by byte [refuse]")}},
    {"Output",
     {with_required(text("--out", &opt::out, "NAME",
                         "shards are NAME_train_000001.bin, ... and NAME_val_000000.bin, ...")),
      number("--val-fraction", &opt::val_fraction, {0, 1},
             "part of the documents that is for validation [0.05]"),
      integer("--seed", &opt::seed, {0}, "of which documents these are [42]"),
      integer("--shard-tokens", &opt::shard_tokens, {1, (std::int64_t{1} << 31) - 1},
              "tokens of a shard; the last one has the rest [100000000]"),
      choice("--token-bits", &opt::token_bits, token_widths,
             "of a token in a shard [auto: 16 if the vocabulary allows it]"),
      choice("--existing", &opt::existing, existing_shards_choices,
             "shards of that NAME; they are replaced when the new ones are\n"
             "complete [refuse]")}},
    {"Machine",
     {integer("--threads", &opt::threads, {1, 1024},
              "that tokenise at the same time; the result does not depend on\n"
              "it [all processors that this process may use]"),
      flag("--quiet", &opt::quiet, "do not say how far it is")}}};

constexpr const char* summary =
    "Makes token shards in llm.c's format of text, for gpt2_train --data and others.\n";
constexpr const char* footer =
    "\nExamples:\n"
    "  gpt2_tokenize --tokenizer gpt2/ --out data/books books/\n"
    "  gpt2_tokenize --tokenizer gpt2/ --out data/web 'web-*.jsonl' --val-fraction 0.001\n"
    "  gpt2_tokenize --tokenizer gpt2/ --out data/stories stories.txt \\\n"
    "      --separator '\\n<|endoftext|>\\n'\n"
    "  gpt2_train --data 'data/books_train_*.bin' --val 'data/books_val_*.bin'\n"
    "\n"
    "Exit status: 0 done, 1 it failed, 2 a file or an option is not usable, 128 + N stopped\n"
    "by signal N. Unless it is 0 nothing was written: all shards appear together at the end.";

std::vector<fs::path> all_paths(const std::vector<std::string>& patterns) {
  std::vector<fs::path> paths;
  for (const std::string& pattern : patterns) {
    const std::vector<fs::path> matching = matching_paths(pattern);
    paths.insert(paths.end(), matching.begin(), matching.end());
  }
  return paths;
}

tokenizer open_tokenizer(const std::string& path) {
  tokenizer words(read_vocabulary(path));
  for (const std::string& note : words.words().notes) {
    std::fprintf(stderr, "%s: %s\n", program_name, note.c_str());
  }
  return words;
}

std::string shards_text(const char* purpose, const written_shards& shards) {
  const std::size_t count = shards.paths.size();
  return std::string("; ") + purpose + " " + std::to_string(count) +
         (count == 1 ? " shard, " : " shards, ") + grouped(shards.tokens) + " tokens";
}

void print_summary(const tokenize_options& o, const tokenized& all, const shard_writer& shards,
                   std::int64_t bytes, double seconds) {
  const double megabytes = static_cast<double>(bytes) / 1e6;
  char numbers[96];
  std::snprintf(numbers, sizeof numbers, "; %.1f MB in %.1f s, %.1f MB/s", megabytes, seconds,
                megabytes / seconds);
  char ratio[48];
  std::snprintf(ratio, sizeof ratio, " tokens, %.2f bytes a token",
                static_cast<double>(all.text_bytes) / static_cast<double>(all.tokens));
  std::string line = o.out + ": " + grouped(all.documents) +
                     (all.documents == 1 ? " document, " : " documents, ") + grouped(all.tokens) +
                     ratio + shards_text("train", shards.training()) +
                     shards_text("val", shards.validation()) + numbers;
  const std::string passed_over = all.passed_over.text();
  if (!passed_over.empty()) line += "; passed over: " + passed_over;
  if (all.skipped_lines > 0) line += "; bad lines: " + grouped(all.skipped_lines);
  std::printf("%s\n", line.c_str());
  if (o.val_fraction > 0 && shards.validation().documents == 0) {
    std::fprintf(stderr, "%s: none of the documents fell to validation (--val-fraction%s)\n",
                 program_name, all.documents == 1 ? "; --separator says where documents end" : "");
  }
}

int tokenize(const tokenize_options& o) {
  const document_files files = find_documents(all_paths(o.inputs));
  const tokenizer words = open_tokenizer(o.tokenizer);
  document_rules rules;
  rules.form = o.form;
  rules.json_field = o.json_field;
  rules.bad = o.bad_lines;
  rules.separator = o.separator;
  rules.invalid = o.invalid_utf8;
  shard_writer shards({o.out, o.shard_tokens, o.token_bits, o.val_fraction, o.seed, o.existing},
                      words.size());
  const stop_request stop(program_name, "leaving nothing behind");
  stop.listen();
  progress bar(program_name, files.bytes(), o.quiet);
  const tokenized all =
      tokenize(files, rules, words, static_cast<int>(o.threads.value_or(usable_processors())),
               shards, [&](std::int64_t done) {
                 bar.show(done);
                 return !stop.is_made();
               });
  if (all.stopped) return 128 + stop.signal();
  shards.commit();
  bar.end();
  print_summary(o, all, shards, files.bytes(), bar.seconds());
  return 0;
}

int run(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // then a file that grows past a limit is an error, not the end
  tokenize_options options;
  CLI::App app(summary, program_name);
  app.footer(footer);
  app.get_formatter()->column_width(34);
  if (const auto help =
          parse_command_line(app, table, argc, argv, options, version_of(program_name))) {
    std::fputs(help->c_str(), stdout);
    return 0;
  }
  return tokenize(options);
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(program_name, argv, [&] { return run(argc, argv); });
}
