/// @file
/// gpt2_eval: how well a model predicts text, and chooses among completions. See --help.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "gpt2/data/corpus.hpp"
#include "gpt2/data/text.hpp"
#include "gpt2/files/file.hpp"
#include "gpt2/files/writable.hpp"
#include "gpt2/hugging_face/stored_model.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/machine/machine.hpp"
#include "gpt2/run/option_table.hpp"
#include "gpt2/run/program.hpp"
#include "gpt2/tokens/vocabulary_files.hpp"
#include "gpt2_eval/progress.hpp"
#include "gpt2_eval/results.hpp"

namespace {

using namespace gpt2_trainer;
namespace fs = std::filesystem;

constexpr const char* program = "gpt2_eval";
constexpr const char* to_standard_output = "-";

struct eval_options {
  std::string model;
  std::string data;
  std::string hellaswag;
  std::string tokenizer;
  std::int64_t batch = 8;
  std::optional<std::int64_t> sequence;
  std::optional<std::int64_t> stride;
  backend_choice backend = backend_choice::automatic;
  llmc::precision precision = llmc::precision::tf32x3;
  std::string json;
};

constexpr const char* summary =
    "Says how well a model predicts text (mean loss, perplexity, bits per byte), and how often it "
    "finds the right one of several completions (HellaSwag). docs/evaluation.md says which tokens "
    "count.";

using opt = eval_options;
constexpr std::int64_t most = 1 << 20;

const option_table<eval_options> table{
    {"Model",
     {with_required(text("model", &opt::model, "MODEL",
                         "a folder of gpt2_train's (its latest checkpoint) or of Hugging\n"
                         "Face's, or a checkpoint of llm.c's")),
      path("--tokenizer", &opt::tokenizer, "FILE",
           "tokenizer.json, vocab.json, tiktoken's ranks, or a folder with\n"
           "one of them [the model's folder; for 256 tokens: each is a byte]")}},
    {"What is evaluated",
     {text("--data", &opt::data, "PATH|GLOB",
           "UTF-8 text, a file or a folder with all below it; or token shards\n"
           "of llm.c's, by pattern"),
      text("--hellaswag", &opt::hellaswag, "FILE",
           "multiple choice: llm.c's hellaswag_val.bin, or the lines of JSON\n"
           "that HellaSwag comes in")}},
    {"How",
     {integer("-t,--sequence", &opt::sequence, {1, most},
              "tokens that the model sees at a time [its context]"),
      integer("--stride", &opt::stride, {1, most},
              "tokens between windows: each token is predicted from at least\n"
              "sequence - stride + 1 before it [sequence]"),
      integer("-b,--batch", &opt::batch, {1, most},
              "sequences at a time; changes the speed only [8]"),
      choice("--backend", &opt::backend, backend_choices, "[auto: CUDA where there is a device]"),
      choice("--precision", &opt::precision, llmc::precisions,
             "of matrix products on CUDA [tf32x3]"),
      path("--json", &opt::json, "FILE|-",
           "the results for programs; -: to standard output, instead of the\ntable",
           on_resume::forget, to_standard_output)}}};

// ---- what the options name ----

void say(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) std::fprintf(stderr, "%s: %s\n", program, note.c_str());
}

/// By --tokenizer, or by the files beside the model.
std::optional<text_tokens> open_text(const eval_options& o, const stored_model& model) {
  const fs::path path = o.tokenizer.empty() ? model.tokenizer : fs::path(o.tokenizer);
  const std::int64_t tokens = model.config.vocabulary;
  if (path.empty()) return tokens == byte_vocabulary ? std::optional(text_tokens()) : std::nullopt;
  vocabulary words = read_vocabulary(path);
  say(words.notes);
  tokenizer made(std::move(words));
  if (made.size() > tokens) {
    throw input_error(path.string() + ": at most the model's " + std::to_string(tokens) +
                      " tokens are wanted, got " + std::to_string(made.size()));
  }
  return text_tokens(std::move(made));
}

std::unique_ptr<token_source> open_data(const eval_options& o, const gpt2_config& config,
                                        const std::optional<text_tokens>& text) {
  const std::vector<fs::path> paths = matching_paths(o.data);
  std::unique_ptr<token_source> source;
  if (are_shards(paths)) {
    source = make_shard_source(paths, config.vocabulary, shard_reading::as_needed);
  } else if (text) {
    source = make_documents(read_text(paths), *text);
  } else {
    throw input_error(o.data + ": for text --tokenizer is wanted, as the model's " +
                      std::to_string(config.vocabulary) + " tokens are not bytes, got none");
  }
  if (scored_tokens(*source) > 0) return source;
  throw input_error(o.data + ": a token and one after it to predict are wanted, got " +
                    std::to_string(source->tokens()) + " tokens in " +
                    std::to_string(source->shards().size()) + " documents");
}

void require_consistent(const eval_options& o) {
  if (o.data.empty() && o.hellaswag.empty()) {
    throw input_error("--data or --hellaswag is wanted, got neither");
  }
  if (o.json.empty() || o.json == to_standard_output) return;
  if (fs::is_directory(o.json)) throw input_error("--json must be a file, got folder " + o.json);
  require_own_json(o.json, evaluation_schema);
  require_writable(fs::path(o.json).parent_path(), "--json");
}

void require_at_most(const char* option, std::int64_t value, std::int64_t limit, const char* what) {
  if (value <= limit) return;
  throw input_error(std::string(option) + " must be at most " + what + ", " +
                    std::to_string(limit) + ", got " + std::to_string(value));
}

// ---- the work ----

/// Seconds that the work takes.
template <class Work>
double timed(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

evaluation_results evaluate(const eval_options& o) {
  require_consistent(o);
  const stored_model stored = open_model(o.model);
  say(stored.notes);
  const gpt2_config& config = stored.config;
  const std::int64_t sequence = o.sequence.value_or(config.max_sequence);
  const std::int64_t stride = o.stride.value_or(sequence);
  require_at_most("--sequence", sequence, config.max_sequence, "the model's context");
  require_at_most("--stride", stride, sequence, "the sequence");

  evaluation_results results{o.model, stored.kind, config, "", std::nullopt, std::nullopt};
  const std::optional<text_tokens> text = open_text(o, stored);
  const std::unique_ptr<token_source> source =
      o.data.empty() ? nullptr : open_data(o, config, text);
  if (source) {
    results.data = data_results{
        o.data, static_cast<std::int64_t>(source->shards().size()), sequence, stride, {}, 0};
  }
  if (!o.hellaswag.empty()) {
    results.choices = choice_results{
        o.hellaswag, read_choices(o.hellaswag, config.vocabulary, text), {}, 0, sequence, 0};
  }
  const std::optional<choice_rows> rows =
      results.choices ? std::optional(choice_rows(results.choices->examples, sequence, o.hellaswag))
                      : std::nullopt;

  std::string note;
  const auto machine = choose_machine(o.backend, o.precision, note);
  results.machine = machine->description() + (note.empty() ? "" : " (" + note + ")");
  gpt2<float> model(config, *machine, o.batch, sequence);
  model.set_parameters(stored.parameters());
  if (results.data) {
    progress_line progress(o.data, scored_tokens(*source), "tokens");
    results.data->seconds = timed([&] {
      results.data->found = predict(model, o.batch, window_walk(*source, sequence, stride),
                                    text ? text->bytes(config.vocabulary) : bytes_of_tokens(),
                                    [&](std::int64_t done) { progress.show(done); });
    });
  }
  if (rows) {
    choice_results& choices = *results.choices;
    choices.cut = rows->cut();
    progress_line progress(o.hellaswag, rows->rows(), "completions");
    choices.seconds = timed([&] {
      choices.judged = judge(model, o.batch, choices.examples, *rows,
                             [&](std::int64_t done) { progress.show(done); });
    });
  }
  return results;
}

int run(int argc, char** argv) {
  eval_options o;
  CLI::App app(summary, program);
  if (const auto help = parse_command_line(app, table, argc, argv, o, version_of(program))) {
    std::fputs(help->c_str(), stdout);
    return 0;
  }
  const evaluation_results results = evaluate(o);
  const bool for_programs = o.json == to_standard_output;
  std::fputs((for_programs ? json_of(results) : text_of(results)).c_str(), stdout);
  if (!o.json.empty() && !for_programs) write_file(o.json, json_of(results));
  if (!results.are_finite()) throw std::runtime_error("not all losses are finite");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(program, argv, [&] { return run(argc, argv); });
}
