#include "options.hpp"

#include <utility>

#include "gpt2/input_error.hpp"
#include "gpt2/model/config.hpp"
#include "gpt2/run/option_table.hpp"
#include "gpt2/run/program.hpp"

namespace gpt2_trainer {
namespace {

using opt = run_options;
constexpr on_resume keep = on_resume::keep;
constexpr on_resume change = on_resume::change;

/// No text: the small model.
std::string checked_name(const std::string& text) {
  if (!text.empty()) named_config(text, 1);
  return text;
}

const option_table<run_options> table{
    {"Data",
     {path("--data", &opt::data, "PATH|GLOB",
           "UTF-8 text: a file, or a folder with all below it. Tokens are\n"
           "bytes. Or llm.c's token shards, by pattern: 'fineweb_train_*.bin'\n"
           "[llmc's own documentation and headers]",
           change),
      path("--val", &opt::val, "PATH|GLOB",
           "validation data, of the same kind [the end of --data if that\n"
           "is text; none with shards]",
           change),
      number("--val-fraction", &opt::val_fraction, {0, 0.5},
             "part of the text that is kept for validation; 0: none [0.05]", keep),
      choice("--order", &opt::order, token_orders, "of the sequences within an epoch [shuffled]",
             keep),
      integer("--vocabulary", &opt::vocabulary, {1, 1 << 24},
              "tokens that a model from scratch knows, with shards [50257]", keep)}},
    {"Model",
     {entry("--init", &opt::init, "NAME",
            "a model from scratch: dN is a GPT-2 of N layers, 6 to 48 or 60, 72,\n"
            "84: d12 is 124M, d24 350M, d36 774M, d48 1558M; context 1024.\n"
            "gpt3:cN has GPT-3's extents of N channels, 384 to 12288: c768 is\n"
            "125M; context 2048 [a small model]",
            keep, checked_name),
      integer("--layers", &opt::layers, {1, 1 << 16}, "layers of a model from scratch", keep),
      integer("--heads", &opt::heads, {1, 1 << 16}, "attention heads, a divisor of the channels",
              keep),
      integer("--channels", &opt::channels, {1, 1 << 16}, "width of the model", keep),
      integer("--context", &opt::context, {1, 1 << 24}, "longest sequence that the model can see",
              keep),
      path("--checkpoint", &opt::checkpoint, "PATH",
           "start from a model: a checkpoint of llm.c's (FP32 or BF16), a\n"
           "folder of Hugging Face's with model.safetensors and config.json,\n"
           "or the latest checkpoint in a run's folder",
           keep)}},
    {"Batch",
     {integer("-b,--batch", &opt::batch, {1, 1 << 20},
              "sequences that are computed at once, B [by the model]", keep),
      integer("-t,--sequence", &opt::sequence, {1, 1 << 24},
              "tokens of each, T [the model's context]", keep),
      integer("--total-batch", &opt::total_batch, {1, 1 << 30},
              "tokens of a step, a multiple of B * T; more than that are\n"
              "accumulated [B * T]",
              keep),
      integer("--steps", &opt::steps, {1}, "length of the run [by the machine]", change),
      integer("--seed", &opt::seed, {0}, "of the parameters, the order and the samples [42]",
              keep)}},
    {"AdamW",
     {number("--lr", &opt::lr, {0}, "peak learning rate [3e-4 for 768 channels, more for fewer]",
             change),
      number("--min-lr", &opt::min_lr, {0}, "learning rate at the end [a tenth of --lr]", change),
      integer("--warmup", &opt::warmup, {0},
              "steps that rise to the peak [a tenth of --steps, at most 700]", change),
      choice("--schedule", &opt::schedule, schedule_kinds, "from the peak to the end [cosine]",
             change),
      number("--weight-decay", &opt::weight_decay, {0}, "of matrices only [0.1]", change),
      number("--beta1", &opt::beta1, {0, 0.999999f}, "decay of the mean gradient [0.9]", change),
      number("--beta2", &opt::beta2, {0, 0.999999f}, "decay of the mean square [0.95]", change),
      number("--clip", &opt::clip, {0}, "largest gradient norm; 0: no clipping [1]", change)}},
    {"Validation and samples (every n steps and at the end; 0: never)",
     {integer("--val-every", &opt::val_every, {0},
              "steps between validations [a quarter of --steps]", change),
      integer("--val-batches", &opt::val_batches, {0}, "batches of a validation; 0: all [20]",
              change),
      integer("--sample-every", &opt::sample_every, {0}, "steps between samples [--steps]", change),
      integer("--sample-length", &opt::sample_length, {1, 1 << 20}, "tokens of a sample [256]",
              change),
      text("--prompt", &opt::prompt, "TEXT",
           "what samples continue, with text as data; with --resume of a\n"
           "finished run: sample it and leave [a new line; with llmc's\n"
           "own text '/// The ']",
           change),
      number("--temperature", &opt::temperature, {0, 1e6}, "0: always the most likely token [0.7]",
             change),
      integer("--top-k", &opt::top_k, {0}, "only the N most likely tokens; 0: all [40]", change)}},
    {"Checkpoints and logs",
     {path("--out", &opt::out, "FOLDER",
           "where checkpoints go [llmc-run, or llmc-run-2 ... if that is used]", change),
      integer("--checkpoint-every", &opt::checkpoint_every, {0},
              "steps between checkpoints, and at the end; 0: none at all [--steps]", change),
      number("--checkpoint-minutes", &opt::checkpoint_minutes, {0, 1e6},
             "also a checkpoint when the last one is that old; the next one\n"
             "replaces it; 0: never [10]",
             change),
      integer("--keep", &opt::keep, {0}, "only the last N checkpoints; 0: all [0]", change),
      integer("--keep-every", &opt::keep_every, {0},
              "with --keep: also those of every N-th step; 0: none [0]", change),
      with_bare(path("--resume", &opt::resume, "PATH",
                     "go on from a folder's latest checkpoint or from a state file,\n"
                     "with the options of that run where no others are given [the\n"
                     "latest llmc-run]"),
                ""),
      choice("--non-finite", &opt::non_finite, non_finite_choices,
             "checkpoints with numbers that are infinite or none at all: they\n"
             "are neither read nor written unless allowed [refuse]"),
      path("--log", &opt::log, "FILE", "also write each line of the report as JSON", change)}},
    {"Machine",
     {choice("--backend", &opt::backend, backend_choices, "[auto: CUDA where there is a GPU]",
             change),
      choice("--precision", &opt::precision, llmc::precisions,
             "of matrix products and attention on the GPU; tf32x3 is as\n"
             "exact as ieee, which uses it in attention [tf32x3]",
             change),
      choice("--recompute", &opt::recompute, recompute_choices,
             "in the backward pass instead of keeping it: gelu saves a\n"
             "sixth of the memory of a large batch for 1 to 3% of the time [none]",
             change),
      path("--plans", &opt::plans, "FILE|off",
           "which kernel does each matrix product on the GPU: timed at the\n"
           "start where the file does not say it yet, then kept there. The\n"
           "same file gives the same bits; off: a fixed rule, never timed\n"
           "[product_plans.txt in --out]",
           change, no_plans)}},
    {"Benchmark and profile",
     {with_bare(integer("--benchmark", &opt::benchmark, {1, 1 << 20},
                        "time N steps after some that are not timed, print the times and\n"
                        "leave; writes no checkpoint. Without --data the tokens are random\n"
                        "ones of GPT-2's vocabulary [50]"),
                "50"),
      path("--benchmark-json", &opt::benchmark_json, "FILE", "also write all times as JSON"),
      with_bare(integer("--profile", &opt::profile, {1, 1 << 20},
                        "likewise, but time each layer's calls inside N steps and print\n"
                        "them, the largest first, with what they reach of the rates that\n"
                        "are measured on this GPU [10]"),
                "10"),
      path("--profile-json", &opt::profile_json, "FILE", "also write the profile as JSON")}}};

/// A benchmark or a profile is part of no run, and each is made by itself.
void require_one_purpose(const run_options& o) {
  const std::string name = o.benchmark ? "--benchmark" : "--profile";
  if (only_measures(o) && o.resume) {
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

void require_keep(const run_options& o) {
  if (o.keep_every > 0 && o.keep == 0)
    throw input_error("--keep-every needs --keep, which says how many others stay, got none");
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
    "nothing was written), 128 + N stopped by signal N, so 130 by Ctrl-C (a checkpoint was\n"
    "written).";

}  // namespace

parsed_options parse_options(int argc, const char* const* argv, const run_options& defaults) {
  parsed_options parsed{defaults, std::nullopt};
  CLI::App app(summary, "gpt2_train");
  app.footer(footer);
  app.get_formatter()->column_width(34);
  parsed.help =
      parse_command_line(app, table, argc, argv, parsed.options, version_of("gpt2_train"));
  if (parsed.help) return parsed;
  require_one_model(app);
  require_one_purpose(parsed.options);
  require_keep(parsed.options);
  return parsed;
}

schedule schedule_of(const run_options& o) {
  return {o.schedule, as_typed(*o.lr), as_typed(*o.min_lr), *o.warmup, *o.steps};
}

nlohmann::json json_of_options(const run_options& options) {
  return saved_options(table, options);
}

nlohmann::json changed_options(const run_options& from, const run_options& to) {
  return option_changes(table, from, to);
}

std::string to_json(const run_options& options) {
  return json_of_options(options).dump();
}

run_options options_from_json(const std::string& text) {
  return restored_options(table, nlohmann::json::parse(text, nullptr, false));
}

void require_resumable(const run_options& saved, const run_options& now) {
  require_kept(table, saved, now);
}

}  // namespace gpt2_trainer
