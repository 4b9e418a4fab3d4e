#include "registry/ladder.hpp"

enum class variant { automatic, naive, forgotten };
constexpr const char* to_string(variant v) {
  switch (v) {
    case variant::automatic: return "automatic";
    case variant::naive: return "naive";
    default: return "unknown";
  }
}
constexpr std::array variants{variant::automatic, variant::naive};

static_assert(llmc_registry::is_complete<variants>(), "an enumerator is not in the array");
