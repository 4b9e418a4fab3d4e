#include "registry/registry.hpp"

#include <set>
#include <stdexcept>
#include <string>

#include <llmc/error.hpp>

#include "../support/catch.hpp"
#include "../support/gpu.cuh"
#include "../support/sizes.hpp"

using namespace llmc_registry;
using llmc::accumulation;
using llmc_test::wants_few_sizes;

namespace {

std::string text_of(const extents& shape) {
  std::string text;
  for (const auto& [name, value] : shape) text += " " + name + " " + std::to_string(value);
  return text;
}

/// Runs every entry on one problem. Returns those that could be run.
std::set<std::string> check_entries(const operation& o, const extents& shape, settings s) {
  std::set<std::string> done;
  const auto problem = o.make_problem(shape, s);
  const llmc_test::stream stream;
  for (const entry& e : o.entries) {
    INFO(o.name << " " << to_string(e) << "," << text_of(shape) << ", misalignment "
                << s.misalignment << (s.mode == accumulation::add ? ", add" : ", overwrite"));
    problem->reset(stream);
    try {
      run(e, *problem, stream);
    } catch (const llmc::unsupported&) {
      continue;
    }
    stream.synchronize();
    const deviation found = problem->compare_with_reference();
    INFO(found.text);
    CHECK(found.ratio <= 1);
    CHECK(problem->guards_intact());
    done.insert(to_string(e));
  }
  return done;
}

}  // namespace

TEST_CASE("every variant at every block size agrees with the reference", "[registry]") {
  LLMC_REQUIRE_GPU();
  for (const operation& o : operations()) {
    std::set<std::string> done;
    const std::size_t step = wants_few_sizes() ? 3 : 1;
    for (std::size_t i = 0; i < o.awkward.size(); i += step) {
      for (const settings s : {settings{0, accumulation::overwrite}, settings{1, accumulation::add},
                               settings{0, accumulation::add}}) {
        done.merge(check_entries(o, o.awkward[i], s));
      }
    }
    for (const entry& e : o.entries) {
      if (done.count(to_string(e)) == 0) WARN(o.name << " " << to_string(e) << " is unsupported");
    }
    CHECK(!done.empty());
  }
}

TEST_CASE("every variant agrees with the reference where it is timed", "[registry]") {
  LLMC_REQUIRE_GPU();
  if (wants_few_sizes()) LLMC_SKIP("few sizes are wanted");
  for (const operation& o : operations()) {
    check_entries(o, checked_shape(o, default_shape(o)), {});
  }
}

TEST_CASE("an operation's cost is the traffic of its arrays", "[registry]") {
  LLMC_REQUIRE_GPU();
  // These touch only the rows of tokens, the scores or the columns that take part. `split` writes
  // its output, which counts as updated, since it may begin with words that must stay.
  const std::set<std::string> touch_less{"encoder_forward",
                                         "encoder_backward",
                                         "causal_softmax_forward",
                                         "causal_softmax_backward",
                                         "crossentropy_forward",
                                         "crossentropy_backward",
                                         "classifier_forward_backward",
                                         "split"};
  constexpr double scalars = 64;  // bytes that do not depend on the shape and are not counted
  for (const operation& o : operations()) {
    for (const auto mode : {accumulation::overwrite, accumulation::add}) {
      INFO(o.name << (mode == accumulation::add ? ", add" : ", overwrite"));
      const auto problem = o.make_problem(o.awkward.back(), {0, mode});
      const double arrays = static_cast<double>(problem->array_bytes());
      CHECK(problem->cost().bytes <= arrays);
      if (touch_less.count(o.name) == 0) CHECK(problem->cost().bytes + scalars >= arrays);
    }
  }
}

namespace {

enum class answer { launched, refused, unsupported };

answer launch(const entry& e, const operation& o, const extents& shape, const named_arrays& arrays,
              const llmc_test::stream& stream) {
  settings on_these;
  on_these.callers = &arrays;
  answer given = answer::launched;
  try {
    const auto problem = o.make_problem(shape, on_these);
    run(e, *problem, stream);
    stream.synchronize();
  } catch (const llmc::invalid_argument&) {
    given = answer::refused;
  } catch (const llmc::unsupported&) {
    given = answer::unsupported;
  }
  stream.synchronize();
  return given;
}

/// Launches every variant with one argument that is wrong. Returns how many refused it.
int check_refusals(const operation& o, problem& whole, const extents& shape,
                   const named_arrays& arrays, bool must_refuse) {
  int refused = 0;
  const llmc_test::stream stream;
  for (const entry& e : o.entries) {
    if (!e.is_default) continue;
    INFO(to_string(e));
    whole.reset(stream);
    whole.keep(stream);
    const answer given = launch(e, o, shape, arrays, stream);
    if (must_refuse) CHECK(given != answer::launched);
    if (given != answer::refused) continue;
    CHECK(whole.holds_kept());
    ++refused;
  }
  return refused;
}

}  // namespace

TEST_CASE("launchers check every array before they write to any", "[registry]") {
  LLMC_REQUIRE_GPU();
  for (const operation& o : operations()) {
    const extents& shape = o.awkward.back();
    const auto whole = o.make_problem(shape, {});
    int refused = 0;
    for (const auto& [name, data] : whole->arrays()) {
      INFO(o.name << " without " << name);
      named_arrays arrays = whole->arrays();
      arrays[name] = nullptr;
      refused += check_refusals(o, *whole, shape, arrays, false);  // some may be null
    }
    INFO(o.name);
    CHECK(refused > 0);
  }
}

TEST_CASE("launchers check every extent before they write to any array", "[registry]") {
  LLMC_REQUIRE_GPU();
  for (const operation& o : operations()) {
    const auto whole = o.make_problem(o.awkward.back(), {});
    for (const parameter& p : o.parameters) {
      INFO(o.name << " with a negative " << p.name);
      extents shape = o.awkward.back();
      shape[p.name] = -1;
      try {
        check_refusals(o, *whole, shape, whole->arrays(), true);
      } catch (const std::length_error&) {
        continue;  // so many tokens or targets cannot be made
      }
    }
  }
}
