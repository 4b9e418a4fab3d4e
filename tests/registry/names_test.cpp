#include <array>
#include <set>
#include <string>

#include "../support/catch.hpp"
#include "registry/ladder.hpp"
#include "registry/registry.hpp"
#include "registry/selection.hpp"

using namespace llmc_registry;

namespace {

enum class example { automatic, naive, fast };
constexpr const char* to_string(example e) {
  switch (e) {
    case example::automatic: return "automatic";
    case example::naive: return "naive";
    case example::fast: return "fast";
  }
  return "unknown";
}
constexpr std::array all{example::automatic, example::naive, example::fast};
constexpr std::array too_few{example::automatic, example::naive};
constexpr std::array out_of_order{example::automatic, example::fast, example::naive};
static_assert(is_complete<all>() && !is_complete<too_few>() && !is_complete<out_of_order>());

enum class confused { automatic, naive };
constexpr const char* to_string(confused) {
  return "automatic";
}
constexpr std::array with_one_name{confused::automatic, confused::naive};
static_assert(!is_complete<with_one_name>());

static_assert(is_complete<llmc::precisions>());

}  // namespace

TEST_CASE("the registry offers every entry once and a default block size", "[registry]") {
  std::set<std::string> names;
  for (const operation& o : operations()) {
    INFO(o.name);
    CHECK(names.insert(o.name).second);
    REQUIRE(!o.entries.empty());
    CHECK(o.entries.front().variant == "automatic");

    std::set<std::string> entries, variants, with_default;
    for (const entry& e : o.entries) {
      INFO(to_string(e));
      CHECK(entries.insert(to_string(e)).second);
      variants.insert(e.variant);
      if (e.is_default) with_default.insert(e.variant);
    }
    CHECK(variants == with_default);
  }
}

TEST_CASE("the registry's shapes have the operation's parameters", "[registry]") {
  for (const operation& o : operations()) {
    INFO(o.name);
    const extents shape = default_shape(o);
    const extents checked = checked_shape(o, shape);
    CHECK(checked.size() == shape.size());
    CHECK(!o.awkward.empty());
    for (const auto& [name, value] : checked) {
      INFO(name);
      CHECK(value >= 1);
      CHECK(value <= shape.at(name));
      for (const extents& awkward : o.awkward) CHECK(awkward.count(name) == 1);
    }
    for (const extents& awkward : o.awkward) CHECK(awkward.size() == shape.size());
  }
}

TEST_CASE("entries are chosen by what is named of them", "[registry]") {
  const auto names = [](const operation& o, const selection& wanted) {
    std::string text;
    for (const entry& e : select(o, wanted)) text += to_string(e) + " ";
    return text;
  };
  operation o;
  o.name = "plus";
  o.entries = {{"automatic", 64, true, {}, nullptr},
               {"naive", 32, false, {}, nullptr},
               {"naive", 64, true, {}, nullptr}};
  CHECK(names(o, {}) == "automatic<64> naive<32> naive<64> ");
  CHECK(names(o, {"naive", {}, {}}) == "naive<32> naive<64> ");
  CHECK(names(o, {"naive", selection::default_block, {}}) == "naive<64> ");
  CHECK(names(o, {{}, 64, ""}) == "automatic<64> naive<64> ");
  CHECK_THROWS_WITH(names(o, {"fast", 64, {}}), "plus has no fast<64>, only automatic naive");
  CHECK_THROWS_WITH(names(o, {"naive", 128, {}}),
                    "plus has no naive<128>, only naive<32> naive<64>");
  CHECK_THROWS_WITH(names(o, {{}, {}, "tf32"}),
                    "plus has no entry tf32, only automatic<64> naive<32> naive<64>");

  o.entries[0].arithmetic = llmc::precision::ieee;
  CHECK(names(o, {"automatic", {}, "ieee"}) == "automatic<64> ieee ");
  CHECK_THROWS_WITH(names(o, {"automatic", {}, ""}),
                    "plus has no automatic without a precision, only automatic<64> ieee");
}
