#include "gpt2/hugging_face/stored_model.hpp"

#include <memory>
#include <utility>

#include "gpt2/files/checkpoint.hpp"
#include "gpt2/hugging_face/model_folder.hpp"
#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

stored_model hugging_face_model(const fs::path& path, non_finite_choice non_finite) {
  const auto folder = std::make_shared<const model_folder>(path);
  const auto parameters = [=] {
    std::vector<float> values = folder->parameters();
    require_finite<input_error>(path.string() + ": parameters", values, non_finite);
    return values;
  };
  return {folder->config().extents, "a Hugging Face model (" + folder->types() + ")",
          folder->config().notes, folder->files(), parameters};
}

stored_model llm_c_model(const fs::path& path, non_finite_choice non_finite) {
  const model_summary summary = read_model_summary(path);
  const std::string type = summary.type == number_type::f32 ? "FP32" : "BF16";
  return {summary.config, "a checkpoint of llm.c's format (" + type + ")", {}, {path}, [=] {
            return read_model(path, non_finite).parameters;
          }};
}

stored_model model_of_run(const fs::path& folder, non_finite_choice non_finite) {
  const auto latest = std::make_shared<checkpoint>(read_checkpoint(folder, non_finite));
  std::vector<std::string> notes;
  for (const std::string& why : latest->passed_over) notes.push_back("Passed over " + why);
  return {latest->model.config,
          "the checkpoint of a run after step " + std::to_string(latest->state.step),
          notes,
          {latest->paths.model, latest->paths.state},
          [=] { return std::move(latest->model.parameters); }};
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
