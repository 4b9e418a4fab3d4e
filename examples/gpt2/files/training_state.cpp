#include "gpt2/files/training_state.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::array<char, 8> state_magic{'l', 'l', 'm', 'c', 's', 't', 'a', 't'};
constexpr std::uint32_t state_version = 2;

struct state_header {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t description_bytes;
  std::uint64_t parameters;
};
constexpr std::int64_t moment_bytes = sizeof(float);

/// Of all bytes before it, which ends the file.
std::uint64_t checksum_of(const state_header& header, const std::string& description,
                          const adamw_moments<float>& moments) {
  checksum sum;
  sum.add(&header, sizeof header);
  sum.add(description.data(), description.size());
  sum.add(moments.m.data(), moments.m.size() * sizeof(float));
  sum.add(moments.v.data(), moments.v.size() * sizeof(float));
  return sum.value();
}

state_header checked_header(input_file& input) {
  state_header header{};
  if (input.size() >= static_cast<std::int64_t>(sizeof header)) input.next(&header, sizeof header);
  if (header.magic != state_magic) {
    input.fail(
        "a training state is wanted (it begins with \"llmcstat\"), got another kind of file");
  }
  input.require(header.version == state_version, "version of the training state",
                std::to_string(state_version),
                std::to_string(header.version) +
                    " (of another gpt2_train; the model beside it can be read by --checkpoint)");
  const std::uint64_t room = static_cast<std::uint64_t>(input.size() / (2 * moment_bytes));
  input.require(header.parameters <= room, "number of parameters",
                "at most " + std::to_string(room) + " in a file of " +
                    std::to_string(input.size()) + " bytes",
                std::to_string(header.parameters));
  input.require_size(static_cast<std::int64_t>(sizeof header) + header.description_bytes +
                     2 * moment_bytes * static_cast<std::int64_t>(header.parameters) +
                     static_cast<std::int64_t>(sizeof(std::uint64_t)));
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
          {"plans", state.plans}};
}

/// Reads JSON that is not nested deeper than any description: what handles deep ones is recursive.
json parse_description(const input_file& input, const std::string& text) {
  constexpr int deepest = 8;
  return json::parse(text, [&](int depth, json::parse_event_t, json&) {
    input.require(depth <= deepest, "depth of the description",
                  "at most " + std::to_string(deepest), "more");
    return true;
  });
}

/// A number of steps, epochs or the like. Up to this limit nothing that is added to it overflows.
std::int64_t count_in(const input_file& input, const json& description, const char* name) {
  constexpr std::uint64_t most = std::uint64_t{1} << 53;
  const json& value = description.at(name);
  input.require(value.is_number_unsigned() && value.get<std::uint64_t>() <= most, name,
                "an integer between 0 and " + std::to_string(most), value.dump());
  return value.get<std::int64_t>();
}

void describe_back(const input_file& input, const json& description, training_state& state) {
  state.step = count_in(input, description, "step");
  state.loader.epoch = count_in(input, description, "epoch");
  state.loader.shard = count_in(input, description, "shard");
  state.loader.window = count_in(input, description, "window");
  state.data = description.at("data").dump();
  description.at("model").get_to(state.model);
  state.options = description.at("options").dump();
  description.at("plans").get_to(state.plans);
}

void require_moments(const input_file& input, const adamw_moments<float>& moments,
                     non_finite_choice non_finite) {
  const std::string name = input.path().string();
  require_finite<input_error>(name + ": AdamW's mean gradients", moments.m, non_finite);
  require_finite<input_error>(name + ": AdamW's mean squares", moments.v, non_finite);
  const auto negative =
      std::find_if(moments.v.begin(), moments.v.end(), [](float v) { return v < 0; });
  if (negative == moments.v.end()) return;
  input.fail("AdamW's mean squares must be at least 0, got " + std::to_string(*negative));
}

}  // namespace

training_state read_state(const fs::path& path, non_finite_choice non_finite) {
  input_file input(path);
  const state_header header = checked_header(input);
  std::string description(header.description_bytes, '\0');
  input.next(description.data(), description.size());
  training_state state;
  state.moments.m = input.next<float>(static_cast<std::int64_t>(header.parameters));
  state.moments.v = input.next<float>(static_cast<std::int64_t>(header.parameters));
  std::uint64_t sum = 0;
  input.next(&sum, sizeof sum);
  const std::uint64_t seen = checksum_of(header, description, state.moments);
  input.require(seen == sum, "checksum of the state", hexadecimal(sum), hexadecimal(seen));
  try {
    describe_back(input, parse_description(input, description), state);
  } catch (const json::exception& error) {
    input.fail(std::string("a description of the training state is wanted, got ") + error.what());
  }
  require_moments(input, state.moments, non_finite);
  return state;
}

void write_state(output_file& output, const training_state& state) {
  const std::string description = describe(state).dump();
  const state_header header{state_magic, state_version,
                            static_cast<std::uint32_t>(description.size()), state.moments.m.size()};
  const std::uint64_t sum = checksum_of(header, description, state.moments);
  output.write(&header, sizeof header);
  output.write(description.data(), description.size());
  output.write(state.moments.m.data(), state.moments.m.size() * sizeof(float));
  output.write(state.moments.v.data(), state.moments.v.size() * sizeof(float));
  output.write(&sum, sizeof sum);
}

}  // namespace gpt2_trainer
