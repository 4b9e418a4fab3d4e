/// @file
/// gpt2_export: writes a model in the form that transformers loads, or in llm.c's. See --help.
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpt2/files/file.hpp"
#include "gpt2/files/model_file.hpp"
#include "gpt2/hugging_face/config.hpp"
#include "gpt2/hugging_face/model_folder.hpp"
#include "gpt2/hugging_face/stored_model.hpp"
#include "gpt2/hugging_face/tokenizer_files.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/run/option_table.hpp"
#include "gpt2/run/program.hpp"

namespace {

using namespace gpt2_trainer;
namespace fs = std::filesystem;

constexpr const char* program_name = "gpt2_export";

enum class existing_model { refuse, replace };

constexpr const char* to_string(existing_model choice) {
  switch (choice) {
    case existing_model::refuse: return "refuse";
    case existing_model::replace: return "replace";
  }
  return "unknown";
}

constexpr std::array existing_models{existing_model::refuse, existing_model::replace};

struct export_options {
  std::string from;
  std::string to;
  std::string tokenizer;
  existing_model existing = existing_model::refuse;
  non_finite_choice non_finite = non_finite_choice::refuse;
};

void note(const std::string& text) {
  std::fprintf(stderr, "%s: %s\n", program_name, text.c_str());
}

/// Files that get their names only when all of them are on the disk. A folder that was made for
/// them goes again if that fails.
class new_files {
 public:
  explicit new_files(const fs::path& folder)
      : folder_(folder), is_new_(fs::create_directories(folder)) {}
  ~new_files() {
    files_.clear();
    std::error_code ignored;  // one that is not empty stays
    if (is_new_) fs::remove(folder_, ignored);
  }

  output_file& add(const std::string& name) {
    return *files_.emplace_back(std::make_unique<output_file>(folder_ / name));
  }
  void add(const std::string& name, const std::string& text) {
    add(name).write(text.data(), text.size());
  }

  void commit() {
    for (const auto& each : files_) each->sync();
    for (const auto& each : files_) each->commit();
    is_new_ = false;
  }

 private:
  fs::path folder_;
  bool is_new_;
  std::vector<std::unique_ptr<output_file>> files_;
};

/// Requires that nothing that is there is lost.
void require_new(const export_options& o, const stored_model& model) {
  const bool is_there = fs::is_directory(o.to) ? !fs::is_empty(o.to) : fs::exists(o.to);
  if (is_there && o.existing == existing_model::refuse) {
    throw input_error(o.to +
                      ": a new file or an empty folder is wanted, got one with something in "
                      "it (--existing replace replaces the model there)");
  }
  for (const fs::path& file : model.files) {
    const bool is_input = fs::is_directory(o.to) ? fs::equivalent(file.parent_path(), o.to)
                                                 : is_there && fs::equivalent(file, o.to);
    if (is_input) throw input_error(o.to + ": another place than that of the model is wanted");
  }
}

std::vector<tokenizer_file> tokenizer_of(const export_options& o, const stored_model& model) {
  if (!o.tokenizer.empty()) {
    const std::vector<tokenizer_file> files = tokenizer_files(o.tokenizer);
    if (files.empty()) {
      throw input_error(
          "--tokenizer must be tokenizer.json, or vocab.json with merges.txt beside "
          "it, or a folder with them, got " +
          o.tokenizer);
    }
    return files;
  }
  return model.tokenizer.empty() ? std::vector<tokenizer_file>{} : tokenizer_files(model.tokenizer);
}

void export_folder(const export_options& o, const stored_model& model) {
  const std::vector<tokenizer_file> tokenizer = tokenizer_of(o, model);
  const std::vector<float> parameters = model.parameters();
  new_files files(o.to);
  for (const tokenizer_file& each : tokenizer) files.add(each.name, read_file(each.from));
  files.add(config_name, hugging_face_config_text(model.config, model.end_of_text));
  // Last, since it makes the folder a model's.
  write_safetensors(files.add(safetensors_name), model.config, parameters);
  files.commit();
  if (tokenizer.empty()) note("no tokenizer is known, so " + o.to + " has none: see --tokenizer");
}

void export_llm_c(const export_options& o, const stored_model& model) {
  if (!o.tokenizer.empty()) {
    throw input_error("--tokenizer goes with a folder, got it with " + o.to);
  }
  const model_file file{model.config, model.parameters()};
  const fs::path path = fs::absolute(o.to);
  new_files files(path.parent_path());
  write_model(files.add(path.filename().string()), file);
  files.commit();
}

constexpr const char* summary =
    "Writes a model in another form, in FP32: as a folder that transformers loads, or, where TO "
    "ends "
    "in .bin, as a checkpoint of llm.c's.\n";
constexpr const char* footer =
    "\nExamples:\n"
    "  gpt2_export llmc-run my-model                 a run's latest checkpoint for transformers\n"
    "  gpt2_export gpt2/ gpt2.bin                    a folder of Hugging Face's for llm.c\n"
    "  gpt2_export gpt2_124M_bf16.bin gpt2 --tokenizer gpt2-files/\n"
    "\n"
    "Exit status: 0 done, 1 it failed, 2 a file or an option is not usable. Nothing was written "
    "then.";

using opt = export_options;

const option_table<export_options> table{
    {"Options",
     {with_required(path("from", &opt::from, "FROM",
                         "a run's folder (its latest checkpoint), a checkpoint of llm.c's\n"
                         "(FP32 or BF16), a folder of Hugging Face's or its .safetensors file")),
      with_required(path("to", &opt::to, "TO", "a new folder, or a new file that ends in .bin")),
      path("--tokenizer", &opt::tokenizer, "PATH",
           "put this tokenizer beside the model: tokenizer.json, vocab.json\n"
           "with merges.txt, or a folder with them [the model's, if it has one]"),
      choice("--existing", &opt::existing, existing_models,
             "what there is at TO: replace overwrites the model's files [refuse]"),
      choice("--non-finite", &opt::non_finite, non_finite_choices,
             "models with numbers that are infinite or none at all [refuse]")}}};

int run(int argc, char** argv) {
  export_options options;
  CLI::App app(summary, program_name);
  app.footer(footer);
  app.get_formatter()->column_width(34);
  if (const auto help =
          parse_command_line(app, table, argc, argv, options, version_of(program_name))) {
    std::printf("%s", help->c_str());
    return 0;
  }
  const stored_model model = open_model(options.from, options.non_finite);
  for (const std::string& each : model.notes) note(each);
  require_new(options, model);
  const bool is_llm_c = fs::path(options.to).extension() == ".bin";
  is_llm_c ? export_llm_c(options, model) : export_folder(options, model);
  std::printf("%s: %s, from %s, %s\n", options.to.c_str(),
              is_llm_c ? "a checkpoint of llm.c's format (FP32)" : "a Hugging Face model (F32)",
              options.from.c_str(), model.kind.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(program_name, argv, [&] { return run(argc, argv); });
}
