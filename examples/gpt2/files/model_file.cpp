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

gpt2_config checked_config(const input_file& input, const file_header& header) {
  const gpt2_config config{header[2], header[3], header[7], header[4], header[5], header[6]};
  try {
    validate(config);
  } catch (const input_error& error) {
    input.fail(error.what());
  }
  const auto bytes = static_cast<std::int64_t>(sizeof(float));
  input.require_size(header_bytes + bytes * parameter_layout(config).count());
  return config;
}

std::string checksum_of(const file_header& header, const std::vector<float>& parameters) {
  checksum sum;
  sum.add(header.data(), sizeof header);
  sum.add(parameters.data(), parameters.size() * sizeof(float));
  return sum.text();
}

}  // namespace

gpt2_config read_model_config(const fs::path& path) {
  input_file input(path);
  return checked_config(input, read_header(input, model_kind));
}

model_file read_model(const fs::path& path, non_finite_choice non_finite) {
  input_file input(path);
  const file_header header = read_header(input, model_kind);
  const gpt2_config config = checked_config(input, header);
  model_file model{config, input.next<float>(parameter_layout(config).count())};
  model.checksum = checksum_of(header, model.parameters);
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
