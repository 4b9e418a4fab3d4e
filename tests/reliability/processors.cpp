// What the CPU backend asks of the machine that it runs on.
#include <sstream>
#include <string>

#include "../support/catch.hpp"
#include "../trainer/temporary_folder.hpp"
#include "gpt2/machine/instruction_sets.hpp"
#include "gpt2/machine/threads.hpp"

using namespace gpt2_trainer;
using llmc_test::temporary_folder;
using llmc_test::write_text;

TEST_CASE("processors: the quota is the least of a group and those above it", "[processors]") {
  const temporary_folder folder;
  const auto quota = [&](const std::string& groups) {
    return processor_quota(write_text(folder / "groups", groups), folder / "mount").value_or(-1);
  };
  SECTION("version 2") {
    write_text(folder / "mount/a/b/cpu.max", "max 100000\n");
    CHECK(quota("0::/a/b\n") == -1);
    write_text(folder / "mount/a/cpu.max", "150000 100000\n");
    CHECK(quota("0::/a/b\n") == 1.5);
    write_text(folder / "mount/a/b/cpu.max", "50000 100000\n");
    CHECK(quota("0::/a/b\n") == 0.5);
    CHECK(quota("0::/a\n") == 1.5);
    CHECK(quota("0::/\n") == -1);
  }
  SECTION("version 1, and a path of the host's inside a container") {
    write_text(folder / "mount/cpu/cpu.cfs_quota_us", "-1\n");
    write_text(folder / "mount/cpu/cpu.cfs_period_us", "100000\n");
    const std::string groups = "5:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n3:cpuset:/docker/1\n";
    CHECK(quota(groups) == -1);
    write_text(folder / "mount/cpu/cpu.cfs_quota_us", "200000\n");
    CHECK(quota(groups) == 2);
    CHECK(quota("3:cpuset:/docker/1\n") == -1);
  }
  SECTION("nothing to read") {
    CHECK(quota("") == -1);
  }
}

TEST_CASE("processors: instruction sets that this processor lacks are named", "[processors]") {
  const instruction_set sets[] = {
      {"avx2", true}, {"avx512f", true}, {"avx512bw", true}, {"sve", false}, {nullptr, false}};
  const auto missing = [&](const std::string& text) {
    std::istringstream cpuinfo(text);
    return missing_instruction_sets(sets, cpuinfo);
  };
  const std::string head = "processor\t: 0\nmodel name\t: AMD EPYC\n";
  CHECK(missing(head + "flags\t\t: fpu avx2 avx512f avx512bw\nbugs\t\t: none\n") == "");
  CHECK(missing(head + "flags\t\t: fpu avx2\n\nprocessor\t: 1\n") == "avx512f, avx512bw");
  CHECK(missing("Features\t: fp asimd\n") == "avx2, avx512f, avx512bw");
  CHECK(missing(head) == "");
  CHECK(missing("") == "");
}

TEST_CASE("processors: this build runs here, where it was made", "[processors]") {
  CHECK_NOTHROW(require_instruction_sets());
}
