#include "gpt2/hugging_face/stored_model.hpp"

#include <memory>
#include <utility>

#include "gpt2/files/checkpoint.hpp"
#include "gpt2/hugging_face/model_folder.hpp"
#include "gpt2/hugging_face/tokenizer_files.hpp"
#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

/// Where nothing else says it: GPT-2's own vocabulary has it as its last token.
std::optional<std::int64_t> gpt2_end_of_text(const gpt2_config& config) {
  constexpr std::int64_t gpt2_vocabulary = 50257;
  if (config.vocabulary == gpt2_vocabulary) return gpt2_vocabulary - 1;
  return std::nullopt;
}

stored_model hugging_face_model(const fs::path& path, non_finite_choice non_finite) {
  const auto folder = std::make_shared<const model_folder>(path);
  const fs::path where = folder->files().front().parent_path();
  stored_model model;
  model.config = folder->config().extents;
  model.kind = "a Hugging Face model (" + folder->types() + ")";
  model.notes = folder->config().notes;
  model.files = folder->files();
  model.end_of_text = folder->config().end_of_text;
  if (!tokenizer_files(where).empty()) model.tokenizer = where;
  model.parameters = [=] {
    std::vector<float> values = folder->parameters();
    require_finite<input_error>(path.string() + ": parameters", values, non_finite);
    return values;
  };
  return model;
}

stored_model llm_c_model(const fs::path& path, non_finite_choice non_finite) {
  const model_summary summary = read_model_summary(path);
  const std::string type = summary.type == number_type::f32 ? "FP32" : "BF16";
  stored_model model;
  model.config = summary.config;
  model.kind = "a checkpoint of llm.c's format (" + type + ")";
  model.files = {path};
  model.end_of_text = gpt2_end_of_text(summary.config);
  model.parameters = [=] { return read_model(path, non_finite).parameters; };
  return model;
}

stored_model model_of_run(const fs::path& folder, non_finite_choice non_finite) {
  checkpoint latest = read_checkpoint(folder, non_finite);
  stored_model model;
  model.config = latest.model.config;
  model.kind = "the checkpoint of a run after step " + std::to_string(latest.state.step);
  for (const std::string& why : latest.passed_over) model.notes.push_back("Passed over " + why);
  model.files = {latest.paths.model, latest.paths.state};
  model.end_of_text = gpt2_end_of_text(latest.model.config);
  const auto values = std::make_shared<std::vector<float>>(std::move(latest.model.parameters));
  model.parameters = [=] { return std::move(*values); };
  return model;
}

}  // namespace

stored_model open_model(const fs::path& path, non_finite_choice non_finite) {
  if (!fs::is_directory(path)) {
    return path.extension() == ".safetensors" ? hugging_face_model(path, non_finite)
                                              : llm_c_model(path, non_finite);
  }
  if (is_model_folder(path)) return hugging_face_model(path, non_finite);
  if (!steps_in(path).empty()) return model_of_run(path, non_finite);
  throw input_error(path.string() + ": a folder with " + safetensors_name + " or with a run's " +
                    "checkpoints is wanted, got one without" +
                    (fs::exists(path / "pytorch_model.bin")
                         ? " (pytorch_model.bin is not read: save_pretrained of transformers "
                           "writes safetensors)"
                         : ""));
}

}  // namespace gpt2_trainer
