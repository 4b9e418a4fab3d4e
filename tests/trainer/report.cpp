#include "gpt2/run/report.hpp"

#include <sys/resource.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "../support/catch.hpp"
#include "gpt2/model/operations.hpp"
#include "gpt2_trainer/benchmark.hpp"
#include "temporary_folder.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

TEST_CASE("report: durations and large numbers", "[report]") {
  CHECK(clock_text(0) == "0:00");
  CHECK(clock_text(125.4) == "2:05");
  CHECK(clock_text(3600 + 23 * 60 + 45) == "1:23:45");
  CHECK(clock_text(std::nan("")) == "?");
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(1234567) == "1,234,567");
}

TEST_CASE("report: the ideal time is that of operations or of memory, whichever is longer",
          "[report]") {
  const gpt2_config config{8, 10, 128, 2, 1, 4};
  // Weights of matrices: 2 layers * 12 * 4 * 4 + 10 * 4 = 424; attention 2 * 4 * 8 = 64 a token.
  const double operations = 6.0 * (424 + 64) * 32;
  const double bytes = 4.0 * 424 * (7 + 3 * 2);
  const auto ideal = [&](double flops_per_second, double bytes_per_second) {
    return ideal_seconds(config, 32, 8, 2, {flops_per_second, bytes_per_second});
  };
  CHECK(std::abs(ideal(1, 1e9) - operations) < 1e-9 * operations);
  CHECK(std::abs(ideal(1e9, 1) - bytes) < 1e-9 * bytes);
  CHECK(ideal(0, 1) == 0);
  CHECK(ideal(1, 0) == 0);
}

TEST_CASE("report: quartiles of times, in any order", "[report]") {
  const auto check = [](const quartiles& q, std::vector<double> wanted) {
    CHECK(std::vector<double>{q.minimum, q.lower, q.median, q.upper, q.maximum} == wanted);
  };
  check(quartiles_of({7}), {7, 7, 7, 7, 7});
  check(quartiles_of({5, 1, 4, 2, 3}), {1, 2, 3, 4, 5});
  check(quartiles_of({4, 1}), {1, 1.75, 2.5, 3.25, 4});
}

TEST_CASE("report: a benchmark's table has rates and, where it is known, the peak's share",
          "[report]") {
  benchmark_result result{"machine",
                          {8, 10, 128, 2, 1, 4},
                          2,
                          8,
                          32,
                          4e12,
                          {1e13, 1},
                          {{"a", 1u << 30}, {"b", 1u << 29}},
                          {0.5, 0.25, 1}};
  const auto row = [&](const std::string& name) {
    for (const auto& [title, value] : benchmark_table(result)) {
      if (title == name) return value;
    }
    return std::string("none");
  };
  CHECK(row("median") == "500.000 ms");
  CHECK(row("tokens/s") == "64");
  CHECK(row("model TFLOP/s") == "8, 80.0% of the peak of 10");
  CHECK(row("memory") == "1.500 GiB");
  result.peak = {};
  CHECK(row("model TFLOP/s") == "8");
}

TEST_CASE("report: a log holds whole lines, also when the disk was full for a while", "[report]") {
  const temporary_folder folder;
  const std::filesystem::path path = folder / "below/log";
  const json_schema schema{"test.log", 7};
  const auto lines_of = [&] {
    std::vector<nlohmann::json> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  };
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const auto limit = [&](rlim_t bytes) {
    const rlimit now{bytes, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &now) == 0);
  };
  {
    json_lines log(path.string(), schema, {{"event", "begin"}});
    limit(20);
    const std::string why = log.add({{"step", 1}});
    limit(before.rlim_cur);
    CHECK(why == std::strerror(EFBIG));
    CHECK(std::filesystem::file_size(path) == 0);
    CHECK(log.add({{"step", 2}}).empty());
    limit(std::filesystem::file_size(path) + 5);
    CHECK(log.add({{"step", 3}}) == std::strerror(EFBIG));
    limit(before.rlim_cur);
    CHECK(log.add({{"step", 4}}).empty());
    CHECK(log.finish().empty());
  }
  std::signal(SIGXFSZ, handler);
  const auto lines = lines_of();
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == nlohmann::json{{"event", "begin"}, {"schema", "test.log"}, {"version", 7}});
  CHECK(lines[1].at("step") == 2);
  CHECK(lines[2].at("step") == 4);
  CHECK(message_of([&] { require_own_lines(path.string(), schema); }).empty());
  CHECK_FALSE(message_of([&] { require_own_lines(path.string(), {"other.log", 7}); }).empty());
}
