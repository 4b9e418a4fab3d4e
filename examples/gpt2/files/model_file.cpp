#include "gpt2/files/model_file.hpp"

#include <cstddef>
#include <cstdint>

#include "gpt2/files/file.hpp"
#include "gpt2/files/file_header.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/model/parameters.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

/// What the header of a model's file says.
struct model_header {
  file_header numbers;
  gpt2_config config;
  number_type type;
};

model_header checked_header(input_file& input) {
  const bool is_bf16 = has_kind(input, bf16_model_kind);
  const file_header header = read_header(input, is_bf16 ? bf16_model_kind : model_kind);
  const gpt2_config config{header[2], header[3], header[7], header[4], header[5], header[6]};
  try {
    validate(config);
  } catch (const input_error& error) {
    input.fail(error.what());
  }
  const number_type type = is_bf16 ? number_type::bf16 : number_type::f32;
  input.require_size(header_bytes + bytes_of(type) * parameter_layout(config).count());
  return {header, config, type};
}

std::string checksum_of(const file_header& header, const std::vector<float>& parameters) {
  checksum sum;
  sum.add(header.data(), sizeof header);
  sum.add(parameters.data(), parameters.size() * sizeof(float));
  return sum.text();
}

}  // namespace

model_summary read_model_summary(const fs::path& path) {
  input_file input(path);
  const model_header header = checked_header(input);
  return {header.config, header.type};
}

model_file read_model(const fs::path& path, non_finite_choice non_finite) {
  input_file input(path);
  const model_header header = checked_header(input);
  const std::int64_t count = parameter_layout(header.config).count();
  model_file model{header.config, std::vector<float>(static_cast<std::size_t>(count))};
  input.read_floats(model.parameters.data(), count, header.type, input.offset());
  model.checksum = checksum_of(header.numbers, model.parameters);
  require_finite<input_error>(path.string() + ": parameters", model.parameters, non_finite);
  return model;
}

std::string write_model(output_file& output, const model_file& model) {
  const gpt2_config& c = model.config;
  const file_header header = make_header(model_kind, {c.max_sequence, c.vocabulary, c.layers,
                                                      c.heads, c.channels, c.padded_vocabulary});
  output.write(header.data(), sizeof header);
  output.write(model.parameters.data(), model.parameters.size() * sizeof(float));
  return checksum_of(header, model.parameters);
}

void write_model(const fs::path& path, const model_file& model) {
  output_file output(path);
  write_model(output, model);
  output.commit();
}

}  // namespace gpt2_trainer
