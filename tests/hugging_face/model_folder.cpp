// GPT-2 as Hugging Face keeps it: what is read, what is refused, what is written.
#include "../support/catch.hpp"
#include "files.hpp"
#include "gpt2/hugging_face/stored_model.hpp"
#include "gpt2/hugging_face/tokenizer_files.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2_trainer/setup.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

namespace {

namespace fs = std::filesystem;

using tensor_list = std::vector<test_tensor>;

/// What a folder with these files is refused with.
std::string refusal(const tensor_list& tensors, const nlohmann::json& config = small_config()) {
  const temporary_folder folder;
  write_small(folder.path(), tensors, config);
  const std::string text = message_of([&] { open_model(folder.path()).parameters(); });
  const std::string begin = folder.path().string() + "/";
  CHECK(text.substr(0, begin.size()) == begin);
  return text.substr(std::min(text.size(), begin.size()));
}

std::string refused_config(const std::string& name, const nlohmann::json& value) {
  nlohmann::json config = small_config();
  config[name] = value;
  return refusal(tensors_of(small_gpt2()), config);
}

test_tensor& named(tensor_list& tensors, const std::string& name) {
  for (test_tensor& each : tensors) {
    if (each.name == name) return each;
  }
  throw std::runtime_error("no tensor " + name);
}

tensor_list without(tensor_list tensors, const std::string& name) {
  const auto has_name = [&](const test_tensor& each) { return each.name == name; };
  tensors.erase(std::find_if(tensors.begin(), tensors.end(), has_name));
  return tensors;
}

tensor_list with(tensor_list tensors, test_tensor more) {
  tensors.push_back(std::move(more));
  return tensors;
}

std::vector<float> parameters_of(const tensor_list& tensors) {
  const temporary_folder folder;
  write_small(folder.path(), tensors);
  return open_model(folder.path()).parameters();
}

}  // namespace

TEST_CASE("hugging face: both namings, masks and a tied head are read", "[hugging_face]") {
  const model_file model = small_gpt2();
  CHECK(parameters_of(tensors_of(model)) == model.parameters);
  CHECK(parameters_of(tensors_of(model, "")) == model.parameters);
  tensor_list tensors = tensors_of(model, "");
  tensors = with(tensors, {"lm_head.weight", "F32", {5, 4}, named(tensors, "wte.weight").data});
  tensors = with(tensors, {"h.0.attn.bias", "BOOL", {1, 1, 3, 3}, std::string(9, '\1')});
  tensors = with(tensors, {"h.1.attn.masked_bias", "F32", {}, std::string(4, '\1')});
  CHECK(parameters_of(tensors) == model.parameters);
}

TEST_CASE("hugging face: a model is what its config.json says", "[hugging_face]") {
  const temporary_folder folder;
  write_small(folder.path());
  const auto from = GENERATE(true, false);  // the folder, the file
  const stored_model model = open_model(from ? folder.path() : folder.path() / "model.safetensors");
  CHECK(model.config.max_sequence == 3);
  CHECK(model.config.vocabulary == 5);
  CHECK(model.config.padded_vocabulary == 128);
  CHECK(model.config.layers == 2);
  CHECK(model.config.heads == 2);
  CHECK(model.config.channels == 4);
  CHECK(model.kind == "a Hugging Face model (F32)");
  CHECK(model.notes.empty());
  CHECK(model.files.size() == 2);
  CHECK(!model.end_of_text);
  CHECK(model.tokenizer.empty());
}

TEST_CASE("hugging face: halves are widened, each tensor by its own type", "[hugging_face]") {
  tensor_list tensors = tensors_of(small_gpt2());
  named(tensors, "transformer.h.1.ln_1.bias") = {
      "transformer.h.1.ln_1.bias",
      "F16",
      {4},
      bytes_of_numbers<std::uint16_t>({0x3c00, 0x4000, 0x4200, 0x4400})};
  std::vector<std::uint16_t> rising;
  for (int i = 0; i < 48; ++i) rising.push_back(static_cast<std::uint16_t>(0x3f80 + i));
  named(tensors, "transformer.h.0.attn.c_attn.weight") = {
      "transformer.h.0.attn.c_attn.weight", "BF16", {4, 12}, bytes_of_numbers(rising)};
  const std::vector<float> read = parameters_of(tensors);
  const parameter_layout layout(small_gpt2().config);
  const float* const ln1b = read.data() + layout[parameter::ln1b].offset + 4;
  CHECK(std::vector<float>(ln1b, ln1b + 4) == std::vector<float>{1, 2, 3, 4});
  const float* const qkvw = read.data() + layout[parameter::qkvw].offset;
  CHECK(qkvw[0] == widened_bf16(0x3f80));
  CHECK(qkvw[1] == widened_bf16(0x3f80 + 12));  // the next input of the first output
  CHECK(qkvw[4] == widened_bf16(0x3f80 + 1));
  const temporary_folder folder;
  write_small(folder.path(), tensors);
  CHECK(open_model(folder.path()).kind == "a Hugging Face model (BF16 and F16 and F32)");
}

TEST_CASE("hugging face: another model of the same tensors is refused by name", "[hugging_face]") {
  const std::string at = "config.json: ";
  CHECK(refused_config("model_type", "llama") == at + "model_type must be \"gpt2\", got \"llama\"");
  CHECK(refused_config("activation_function", "gelu") ==
        at + "activation_function must be gelu_new or gelu_pytorch_tanh, got \"gelu\"");
  CHECK(refused_config("scale_attn_weights", false) ==
        at + "scale_attn_weights must be true, got false");
  for (const char* name :
       {"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"}) {
    CHECK(refused_config(name, true) == at + name + " must be false, got true");
  }
  CHECK(refused_config("tie_word_embeddings", false) ==
        at + "tie_word_embeddings must be true, got false");
  CHECK(refused_config("layer_norm_epsilon", 1e-6) ==
        at + "layer_norm_epsilon must be 1e-05, got 1e-06");
  CHECK(refused_config("n_inner", 8) == at + "n_inner must be 16, got 8");
  CHECK(refused_config("n_head", 3) ==
        at + "heads must divide channels, got 3 heads and 4 channels");
  CHECK(refused_config("attn_pdrop", "a") == at + "attn_pdrop must be a number, got \"a\"");
  for (const nlohmann::json& bad : {nlohmann::json(), nlohmann::json(-4), nlohmann::json(4.0),
                                    nlohmann::json("4"), nlohmann::json(1ull << 40)}) {
    const std::string seen = bad.is_null() ? "none" : bad.dump();
    CHECK(refused_config("n_embd", bad) ==
          at + "n_embd must be a whole number up to 2^30, got " + seen);
  }
  CHECK(refusal(tensors_of(small_gpt2()), nlohmann::json::array()) ==
        at + "an object is wanted, got []");

  // The same said by other words is the same model.
  nlohmann::json config = small_config();
  config.erase("n_positions");
  config.update({{"n_ctx", 3},
                 {"n_inner", 16},
                 {"activation_function", "gelu_pytorch_tanh"},
                 {"layer_norm_epsilon", 1e-5},
                 {"eos_token_id", 4},
                 {"resid_pdrop", nullptr}});
  config.erase("embd_pdrop");
  const temporary_folder folder;
  write_small(folder.path(), tensors_of(small_gpt2()), config);
  const stored_model model = open_model(folder.path());
  CHECK(model.end_of_text == 4);
  // 0.1 is what transformers takes where nothing is said.
  CHECK(model.notes == std::vector<std::string>{(folder / "config.json").string() +
                                                " asks for dropout in training (embd_pdrop 0.1, "
                                                "resid_pdrop 0.1): llmc has none."});
}

TEST_CASE("hugging face: tensors that are not the model's are refused by name", "[hugging_face]") {
  const tensor_list tensors = tensors_of(small_gpt2());
  const std::string at = "model.safetensors: tensor ";
  CHECK(refusal(without(without(tensors, "transformer.h.1.ln_2.bias"), "transformer.wpe.weight")) ==
        at + "h.1.ln_2.bias is wanted, got none (2 are missing)");
  CHECK(refusal(with(tensors, {"score.weight", "F32", {0}, ""})) ==
        at + "\"score.weight\" is none of a GPT-2 of 2 layers");
  CHECK(refusal(with(tensors, {"transformer.h.2.ln_1.bias", "F32", {0}, ""})) ==
        at + "\"transformer.h.2.ln_1.bias\" is none of a GPT-2 of 2 layers");
  CHECK(refusal(with(tensors, {"ln_f.bias", "F32", {4}, std::string(16, 'x')})) ==
        at + "\"ln_f.bias\" must be there once, got another one of the same meaning");
  tensor_list changed = tensors;
  named(changed, "transformer.h.0.mlp.c_fc.weight").shape = {16, 4};
  CHECK(refusal(changed) == at + "\"transformer.h.0.mlp.c_fc.weight\" must be of shape (4, 16) by "
                                 "config.json, got (16, 4)");
  changed = tensors;
  named(changed, "transformer.ln_f.bias") = {
      "transformer.ln_f.bias", "I32", {4}, std::string(16, 'x')};
  CHECK(refusal(changed) == at + "\"transformer.ln_f.bias\" must be of F32, F16 or BF16, got I32");

  test_tensor head{"lm_head.weight", "F32", {5, 4}, tensors.front().data};
  CHECK(refusal(with(with(tensors, head), {"transformer.lm_head.weight", "F32", {0}, ""})) ==
        at + "\"transformer.lm_head.weight\" is none of a GPT-2 of 2 layers");
  head.data.back() = '\0';
  CHECK(refusal(with(tensors, head)) ==
        at + "lm_head.weight must be equal to wte.weight, since GPT-2's head is the token "
             "embedding, got other numbers in rows 0 to 4");
  changed = tensors;
  named(changed, "transformer.ln_f.bias").data =
      bytes_of_numbers<float>({0, 0, 0, std::numeric_limits<float>::infinity()});
  const temporary_folder folder;
  write_small(folder.path(), changed);
  const std::string text = message_of([&] { open_model(folder.path()).parameters(); });
  CHECK(text.find(folder.path().string() + ": parameters must be finite, got inf at place") == 0);
  CHECK(open_model(folder.path(), non_finite_choice::allow).parameters().size() ==
        small_gpt2().parameters.size());
}

TEST_CASE("hugging face: a model in several files is what its index says", "[hugging_face]") {
  const temporary_folder folder;
  const model_file model = small_gpt2();
  const tensor_list tensors = tensors_of(model);
  const tensor_list first(tensors.begin(), tensors.begin() + 7);
  const tensor_list second(tensors.begin() + 7, tensors.end());
  nlohmann::json map;
  for (const test_tensor& each : first) map[each.name] = "a.safetensors";
  for (const test_tensor& each : second) map[each.name] = "b.safetensors";
  write_text(folder / "a.safetensors", safetensors_bytes(first));
  write_text(folder / "b.safetensors", safetensors_bytes(second));
  write_text(folder / "config.json", small_config().dump());
  const auto index = [&](const nlohmann::json& value) {
    write_text(folder / "model.safetensors.index.json", value.dump());
    const std::string text = message_of([&] { open_model(folder.path()).parameters(); });
    const std::string begin = folder.path().string() + "/";
    return text.substr(std::min(text.size(), begin.size()));
  };
  const auto changed = [&](const std::string& tensor, const nlohmann::json& file) {
    nlohmann::json other = map;
    other[tensor] = file;
    return index({{"weight_map", other}});
  };
  const std::string at = "model.safetensors.index.json: ";
  CHECK(index({{"metadata", {{"total_size", 1}}}, {"weight_map", map}}).empty());
  CHECK(open_model(folder.path()).parameters() == model.parameters);
  CHECK(open_model(folder.path()).files.size() == 4);

  CHECK(index(nlohmann::json::array()) == at + "an object with the object weight_map is wanted, "
                                               "got none");
  for (const char* bad : {"../a.safetensors", "/a.safetensors", "x/a.safetensors", "", ".."}) {
    CHECK(changed(first[0].name, bad) == at + "weight_map: \"" + first[0].name +
                                             "\" must be in a file of this folder, got \"" + bad +
                                             "\"");
  }
  CHECK(changed(first[0].name, 3).find("got 3") != std::string::npos);
  CHECK(changed(first[0].name, "b.safetensors") ==
        "a.safetensors: the tensors must be those of model.safetensors.index.json, got \"" +
            first[0].name + "\", too");
  CHECK(changed("more", "a.safetensors") ==
        "a.safetensors: tensor \"more\" is wanted by model.safetensors.index.json, got none");
  CHECK(changed("more", "c.safetensors") ==
        "c.safetensors: cannot open: No such file or directory");
}

TEST_CASE("hugging face: what is written is read back, also by its config.json", "[hugging_face]") {
  const temporary_folder folder;
  const model_file model = small_gpt2();
  output_file output(folder / "model.safetensors");
  write_safetensors(output, model.config, model.parameters);
  output.commit();
  write_text(folder / "config.json", hugging_face_config_text(model.config, 4));
  const stored_model read = open_model(folder.path());
  CHECK(read.parameters() == model.parameters);
  CHECK(read.config.heads == model.config.heads);
  CHECK(read.notes.empty());
  CHECK(read.end_of_text == 4);

  const safetensors_file file(folder / "model.safetensors");
  const tensor_list wanted = tensors_of(model);
  REQUIRE(file.tensors().size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const safetensor& each = file.tensors()[i];
    CHECK(each.name == wanted[i].name);
    CHECK(each.shape == wanted[i].shape);
    std::string data(static_cast<std::size_t>(each.end - each.begin), '\0');
    file.file().read(data.data(), data.size(), each.begin);
    const bool same = data == wanted[i].data;
    CHECK(same);
  }
}

TEST_CASE("stored models: llm.c's checkpoints and runs are opened by the same call",
          "[stored_model]") {
  const temporary_folder folder;
  const model_file model = small_gpt2();
  write_model(folder / "model.bin", model);
  const stored_model fp32 = open_model(folder / "model.bin");
  CHECK(fp32.kind == "a checkpoint of llm.c's format (FP32)");
  CHECK(fp32.parameters() == model.parameters);

  // BF16 is the upper half of each float.
  std::vector<std::int32_t> header(256);
  input_file(folder / "model.bin").read(header.data(), 1024, 0);
  header[1] = 5;
  std::vector<std::uint16_t> halves;
  std::vector<float> widened;
  for (const float value : model.parameters) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    halves.push_back(static_cast<std::uint16_t>(bits >> 16));
    widened.push_back(widened_bf16(halves.back()));
  }
  write_numbers(folder / "bf16.bin", header);
  write_numbers(folder / "bf16.bin", halves, true);
  const stored_model bf16 = open_model(folder / "bf16.bin");
  CHECK(bf16.kind == "a checkpoint of llm.c's format (BF16)");
  CHECK(bf16.parameters() == widened);
  write_numbers<std::uint16_t>(folder / "bf16.bin", {0}, true);
  CHECK(message_of([&] { open_model(folder / "bf16.bin"); }).find("by its header") !=
        std::string::npos);

  const fs::path run = folder / "run";
  fs::create_directory(run);
  CHECK(message_of([&] { open_model(run); }) ==
        run.string() +
            ": a folder with model.safetensors or with a run's checkpoints is wanted, "
            "got one without");
  write_text(run / "pytorch_model.bin", "");
  CHECK(message_of([&] { open_model(run); }).find("save_pretrained") != std::string::npos);
  write_checkpoint(checkpoint_at(run, 3), model, small_state(model, 3));
  CHECK(open_model(run).kind == "the checkpoint of a run after step 3");
  CHECK(open_model(run).parameters() == model.parameters);
  CHECK(message_of([&] { open_model(folder / "none"); }).find("cannot open") != std::string::npos);
}

TEST_CASE("tokenizer files: those of a folder, or of a file and what belongs to it",
          "[tokenizer_files]") {
  const temporary_folder folder;
  const auto names = [&](const std::string& path) {
    std::string text;
    for (const tokenizer_file& each : tokenizer_files(folder / path)) {
      text += each.from.filename().string() + ">" + each.name + " ";
    }
    return text;
  };
  write_text(folder / "encoder.json", "");
  write_text(folder / "tokenizer_config.json", "");
  CHECK(names("").empty());
  write_text(folder / "vocab.bpe", "");
  const std::string openai = "encoder.json>vocab.json vocab.bpe>merges.txt ";
  const std::string config = "tokenizer_config.json>tokenizer_config.json ";
  CHECK(names("") == openai + config);
  CHECK(names("vocab.bpe") == openai + config);
  CHECK(names("merges.txt").empty());
  write_text(folder / "vocab.json", "");
  write_text(folder / "merges.txt", "");
  write_text(folder / "tokenizer.json", "");
  const std::string split = "vocab.json>vocab.json merges.txt>merges.txt ";
  CHECK(names("") == "tokenizer.json>tokenizer.json " + split + config);
  CHECK(names("encoder.json") == openai + config);
  CHECK(names("vocab.json") == split + config);
  CHECK(names("tokenizer.json") == "tokenizer.json>tokenizer.json " + config);
  CHECK(names("gpt2_tokenizer.bin").empty());
}

TEST_CASE("hugging face: a run starts from a folder", "[hugging_face]") {
  const temporary_folder folder;
  model_file model = small_model(4, {8, 256, 256, 1, 2, 4});
  nlohmann::json config = small_config();
  config.update({{"n_layer", 1}, {"n_positions", 8}, {"vocab_size", 256}, {"attn_pdrop", 0.1}});
  write_small(folder.path(), tensors_of(model), config);
  run_options options;
  options.checkpoint = folder.path().string();
  options.backend = backend_choice::cpu;
  options.out = (folder / "run").string();
  options.batch = 1;
  const run_setup setup = prepare(options, std::nullopt);
  CHECK(setup.parameters == model.parameters);
  CHECK(setup.config.channels == 4);
  REQUIRE(setup.notes.size() == 1);
  CHECK(setup.notes[0].find("dropout in training (attn_pdrop 0.1)") != std::string::npos);
  options.log = (folder / "config.json").string();
  CHECK(message_of([&] { prepare(options, std::nullopt); })
            .find("--log must be another file, got " + options.log +
                  ", which is read as --checkpoint") == 0);
}
