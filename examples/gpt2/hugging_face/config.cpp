#include "gpt2/hugging_face/config.hpp"

#include <nlohmann/json.hpp>

#include "gpt2/files/file.hpp"
#include "gpt2/files/strict_json.hpp"
#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

using nlohmann::json;

/// What transformers writes for `gelu` by tanh, its default and its other name.
constexpr const char* tanh_gelu = "gelu_new";
constexpr const char* other_tanh_gelu = "gelu_pytorch_tanh";

/// The members of a config.json. One that is missing or null has the value that transformers gives
/// it.
class config_reader {
 public:
  explicit config_reader(const std::filesystem::path& path)
      : file_(path), members_(parse_strictly(file_, read_file(path))) {
    if (!members_.is_object()) file_.fail("an object is wanted, got " + shown(members_));
  }

  json member(const char* name, const json& fallback) const {
    const json value = members_.value(name, json());
    return value.is_null() ? fallback : value;
  }

  std::int64_t extent(const char* name, const char* older_name = nullptr) const {
    json value = member(name, nullptr);
    if (value.is_null() && older_name != nullptr) value = member(older_name, nullptr);
    // What is larger than an int64 is stored as unsigned, and a float if it is even larger.
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > 1u << 30) {
      refuse(name, "a whole number up to 2^30", value);
    }
    return value.get<std::int64_t>();
  }

  /// Requires the value of the model that llmc computes, which is the default.
  void require(const char* name, const json& wanted) const {
    const json seen = member(name, wanted);
    if (seen != wanted) refuse(name, wanted.dump(), seen);
  }

  [[noreturn]] void refuse(const char* name, const std::string& wanted, const json& seen) const {
    file_.fail(std::string(name) + " must be " + wanted + ", got " +
               (seen.is_null() ? "none" : shown(seen)));
  }

  const input_file& file() const { return file_; }

 private:
  input_file file_;
  json members_;
};

gpt2_config extents_of(const config_reader& config) {
  const std::int64_t vocabulary = config.extent("vocab_size");
  const gpt2_config extents{config.extent("n_positions", "n_ctx"),
                            vocabulary,
                            padded(vocabulary),
                            config.extent("n_layer"),
                            config.extent("n_head"),
                            config.extent("n_embd")};
  try {
    validate(extents);
  } catch (const input_error& error) {
    config.file().fail(error.what());
  }
  return extents;
}

void require_same_model(const config_reader& config, const gpt2_config& extents) {
  config.require("model_type", "gpt2");
  const json activation = config.member("activation_function", tanh_gelu);
  if (activation != tanh_gelu && activation != other_tanh_gelu) {
    config.refuse("activation_function", std::string(tanh_gelu) + " or " + other_tanh_gelu,
                  activation);
  }
  config.require("n_inner", 4 * extents.channels);
  config.require("layer_norm_epsilon", 1e-5);
  config.require("scale_attn_weights", true);
  config.require("scale_attn_by_inverse_layer_idx", false);
  config.require("reorder_and_upcast_attn", false);
  config.require("tie_word_embeddings", true);
  config.require("add_cross_attention", false);
}

/// The default of transformers, 50256, counts only where it is a token.
std::optional<std::int64_t> end_of_text(const config_reader& config, const gpt2_config& extents) {
  const json token = config.member("eos_token_id", 50256);
  if (!token.is_number_integer() || token < 0 || token >= extents.vocabulary) return std::nullopt;
  return token.get<std::int64_t>();
}

/// A sentence about dropout, if there is any.
std::vector<std::string> dropout_note(const config_reader& config) {
  std::string applied;
  for (const char* name : {"embd_pdrop", "attn_pdrop", "resid_pdrop"}) {
    const json rate = config.member(name, 0.1);
    if (!rate.is_number()) config.refuse(name, "a number", rate);
    if (rate != 0) applied += (applied.empty() ? "" : ", ") + (name + (" " + rate.dump()));
  }
  if (applied.empty()) return {};
  return {config.file().path().string() + " asks for dropout in training (" + applied +
          "): llmc has none."};
}

}  // namespace

hugging_face_config read_hugging_face_config(const std::filesystem::path& path) {
  const config_reader config(path);
  const gpt2_config extents = extents_of(config);
  require_same_model(config, extents);
  return {extents, end_of_text(config, extents), dropout_note(config)};
}

std::string hugging_face_config_text(const gpt2_config& extents,
                                     std::optional<std::int64_t> end_of_text) {
  const json end = end_of_text ? json(*end_of_text) : json();
  const json config{{"architectures", {"GPT2LMHeadModel"}},
                    {"model_type", "gpt2"},
                    {"vocab_size", extents.vocabulary},
                    {"n_positions", extents.max_sequence},
                    {"n_ctx", extents.max_sequence},
                    {"n_embd", extents.channels},
                    {"n_layer", extents.layers},
                    {"n_head", extents.heads},
                    {"n_inner", nullptr},
                    {"activation_function", tanh_gelu},
                    {"layer_norm_epsilon", 1e-5},
                    {"scale_attn_weights", true},
                    {"tie_word_embeddings", true},
                    {"embd_pdrop", 0.0},
                    {"attn_pdrop", 0.0},
                    {"resid_pdrop", 0.0},
                    {"initializer_range", 0.02},
                    {"bos_token_id", end},
                    {"eos_token_id", end},
                    {"torch_dtype", "float32"}};  // transformers 5 reads it, too
  return config.dump(2) + "\n";
}

}  // namespace gpt2_trainer
