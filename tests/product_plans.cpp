// What a context's plans are kept by and written as; none of it needs a GPU.
#include <llmc/detail/matmul/context/plan_file.hpp>
#include <llmc/detail/matmul/context/plan_key.hpp>

#include <cstddef>
#include <cstring>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/refusal.hpp"

using llmc::precision;
using llmc_test::check_refused;
using namespace llmc::products;

namespace {

alignas(16) float memory[64];

product plain_product() {
  return {{memory, 8}, {memory + 8, 8}, {memory + 16, 8}, 5, 6, 7};
}

candidates both(engines allowed) {
  candidates among(allowed);
  among.add(kernel::wgmma_split);
  among.add(kernel::cublaslt);
  return among;
}

const char* const header = "llmc 1.2.3 product plans";

std::vector<saved_plan> some_plans() {
  saved_plan library{key_of(plain_product(), both(engines::any)), {}};
  std::memset(&library.second.algorithm, 0xa5, sizeof library.second.algorithm);
  saved_plan own{key_of(plain_product(), both(engines::own)), {}};
  own.second.by = kernel::wgmma_split;
  return {library, own};
}

std::string text_of(const std::vector<saved_plan>& plans) {
  std::ostringstream text;
  write_plans(text, header, plans);
  return text.str();
}

std::vector<saved_plan> plans_in(const std::string& text) {
  std::istringstream from(text);
  return plan_reader("f", from, "my.plans").read(header);
}

}  // namespace

TEST_CASE("products that want different plans have different keys", "[plans]") {
  using change = std::function<void(product&)>;
  const std::vector<change> changes{[](product&) {},
                                    [](product& p) { p.rows = 50; },
                                    [](product& p) { p.columns = 50; },
                                    [](product& p) { p.inner = 50; },
                                    [](product& p) { p.batch = 2; },
                                    [](product& p) { p.factor = 0.5f; },
                                    [](product& p) { p.out.stride = 9; },
                                    [](product& p) { p.inp1.stride = 9; },
                                    [](product& p) { p.inp2.stride = 9; },
                                    [](product& p) { p.out.batch_stride = 9; },
                                    [](product& p) { p.inp1.batch_stride = 9; },
                                    [](product& p) { p.inp2.batch_stride = 9; },
                                    [](product& p) { p.inp1.order = layout::outer_first; },
                                    [](product& p) { p.inp2.order = layout::outer_first; },
                                    [](product& p) { p.arithmetic = precision::tf32; },
                                    [](product& p) { p.arithmetic = precision::tf32x3; },
                                    [](product& p) { p.out.data += 1; },
                                    [](product& p) { p.out.data += 2; },
                                    [](product& p) { p.inp1.data += 1; },
                                    [](product& p) { p.inp2.data += 1; },
                                    [](product& p) { p.then.bias = memory; },
                                    [](product& p) { p.then.bias = memory + 1; },
                                    [](product& p) { p.then.before_gelu = memory + 32; },
                                    [](product& p) { p.then.before_gelu = memory + 33; },
                                    [](product& p) { p.then.gelu_inp = memory + 32; },
                                    [](product& p) { p.then.gelu_inp = memory + 33; },
                                    [](product& p) { p.then.residual = memory + 32; },
                                    [](product& p) { p.then.residual = memory + 33; },
                                    [](product& p) { p.then.residual = p.out.data; },
                                    [](product& p) { p.then.column_sums = memory + 32; },
                                    [](product& p) { p.then.column_sums = memory + 33; }};
  std::set<plan_key> keys;
  std::set<std::size_t> hashes;
  for (const change& apply : changes) {
    product p = plain_product();
    apply(p);
    for (const engines allowed : {engines::any, engines::library, engines::own}) {
      keys.insert(key_of(p, both(allowed)));
      hashes.insert(plan_key_hash()(key_of(p, both(allowed))));
    }
  }
  CHECK(keys.size() == 3 * changes.size());
  CHECK(hashes.size() == keys.size());
}

TEST_CASE("a key does not tell where arrays lie beyond 16 bytes", "[plans]") {
  product moved = plain_product();
  moved.out.data += 4;
  moved.inp1.data += 8;
  CHECK(key_of(moved, both(engines::any)) == key_of(plain_product(), both(engines::any)));
}

TEST_CASE("a key tells what the build has to choose from", "[plans]") {
  std::set<plan_key> keys;
  for (const kernel who : kernels) {
    candidates among(engines::any);
    among.add(who);
    keys.insert(key_of(plain_product(), among));
    among.add(kernel::cublaslt);
    keys.insert(key_of(plain_product(), among));
  }
  CHECK(keys.size() == 2 * kernels.size() - 1);
}

TEST_CASE("the first kernel that is added to be preferred is", "[plans]") {
  candidates among(engines::any);
  among.add(kernel::wgmma_direct, false);
  CHECK(among.preferred() == kernel::cublaslt);
  among.add(kernel::mma);
  among.add(kernel::late_epilogue);
  CHECK(among.preferred() == kernel::mma);
  CHECK(among.has(kernel::wgmma_direct));
  CHECK_FALSE(among.has(kernel::cublaslt));
}

TEST_CASE("plans are read as they were written", "[plans]") {
  const std::vector<saved_plan> read = plans_in(text_of(some_plans()));
  REQUIRE(read.size() == 2);
  CHECK(read[0].first == some_plans()[0].first);
  CHECK(read[0].second.by == kernel::cublaslt);
  CHECK(hex_of(read[0].second.algorithm) == hex_of(some_plans()[0].second.algorithm));
  CHECK(read[1].first == some_plans()[1].first);
  CHECK(read[1].second.by == kernel::wgmma_split);
  CHECK(text_of(read) == text_of(some_plans()));
  CHECK(plans_in(text_of({})).empty());
}

TEST_CASE("a plan file is refused with its name, the line, and what was wanted", "[plans]") {
  const std::string h = header;
  const auto refused = [](const std::string& text, const std::string& why) {
    check_refused("f: my.plans, line " + why, [&] { plans_in(text); });
  };
  refused("", "1: wanted the line '" + h + "', got 'the end of the file'");
  refused("another\nplans: 0\n", "1: wanted the line '" + h + "', got 'another'");
  refused(h + "\n", "2: wanted a plan or the number of plans, got 'the end of the file'");
  refused(h + "\nplans: 1\n", "2: wanted 'plans: 0', got 'plans: 1'");
  const std::string form = "numbers, then 'cublaslt' and an algorithm or 'kernel' and a name";
  for (const std::string line : {"", "rubbish", "1 2 3 kernel x", "1 2 3 4.5 kernel x"}) {
    refused(h + "\n" + line + "\nplans: 1\n", "2: wanted " + form + ", got '" + line + "'");
  }
  std::string numbers;
  for (std::size_t i = 0; i < plan_numbers{}.size(); ++i) numbers += "1 ";  // only cuBLASLt
  for (const std::string who : {"1 kernel mma", "kernel", "kernel ", "kernel x", "kernel mma",
                                "kernel cublaslt", "oracle x", "cublaslt", "cublaslt 12ab", ""}) {
    const std::string line = numbers + who;
    refused(h + "\n" + line + "\nplans: 1\n", "2: wanted " + form + ", got '" + line + "'");
  }
}

TEST_CASE("a plan file cut anywhere is refused", "[plans]") {
  const std::string whole = text_of(some_plans());
  for (std::size_t length = 0; length + 1 < whole.size(); ++length) {
    INFO("cut to " << length << " of " << whole.size() << " bytes");
    CHECK_THROWS_AS(plans_in(whole.substr(0, length)), llmc::invalid_argument);
  }
}
