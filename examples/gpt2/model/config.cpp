#include "gpt2/model/config.hpp"

#include <array>
#include <string>

#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

struct known_depth {
  int layers;
  int heads;
};

constexpr std::array known_depths{known_depth{6, 6}, known_depth{12, 12}, known_depth{24, 16},
                                  known_depth{36, 20}, known_depth{48, 25}};

}  // namespace

void require_extent(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most) {
    throw input_error(std::string(name) + " must be between " + std::to_string(least) + " and " +
                      std::to_string(most) + ", got " + std::to_string(value));
  }
}

void validate(const gpt2_config& config) {
  constexpr std::int64_t most = 1 << 24;  // products of two extents stay far below 2^63
  require_extent("context", config.max_sequence, 1, most);
  require_extent("vocabulary", config.vocabulary, 1, most);
  require_extent("padded vocabulary", config.padded_vocabulary, config.vocabulary, 2 * most);
  require_extent("layers", config.layers, 1, 1 << 16);
  require_extent("channels", config.channels, 1, 1 << 16);
  require_extent("heads", config.heads, 1, config.channels);
  if (config.channels % config.heads != 0) {
    throw input_error("heads must divide channels, got " + std::to_string(config.heads) +
                      " heads and " + std::to_string(config.channels) + " channels");
  }
}

std::int64_t padded(std::int64_t vocabulary) {
  constexpr std::int64_t multiple = 128;
  return (vocabulary + multiple - 1) / multiple * multiple;
}

gpt2_config from_depth(int depth, std::int64_t vocabulary) {
  require_extent("depth", depth, known_depths.front().layers, known_depths.back().layers);
  std::size_t above = 1;
  while (depth > known_depths[above].layers) ++above;
  const known_depth low = known_depths[above - 1];
  const known_depth high = known_depths[above];
  const int heads =
      low.heads + (depth - low.layers) * (high.heads - low.heads) / (high.layers - low.layers);
  return {1024, vocabulary, padded(vocabulary), depth, heads, std::int64_t{64} * heads};
}

}  // namespace gpt2_trainer
