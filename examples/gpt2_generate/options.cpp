#include "options.hpp"

#include <vector>

#include "gpt2/input_error.hpp"
#include "gpt2/run/option_table.hpp"
#include "gpt2/run/program.hpp"

namespace gpt2_trainer {
namespace {

using opt = generate_options;

constexpr const char* standard_input = "-";

/// Not a path where it is a word of text_codec's.
std::string checked_tokenizer(const std::string& text) {
  return text == "bytes" || text == "numbers" ? text : absolute_path(text);
}

/// The token's number, or "ignore".
std::string checked_end_of_text(const std::string& text) {
  if (text != "ignore") parse_number<std::int64_t>(text, {0, 1 << 24});
  return text;
}

std::string checked_stop(const std::string& text) {
  if (text.empty()) throw input_error("must have at least one character, got none");
  return text;
}

const option_table<generate_options> table{
    {"Model",
     {with_required(path("model", &opt::model, "MODEL",
                         "the folder of a run of gpt2_train, of which the latest checkpoint is\n"
                         "taken, or of Hugging Face's GPT-2; or a checkpoint of llm.c's")),
      entry("--tokenizer", &opt::tokenizer, "PATH|bytes|numbers",
            "tokenizer.json, vocab.json, tiktoken's ranks, or a folder with one of\n"
            "them; bytes; or numbers with spaces between them [what lies beside\n"
            "the model, else bytes for a model of 256 tokens]",
            on_resume::forget, checked_tokenizer)}},
    {"Prompts (without one: a new text)",
     {text("-p,--prompt", &opt::prompt, "TEXT", "what the text begins with"),
      path("--prompt-file", &opt::prompt_file, "FILE", "the same from a file; -: standard input",
           on_resume::forget, standard_input),
      path("--prompts", &opt::prompts, "FILE", "a prompt in each line; -: standard input",
           on_resume::forget, standard_input),
      path("--prompts-json", &opt::prompts_json, "FILE",
           "in each line a text as JSON, or an object whose \"prompt\" it is;\n"
           "-: standard input",
           on_resume::forget, standard_input),
      flag("-i,--interactive", &opt::interactive,
           "go on with each line that is typed; the model sees all of the\n"
           "conversation")}},
    {"Choice of tokens",
     {number("--temperature", &opt::temperature, {0, 1e6}, "0: always the most likely token [0.7]"),
      integer("--top-k", &opt::top_k, {0}, "only the N most likely tokens; 0: all [40]"),
      number("--top-p", &opt::top_p, {0, 1},
             "only the most likely tokens that have this probability together;\n"
             "1: all [1]"),
      number("--repetition-penalty", &opt::repetition_penalty, {1e-3, 1e3},
             "makes tokens of the text so far less likely if it is above 1 [1]"),
      integer("--seed", &opt::seed, {0}, "of what is drawn [42]")}},
    {"Length and number of texts",
     {integer("-n,--length", &opt::length, {1, 1 << 30}, "the most tokens of a text [256]"),
      integer("--samples", &opt::samples, {1, 1 << 20}, "texts for each prompt [1]"),
      entry("--stop", &opt::stop, "TEXT", "ends a text before these characters [none]",
            on_resume::forget, checked_stop),
      entry("--end-of-text", &opt::end_of_text, "N|ignore",
            "the token that ends a text; ignore: none does [the tokenizer's, of\n"
            "bytes 0]",
            on_resume::forget, checked_end_of_text)}},
    {"Output",
     {flag("--echo", &opt::echo, "print the prompt, too"),
      flag("--json", &opt::json, "print a line of JSON for each text"),
      flag("--timing", &opt::timing, "say on standard error how long it took")}},
    {"Machine",
     {integer("-b,--batch", &opt::batch, {1, 1 << 16}, "texts that are continued at once [16]"),
      choice("--backend", &opt::backend, backend_choices, "[auto: CUDA where there is a GPU]"),
      choice("--precision", &opt::precision, llmc::precisions,
             "of matrix products and attention on the GPU [ieee]")}}};

/// Prompts come from one place.
void require_one_source(const CLI::App& app, const generate_options& o) {
  std::vector<std::string> given;
  for (const char* source : {"--prompt", "--prompt-file", "--prompts", "--prompts-json"}) {
    if (app.count(source) > 0) given.push_back(source);
  }
  if (given.size() > 1) {
    throw input_error("prompts must come from one place, got " + given[0] + " and " + given[1]);
  }
  if (!o.interactive) return;
  for (const char* other : {"--prompts", "--prompts-json", "--samples", "--json"}) {
    if (app.count(other) == 0) continue;
    throw input_error(std::string("--interactive continues one text, got ") + other + ", too");
  }
  if (o.prompt_file == standard_input) {
    throw input_error("--interactive reads lines from standard input, got --prompt-file -, too");
  }
}

constexpr const char* summary = "Continues texts with a GPT-2.\n";
constexpr const char* footer =
    "\nExamples:\n"
    "  gpt2_generate llmc-run -p 'Once upon a time'\n"
    "  gpt2_generate model.bin -p 'Roses are' --samples 5 --temperature 1 --top-p 0.9\n"
    "  gpt2_generate llmc-run --prompts questions.txt --json > answers.jsonl\n"
    "  gpt2_generate gpt2/ -p 'Once upon a time'        a folder of Hugging Face's\n"
    "  gpt2_generate llmc-run --interactive\n"
    "\n"
    "The same model, prompt, options and seed give the same text, whatever is continued beside\n"
    "it. Exit status: 0 done, 1 failed, 2 a file or an option is not usable (then nothing was\n"
    "printed).";

}  // namespace

parsed_generate_options parse_generate_options(int argc, const char* const* argv) {
  parsed_generate_options parsed;
  CLI::App app(summary, "gpt2_generate");
  app.footer(footer);
  app.get_formatter()->column_width(34);
  parsed.help =
      parse_command_line(app, table, argc, argv, parsed.options, version_of("gpt2_generate"));
  if (!parsed.help) require_one_source(app, parsed.options);
  return parsed;
}

}  // namespace gpt2_trainer
