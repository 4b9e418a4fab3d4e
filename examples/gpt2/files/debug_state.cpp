#include "gpt2/files/debug_state.hpp"

#include <string>

#include "gpt2/files/file.hpp"
#include "gpt2/files/file_header.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/model/parameters.hpp"

namespace gpt2_trainer {

namespace fs = std::filesystem;

debug_state read_debug_state(const fs::path& path, const gpt2_config& config) {
  input_file input(path);
  const file_header header = read_header(input, debug_state_kind);
  const std::int64_t B = header[2];
  const std::int64_t T = header[3];
  input.require_between("batch", 1, 1 << 20, B);
  input.require_between("sequence", 1, config.max_sequence, T);
  input.require(B * T <= input.size() / config.vocabulary, "batch * sequence",
                "at most what the file has room for", std::to_string(B * T));
  const std::int64_t parameters = parameter_layout(config).count();
  constexpr std::int64_t number_bytes = 4;
  input.require_size(header_bytes +
                     number_bytes * (2 * B * T + B * T * config.vocabulary + 1 + parameters));
  debug_state state{B, T, {}, {}, {}, {}, {}};
  state.tokens = input.next<std::int32_t>(B * T);
  state.targets = input.next<std::int32_t>(B * T);
  state.logits = input.next<float>(B * T * config.vocabulary);
  state.loss = input.next<float>(1);
  state.gradients = input.next<float>(parameters);
  return state;
}

fs::path checkpoint_beside(const fs::path& state) {
  const std::string suffix = "_debug_state";
  std::string name = state.filename().string();
  const std::size_t place = name.rfind(suffix);
  if (place == std::string::npos) {
    throw input_error(state.string() + ": the name must end in " + suffix +
                      ".bin for its checkpoint to be known; otherwise give --checkpoint");
  }
  return state.parent_path() / name.erase(place, suffix.size());
}

}  // namespace gpt2_trainer
