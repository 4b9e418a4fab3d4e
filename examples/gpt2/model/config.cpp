#include "gpt2/model/config.hpp"

#include <array>
#include <charconv>
#include <string>
#include <system_error>

#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

constexpr const char* gpt3 = "gpt3:c";

struct known_depth {
  int layers;
  int heads;
};

/// Between them depths are interpolated.
constexpr std::array known_depths{known_depth{6, 6}, known_depth{12, 12}, known_depth{24, 16},
                                  known_depth{36, 20}, known_depth{48, 25}};

struct known_size {
  int layers;
  int heads;
  int channels;
};

constexpr std::array larger_depths{known_size{60, 30, 1920}, known_size{72, 30, 2880},
                                   known_size{84, 36, 3456}};

/// llm.c has 5140 channels, too, as GPT-3's paper says: no number of heads of size 128 divides
/// them.
constexpr std::array gpt3_sizes{known_size{6, 6, 384},    known_size{12, 12, 768},
                                known_size{24, 16, 1024}, known_size{24, 16, 1536},
                                known_size{24, 16, 2048}, known_size{32, 32, 2560},
                                known_size{32, 32, 4096}, known_size{96, 96, 12288}};

/// The number after `begin` in a name that is that and a number; -1 if it is not.
int number_after(const std::string& begin, const std::string& name) {
  int number = -1;
  if (name.rfind(begin, 0) != 0) return -1;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + begin.size(), end, number);
  return error == std::errc() && rest == end ? number : -1;
}

/// The heads of a depth that is one of those known or lies between two.
int heads_of(int depth) {
  std::size_t above = 1;
  while (depth > known_depths[above].layers) ++above;
  const known_depth low = known_depths[above - 1];
  const known_depth high = known_depths[above];
  return low.heads + (depth - low.layers) * (high.heads - low.heads) / (high.layers - low.layers);
}

/// The size of a name; of no layers if there is none.
known_size size_of(const std::string& name) {
  const int depth = number_after("d", name);
  if (depth >= known_depths.front().layers && depth <= known_depths.back().layers) {
    return {depth, heads_of(depth), 64 * heads_of(depth)};
  }
  for (const known_size& each : larger_depths) {
    if (each.layers == depth) return each;
  }
  for (const known_size& each : gpt3_sizes) {
    if (each.channels == number_after(gpt3, name)) return each;
  }
  return {0, 0, 0};
}

/// "d6 to d48, d60, ..., gpt3:c384, ...".
std::string known_names() {
  std::string names = "d" + std::to_string(known_depths.front().layers) + " to d" +
                      std::to_string(known_depths.back().layers);
  for (const known_size& each : larger_depths) names += ", d" + std::to_string(each.layers);
  for (const known_size& each : gpt3_sizes) names += ", " + (gpt3 + std::to_string(each.channels));
  return names;
}

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

gpt2_config named_config(const std::string& name, std::int64_t vocabulary) {
  const known_size size = size_of(name);
  if (size.layers == 0) throw input_error("must be one of " + known_names() + ", got " + name);
  const std::int64_t context = name.rfind(gpt3, 0) == 0 ? 2048 : 1024;
  return {context, vocabulary, padded(vocabulary), size.layers, size.heads, size.channels};
}

}  // namespace gpt2_trainer
