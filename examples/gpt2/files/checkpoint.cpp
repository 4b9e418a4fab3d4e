#include "gpt2/files/checkpoint.hpp"

#include <array>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "gpt2/files/file.hpp"
#include "gpt2/files/file_header.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/model/parameters.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::size_t float_bytes(std::int64_t count) {
  return static_cast<std::size_t>(count) * sizeof(float);
}

gpt2_config checked_config(const input_file& input) {
  const file_header header = read_header(input, model_kind);
  const gpt2_config config{header[2], header[3], header[7], header[4], header[5], header[6]};
  try {
    validate(config);
  } catch (const input_error& error) {
    throw input_error(input.path().string() + ": " + error.what());
  }
  const std::int64_t parameters = parameter_layout(config).count();
  require_size(input, header_bytes + static_cast<std::int64_t>(float_bytes(parameters)));
  return config;
}

constexpr std::array<char, 8> state_magic{'l', 'l', 'm', 'c', 's', 't', 'a', 't'};
constexpr std::uint32_t state_version = 1;

struct state_header {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t description_bytes;
};

state_header checked_state_header(const input_file& input) {
  const std::string name = input.path().string();
  state_header header{};
  if (input.size() >= static_cast<std::int64_t>(sizeof header))
    input.read(&header, sizeof header, 0);
  if (header.magic != state_magic) {
    throw input_error(name + ": a training state is wanted (it begins with \"llmcstat\"), got " +
                      "another kind of file");
  }
  if (header.version != state_version) {
    throw input_error(name + ": version of the training state must be " +
                      std::to_string(state_version) + ", got " + std::to_string(header.version));
  }
  if (input.size() < static_cast<std::int64_t>(sizeof header) + header.description_bytes) {
    throw input_error(name + ": a description of " + std::to_string(header.description_bytes) +
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
          {"data", state.data},
          {"model", state.model},
          {"options", json::parse(state.options)},
          {"plans", state.plans},
          {"parameters", state.moments.m.size()},
          {"moments", model_checksum(state.moments.m) + model_checksum(state.moments.v)}};
}

/// All but the moments, for which there is room.
training_state from_description(const json& text) {
  training_state state;
  text.at("step").get_to(state.step);
  text.at("epoch").get_to(state.loader.epoch);
  text.at("shard").get_to(state.loader.shard);
  text.at("window").get_to(state.loader.window);
  text.at("data").get_to(state.data);
  text.at("model").get_to(state.model);
  state.options = text.at("options").dump();
  state.plans = text.value("plans", "");  // older states have none
  return state;
}

/// Throws std::logic_error where the file is not as described.
training_state parse_state(const input_file& input, const std::string& description) {
  const json text = json::parse(description);
  training_state state = from_description(text);
  const std::int64_t count = text.at("parameters");
  const auto begin = static_cast<std::int64_t>(sizeof(state_header) + description.size());
  if (count < 0 || count > input.size()) {
    throw input_error(input.path().string() + ": the number of parameters must fit the file, got " +
                      std::to_string(count));
  }
  require_size(input, begin + 2 * static_cast<std::int64_t>(float_bytes(count)));
  state.moments.m.resize(static_cast<std::size_t>(count));
  state.moments.v.resize(static_cast<std::size_t>(count));
  input.read(state.moments.m.data(), float_bytes(count), begin);
  input.read(state.moments.v.data(), float_bytes(count),
             begin + static_cast<std::int64_t>(float_bytes(count)));
  if (text.at("moments") != describe(state).at("moments")) {
    throw input_error(input.path().string() + ": checksum of AdamW's moments must be " +
                      text.at("moments").get<std::string>() + ", got " +
                      describe(state).at("moments").get<std::string>());
  }
  return state;
}

/// The step of a name such as state_00000200.bin; -1 for any other name.
std::int64_t step_of(const fs::path& path) {
  long long step = -1;
  int end = 0;
  const std::string name = path.filename().string();
  const bool matches = std::sscanf(name.c_str(), "state_%lld.bin%n", &step, &end) == 1 &&
                       static_cast<std::size_t>(end) == name.size();
  return matches ? step : -1;
}

}  // namespace

gpt2_config read_model_config(const fs::path& path) {
  return checked_config(input_file(path));
}

model_file read_model(const fs::path& path) {
  const input_file input(path);
  model_file model{checked_config(input), {}};
  const std::int64_t count = parameter_layout(model.config).count();
  model.parameters.resize(static_cast<std::size_t>(count));
  input.read(model.parameters.data(), float_bytes(count), header_bytes);
  return model;
}

void write_model(const fs::path& path, const model_file& model) {
  const gpt2_config& c = model.config;
  const file_header header = make_header(model_kind, {c.max_sequence, c.vocabulary, c.layers,
                                                      c.heads, c.channels, c.padded_vocabulary});
  output_file output(path);
  output.write(header.data(), sizeof header);
  output.write(model.parameters.data(), model.parameters.size() * sizeof(float));
  output.commit();
}

std::string model_checksum(const std::vector<float>& parameters) {
  checksum sum;
  sum.add(parameters.data(), parameters.size() * sizeof(float));
  return sum.text();
}

training_state read_state(const fs::path& path) {
  const input_file input(path);
  const state_header header = checked_state_header(input);
  std::string description(header.description_bytes, '\0');
  input.read(description.data(), description.size(), sizeof header);
  try {
    return parse_state(input, description);
  } catch (const json::exception& error) {
    throw input_error(path.string() + ": a description of the training state is wanted, got " +
                      error.what());
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

checkpoint_paths checkpoint_at(const fs::path& folder, std::int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "_%08lld.bin", static_cast<long long>(step));
  return {folder / ("model" + std::string(name)), folder / ("state" + std::string(name))};
}

std::optional<checkpoint_paths> latest_checkpoint(const fs::path& folder) {
  std::int64_t latest = -1;
  if (fs::is_directory(folder)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      latest = std::max(latest, step_of(entry.path()));
    }
  }
  if (latest < 0) return std::nullopt;
  return checkpoint_at(folder, latest);
}

void write_checkpoint(const checkpoint_paths& paths, const model_file& model,
                      const training_state& state) {
  write_model(paths.model, model);
  write_state(paths.state, state);
}

checkpoint read_checkpoint(const fs::path& path) {
  checkpoint_paths paths{{}, path};
  if (fs::is_directory(path)) {
    const std::optional<checkpoint_paths> latest = latest_checkpoint(path);
    if (!latest) {
      throw input_error(path.string() + ": a folder with a state_*.bin is wanted, got one without");
    }
    paths = *latest;
  }
  training_state state = read_state(paths.state);
  paths.model = checkpoint_at(paths.state.parent_path(), state.step).model;
  checkpoint result{paths, read_model(paths.model), std::move(state)};
  const std::string sum = model_checksum(result.model.parameters);
  if (sum != result.state.model) {
    throw input_error(paths.model.string() + ": checksum of the model must be " +
                      result.state.model + " to go on from " + paths.state.string() + ", got " +
                      sum);
  }
  if (result.state.moments.m.size() != result.model.parameters.size()) {
    throw input_error(
        paths.state.string() + ": moments of " + std::to_string(result.model.parameters.size()) +
        " parameters are wanted, got " + std::to_string(result.state.moments.m.size()));
  }
  return result;
}

}  // namespace gpt2_trainer
