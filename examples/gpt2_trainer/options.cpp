#include "options.hpp"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <sstream>
#include <utility>

#include <llmc/version.hpp>

#include "gpt2/input_error.hpp"
#include "gpt2/run/choice.hpp"

namespace gpt2_trainer {
namespace {

constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

/// CLI11 shows numbers in its own forms; these are the ones that people type.
std::string shown(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

std::string range(const std::string& least, const std::string& most) {
  return most.empty() ? "at least " + least : "between " + least + " and " + most;
}

CLI::Validator integer_between(std::int64_t least, std::int64_t most) {
  const std::string wanted =
      range(std::to_string(least), most == unlimited ? "" : std::to_string(most));
  const auto check = [=](std::string& text) -> std::string {
    char* end = nullptr;
    errno = 0;
    const std::int64_t value = std::strtoll(text.c_str(), &end, 10);
    const bool whole = !text.empty() && *end == '\0' && errno == 0;
    if (whole && value >= least && value <= most) return "";
    return "must be an integer " + wanted + ", got '" + text + "'";
  };
  return CLI::Validator(check, "");
}

CLI::Validator number_between(double least, double most) {
  const std::string wanted = range(shown(least), std::isinf(most) ? "" : shown(most));
  const auto check = [=](std::string& text) -> std::string {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const bool whole = !text.empty() && *end == '\0' && std::isfinite(value);
    if (whole && value >= least && value <= most) return "";
    return "must be a number " + wanted + ", got '" + text + "'";
  };
  return CLI::Validator(check, "");
}

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Adds options under one heading of --help. Each description ends with the default in brackets.
class option_group {
 public:
  option_group(CLI::App& app, std::string heading) : app_(app), heading_(std::move(heading)) {}

  CLI::Option* text(const char* name, std::string& value, const char* type,
                    const std::string& description) {
    return finish(app_.add_option(name, value, description), type);
  }

  template <class Integer>
  void integer(const char* name, Integer& value, std::int64_t least, const std::string& description,
               std::int64_t most = unlimited) {
    finish(app_.add_option(name, value, description), "N")->check(integer_between(least, most));
  }

  template <class Number>
  void number(const char* name, Number& value, double least, double most,
              const std::string& description) {
    finish(app_.add_option(name, value, description), "X")->check(number_between(least, most));
  }

  template <class Set>
  CLI::Option* function(const char* name, Set set, const char* type,
                        const std::string& description) {
    return finish(app_.add_option_function<std::string>(name, set, description), type);
  }

  template <class Enum, std::size_t Count>
  void choice(const char* name, Enum& value, const std::array<Enum, Count>& choices,
              const std::string& description) {
    const auto set = [&value, name, choices](const std::string& text) {
      try {
        value = parse_choice(choices, text);
      } catch (const input_error& error) {
        throw CLI::ValidationError(name, error.what());
      }
    };
    function(name, set, joined_words(choices, "|").c_str(), description);
  }

 private:
  CLI::Option* finish(CLI::Option* option, const std::string& type) {
    return option->type_name(type)->group(heading_);
  }

  CLI::App& app_;
  std::string heading_;
};

void add_data_options(CLI::App& app, run_options& o) {
  option_group group(app, "Data");
  group.text("--data", o.data, "PATH|GLOB",
             "UTF-8 text: a file, or a folder with all below it. Tokens are\n"
             "bytes. Or llm.c's token shards, by pattern: 'fineweb_train_*.bin'\n"
             "[llmc's own documentation and headers]");
  group.text("--val", o.val, "PATH|GLOB",
             "validation data, of the same kind [the end of --data if that\n"
             "is text; none with shards]");
  group.number("--val-fraction", o.val_fraction, 0, 0.5,
               "part of the text that is kept for validation; 0: none [0.05]");
  group.choice("--order", o.order, token_orders, "of the sequences within an epoch [shuffled]");
  group.integer("--vocabulary", o.vocabulary, 1,
                "tokens that a model from scratch knows, with shards [50257]", 1 << 24);
}

void add_model_options(CLI::App& app, run_options& o) {
  option_group group(app, "Model");
  group.text("--init", o.init, "dN",
             "GPT-2 of N layers from scratch, 6 to 48: d12 is GPT-2 124M, d24\n"
             "350M, d36 774M, d48 1558M; context 1024 [a small model]");
  group.integer("--layers", o.layers, 1, "layers of a model from scratch", 1 << 16);
  group.integer("--heads", o.heads, 1, "attention heads, a divisor of the channels", 1 << 16);
  group.integer("--channels", o.channels, 1, "width of the model", 1 << 16);
  group.integer("--context", o.context, 1, "longest sequence that the model can see", 1 << 24);
  group.text("--checkpoint", o.checkpoint, "FILE", "start from an FP32 checkpoint of llm.c's");
}

void add_batch_options(CLI::App& app, run_options& o) {
  option_group group(app, "Batch");
  group.integer("-b,--batch", o.batch, 1, "sequences that are computed at once, B [by the model]",
                1 << 20);
  group.integer("-t,--sequence", o.sequence, 1, "tokens of each, T [the model's context]", 1 << 24);
  group.integer("--total-batch", o.total_batch, 1,
                "tokens of a step, a multiple of B * T; more than that are\n"
                "accumulated [B * T]",
                1 << 30);
  group.integer("--steps", o.steps, 1, "length of the run [by the machine]");
  group.integer("--seed", o.seed, 0, "of the parameters, the order and the samples [42]");
}

void add_optimizer_options(CLI::App& app, run_options& o) {
  option_group group(app, "AdamW");
  group.number("--lr", o.lr, 0, infinity,
               "peak learning rate [3e-4 for 768 channels, more for fewer]");
  group.number("--min-lr", o.min_lr, 0, infinity, "learning rate at the end [a tenth of --lr]");
  group.integer("--warmup", o.warmup, 0,
                "steps that rise to the peak [a tenth of --steps, at most 700]");
  group.choice("--schedule", o.schedule, schedule_kinds, "from the peak to the end [cosine]");
  group.number("--weight-decay", o.weight_decay, 0, infinity, "of matrices only [0.1]");
  group.number("--beta1", o.beta1, 0, 0.999999, "decay of the mean gradient [0.9]");
  group.number("--beta2", o.beta2, 0, 0.999999, "decay of the mean square [0.95]");
  group.number("--clip", o.clip, 0, infinity, "largest gradient norm; 0: no clipping [1]");
}

void add_report_options(CLI::App& app, run_options& o) {
  option_group group(app, "Validation and samples (every n steps and at the end; 0: never)");
  group.integer("--val-every", o.val_every, 0, "steps between validations [a quarter of --steps]");
  group.integer("--val-batches", o.val_batches, 0, "batches of a validation; 0: all [20]");
  group.integer("--sample-every", o.sample_every, 0, "steps between samples [--steps]");
  group.integer("--sample-length", o.sample_length, 1, "tokens of a sample [256]", 1 << 20);
  group.text(
      "--prompt", o.prompt, "TEXT",
      "what samples continue, with text as data [a new line;\nwith llmc's own text '/// The ']");
  group.number("--temperature", o.temperature, 0, 1e6, "0: always the most likely token [0.7]");
  group.integer("--top-k", o.top_k, 0, "only the N most likely tokens; 0: all [40]");
}

void add_output_options(CLI::App& app, run_options& o) {
  option_group group(app, "Checkpoints and logs");
  group.text("--out", o.out, "FOLDER",
             "where checkpoints go [llmc-run, or llmc-run-2 ... if that is used]");
  group.integer("--checkpoint-every", o.checkpoint_every, 0,
                "steps between checkpoints, and at the end; 0: never [--steps]");
  group
      .text("--resume", o.resume, "[PATH]",
            "go on from a folder's latest checkpoint or from a state file,\n"
            "with the options of that run where no others are given [the\n"
            "latest llmc-run]")
      ->expected(0, 1);
  group.text("--log", o.log, "FILE", "also write each line of the report as JSON");
}

void add_machine_options(CLI::App& app, run_options& o) {
  option_group group(app, "Machine");
  group.choice("--backend", o.backend, backend_choices, "[auto: CUDA where there is a GPU]");
  group.choice("--precision", o.precision, llmc::precisions,
               "of matrix products and attention on the GPU; tf32x3 is as\n"
               "exact as ieee, which uses it in attention [tf32x3]");
  group.choice("--recompute", o.recompute, recompute_choices,
               "in the backward pass instead of keeping it: gelu saves a\n"
               "sixth of the memory of a large batch for 1 to 3% of the time [none]");
  group.text("--plans", o.plans, "FILE|off",
             "which kernel does each matrix product on the GPU: timed at the\n"
             "start where the file does not say it yet, then kept there. The\n"
             "same file gives the same bits; off: a fixed rule, never timed\n"
             "[product_plans.txt in --out]");
}

void add_benchmark_options(CLI::App& app, run_options& o) {
  option_group group(app, "Benchmark and profile");
  const auto add_steps = [&](const char* name, std::optional<std::int64_t>& steps,
                             std::int64_t default_steps, const char* description) {
    const auto set = [&steps, name, default_steps](std::string text) {
      const std::string problem = text.empty() ? "" : integer_between(1, 1 << 20)(text);
      if (!problem.empty()) throw CLI::ValidationError(name, problem);
      steps = text.empty() ? default_steps : std::stoll(text);
    };
    group.function(name, set, "[N]", description)->expected(0, 1);
  };
  add_steps("--benchmark", o.benchmark, default_benchmark_steps,
            "time N steps after some that are not timed, print the times and\n"
            "leave; writes no checkpoint. Without --data the tokens are random\n"
            "ones of GPT-2's vocabulary [50]");
  group.text("--benchmark-json", o.benchmark_json, "FILE", "also write all times as JSON");
  add_steps("--profile", o.profile, default_profile_steps,
            "likewise, but time each layer's calls inside N steps and print\n"
            "them, the largest first, with what they reach of the rates that\n"
            "are measured on this GPU [10]");
  group.text("--profile-json", o.profile_json, "FILE", "also write the profile as JSON");
}

/// What only measures belongs to no run.
void require_one_purpose(const run_options& o) {
  const std::string name = o.benchmark ? "--benchmark" : "--profile";
  if (only_measures(o) && o.resumed) {
    throw input_error(name + " begins anew, so no run may be resumed, got --resume");
  }
  if (o.benchmark && o.profile) {
    throw input_error("--benchmark times steps in which no call is timed, got --profile, too");
  }
  if (!o.benchmark && !o.benchmark_json.empty()) {
    throw input_error("--benchmark-json needs --benchmark, got none");
  }
  if (!o.profile && !o.profile_json.empty()) {
    throw input_error("--profile-json needs --profile, got none");
  }
}

/// A checkpoint has its own extents.
void require_one_model(const CLI::App& app) {
  if (app.count("--checkpoint") == 0) return;
  for (const char* extent :
       {"--init", "--layers", "--heads", "--channels", "--context", "--vocabulary"}) {
    if (app.count(extent) == 0) continue;
    throw input_error(std::string("--checkpoint brings the model's extents, so no other may be ") +
                      "given, got " + extent);
  }
}

/// A relative name would mean another file when the run is resumed from another folder.
void make_absolute(std::string& path) {
  if (!path.empty()) path = std::filesystem::absolute(path).lexically_normal().string();
}

std::string version_text() {
  return "gpt2_train of llmc " + std::to_string(LLMC_VERSION_MAJOR) + "." +
         std::to_string(LLMC_VERSION_MINOR) + "." + std::to_string(LLMC_VERSION_PATCH);
}

constexpr const char* summary =
    "Trains a GPT-2 in FP32, on text of yours or, without options, on llmc's own.\n";
constexpr const char* footer =
    "\nExamples:\n"
    "  gpt2_train                                   a small model on llmc's own text\n"
    "  gpt2_train --data books/ --steps 2000        the same on a folder of text\n"
    "  gpt2_train --data 'train_*.bin' --val val.bin --init d12 -b 4 -t 1024\n"
    "                                               GPT-2 124M on llm.c's token shards\n"
    "  gpt2_train --resume                          go on where the last run stopped\n"
    "  gpt2_train --benchmark --init d12            how long a step of GPT-2 124M takes\n"
    "  gpt2_train --profile --init d12              and what in it takes how long\n"
    "\n"
    "Exit status: 0 done, 1 the run failed, 2 a file or an option is not usable (then\n"
    "nothing was written), 130 interrupted (a checkpoint was written).";

}  // namespace

parsed_options parse_options(int argc, const char* const* argv, const run_options& defaults) {
  run_options o = defaults;
  CLI::App app(summary, "gpt2_train");
  app.footer(footer);
  app.get_formatter()->column_width(34);
  app.set_help_flag("-h,--help", "print this and leave");
  app.set_version_flag("--version", version_text(), "print the version and leave");
  add_data_options(app, o);
  add_model_options(app, o);
  add_batch_options(app, o);
  add_optimizer_options(app, o);
  add_report_options(app, o);
  add_output_options(app, o);
  add_machine_options(app, o);
  add_benchmark_options(app, o);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {o, app.help()};
  } catch (const CLI::CallForVersion& version) {
    return {o, std::string(version.what()) + "\n"};
  } catch (const CLI::ExtrasError& error) {
    throw input_error(std::string(error.what()) + " (--help lists the options)");
  } catch (const CLI::ParseError& error) {
    throw input_error(error.what());
  }
  require_one_model(app);
  o.resumed = app.count("--resume") > 0;
  require_one_purpose(o);
  for (std::string* path : {&o.data, &o.val, &o.checkpoint, &o.out, &o.log, &o.resume, &o.plans,
                            &o.benchmark_json, &o.profile_json}) {
    if (*path != no_plans || path != &o.plans) make_absolute(*path);
  }
  return {o, std::nullopt};
}

}  // namespace gpt2_trainer
