/// @file
/// Small files of Hugging Face's, made by hand.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "../trainer/checkpoint_support.hpp"
#include "../trainer/temporary_folder.hpp"
#include "gpt2/files/file.hpp"
#include "gpt2/hugging_face/config.hpp"
#include "gpt2/hugging_face/model_folder.hpp"

namespace llmc_test {

/// What safetensors files consist of: length, header, data.
inline std::string safetensors_bytes(const std::string& header, const std::string& data = "") {
  const std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

template <class Number>
std::string bytes_of_numbers(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

struct test_tensor {
  std::string name;
  std::string type;
  std::vector<std::int64_t> shape;
  std::string data;
};

inline std::string safetensors_bytes(const std::vector<test_tensor>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const test_tensor& each : tensors) {
    header[each.name] = {{"dtype", each.type},
                         {"shape", each.shape},
                         {"data_offsets", {data.size(), data.size() + each.data.size()}}};
    data += each.data;
  }
  return safetensors_bytes(header.dump(), data);
}

/// The tensors of a model as transformers writes them, which is not how llmc has them: each linear
/// layer's weight is (in, out).
inline std::vector<test_tensor> tensors_of(const gpt2_trainer::model_file& model,
                                           const std::string& prefix = "transformer.") {
  using gpt2_trainer::parameter;
  const gpt2_trainer::parameter_layout layout(model.config);
  const std::int64_t C = model.config.channels;
  std::vector<test_tensor> tensors;
  const auto add = [&](const std::string& name, parameter which, std::int64_t layer,
                       std::int64_t rows, std::int64_t columns = 0, bool linear = false) {
    const float* const from =
        model.parameters.data() + layout[which].offset + layer * layout[which].per_layer;
    std::vector<float> numbers;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < (columns == 0 ? 1 : columns); ++column) {
        numbers.push_back(linear ? from[column * rows + row]
                                 : from[row * (columns == 0 ? 1 : columns) + column]);
      }
    }
    tensors.push_back(
        {prefix + name, "F32",
         columns == 0 ? std::vector<std::int64_t>{rows} : std::vector<std::int64_t>{rows, columns},
         bytes_of_numbers(numbers)});
  };
  add("wte.weight", parameter::wte, 0, model.config.vocabulary, C);
  add("wpe.weight", parameter::wpe, 0, model.config.max_sequence, C);
  for (std::int64_t l = 0; l < model.config.layers; ++l) {
    const std::string h = "h." + std::to_string(l);
    add(h + ".ln_1.weight", parameter::ln1w, l, C);
    add(h + ".ln_1.bias", parameter::ln1b, l, C);
    add(h + ".attn.c_attn.weight", parameter::qkvw, l, C, 3 * C, true);
    add(h + ".attn.c_attn.bias", parameter::qkvb, l, 3 * C);
    add(h + ".attn.c_proj.weight", parameter::attprojw, l, C, C, true);
    add(h + ".attn.c_proj.bias", parameter::attprojb, l, C);
    add(h + ".ln_2.weight", parameter::ln2w, l, C);
    add(h + ".ln_2.bias", parameter::ln2b, l, C);
    add(h + ".mlp.c_fc.weight", parameter::fcw, l, C, 4 * C, true);
    add(h + ".mlp.c_fc.bias", parameter::fcb, l, 4 * C);
    add(h + ".mlp.c_proj.weight", parameter::fcprojw, l, 4 * C, C, true);
    add(h + ".mlp.c_proj.bias", parameter::fcprojb, l, C);
  }
  add("ln_f.weight", parameter::lnfw, 0, C);
  add("ln_f.bias", parameter::lnfb, 0, C);
  return tensors;
}

/// A model of Hugging Face's: 2 layers, 2 heads, 4 channels, context 3, 5 tokens.
inline gpt2_trainer::model_file small_gpt2() {
  gpt2_trainer::model_file model = small_model(3, {3, 5, 128, 2, 2, 4});
  const auto padding = model.parameters.begin() + 5 * 4;
  std::fill(padding, padding + 123 * 4, 0.0f);
  return model;
}

inline nlohmann::json small_config() {
  return {{"model_type", "gpt2"}, {"n_embd", 4},       {"n_head", 2},       {"n_layer", 2},
          {"n_positions", 3},     {"vocab_size", 5},   {"embd_pdrop", 0.0}, {"attn_pdrop", 0},
          {"resid_pdrop", 0.0},   {"n_inner", nullptr}};
}

inline void write_small(const std::filesystem::path& folder,
                        const std::vector<test_tensor>& tensors = tensors_of(small_gpt2()),
                        const nlohmann::json& config = small_config()) {
  write_text(folder / "model.safetensors", safetensors_bytes(tensors));
  write_text(folder / "config.json", config.dump());
}

}  // namespace llmc_test
