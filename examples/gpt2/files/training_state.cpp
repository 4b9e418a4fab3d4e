#include "gpt2/files/training_state.hpp"

#include <array>
#include <nlohmann/json.hpp>

#include "gpt2/files/file.hpp"
#include "gpt2/files/model_file.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::array<char, 8> state_magic{'l', 'l', 'm', 'c', 's', 't', 'a', 't'};
constexpr std::uint32_t state_version = 1;

struct state_header {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t description_bytes;
};

state_header checked_header(input_file& input) {
  state_header header{};
  const auto bytes = static_cast<std::int64_t>(sizeof header);
  if (input.size() >= bytes) input.next(&header, sizeof header);
  if (header.magic != state_magic) {
    input.fail(
        "a training state is wanted (it begins with \"llmcstat\"), got another kind of file");
  }
  input.require_equal("version of the training state", state_version, header.version);
  if (input.size() < bytes + header.description_bytes) {
    input.fail("a description of " + std::to_string(header.description_bytes) +
               " bytes is wanted after the header, but the file has " +
               std::to_string(input.size()) + " bytes");
  }
  return header;
}

json describe(const training_state& state) {
  return {{"step", state.step},
          {"epoch", state.loader.epoch},
          {"shard", state.loader.shard},
          {"window", state.loader.window},
          {"data", json::parse(state.data)},
          {"model", state.model},
          {"options", json::parse(state.options)},
          {"plans", state.plans},
          {"parameters", state.moments.m.size()},
          {"moments", model_checksum(state.moments.m) + model_checksum(state.moments.v)}};
}

/// Everything but the moments.
training_state from_description(const json& text) {
  training_state state;
  text.at("step").get_to(state.step);
  text.at("epoch").get_to(state.loader.epoch);
  text.at("shard").get_to(state.loader.shard);
  text.at("window").get_to(state.loader.window);
  state.data = text.at("data").dump();
  text.at("model").get_to(state.model);
  state.options = text.at("options").dump();
  text.at("plans").get_to(state.plans);
  return state;
}

/// Throws json::exception where the description is not one.
training_state parse_state(input_file& input, const std::string& description) {
  const json text = json::parse(description);
  training_state state = from_description(text);
  const std::int64_t count = text.at("parameters");
  if (count < 0 || count > input.size()) {
    input.fail("the number of parameters must fit the file, got " + std::to_string(count));
  }
  input.require_size(input.offset() + 2 * count * static_cast<std::int64_t>(sizeof(float)));
  state.moments.m = input.next<float>(count);
  state.moments.v = input.next<float>(count);
  const std::string wanted = text.at("moments");
  const std::string seen = describe(state).at("moments");
  input.require(seen == wanted, "checksum of AdamW's moments", wanted, seen);
  return state;
}

}  // namespace

training_state read_state(const fs::path& path) {
  input_file input(path);
  std::string description(checked_header(input).description_bytes, '\0');
  input.next(description.data(), description.size());
  try {
    return parse_state(input, description);
  } catch (const json::exception& error) {
    input.fail(std::string("a description of the training state is wanted, got ") + error.what());
  }
}

void write_state(const fs::path& path, const training_state& state) {
  const std::string description = describe(state).dump();
  const state_header header{state_magic, state_version,
                            static_cast<std::uint32_t>(description.size())};
  output_file output(path);
  output.write(&header, sizeof header);
  output.write(description.data(), description.size());
  output.write(state.moments.m.data(), state.moments.m.size() * sizeof(float));
  output.write(state.moments.v.data(), state.moments.v.size() * sizeof(float));
  output.commit();
}

}  // namespace gpt2_trainer
