#include "gpt2/machine/threads.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>
#include <system_error>

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

/// Quota over period: version 2 has both in one file, and "max" where there is no limit; version 1
/// has two files, and -1.
std::optional<double> quota_of(const fs::path& group) {
  double quota = -1;
  double period = 0;
  if (std::ifstream(group / "cpu.max") >> quota >> period) return quota / period;
  std::ifstream(group / "cpu.cfs_quota_us") >> quota;
  std::ifstream(group / "cpu.cfs_period_us") >> period;
  if (quota > 0 && period > 0) return quota / period;
  return std::nullopt;
}

}  // namespace

std::optional<double> processor_quota(const fs::path& groups, const fs::path& mount) {
  std::optional<double> least;
  std::ifstream lines(groups);
  std::string number, controllers, path;
  while (std::getline(lines, number, ':') && std::getline(lines, controllers, ':') &&
         std::getline(lines, path)) {
    // Version 2 has one hierarchy, without names; version 1 has one for the controller "cpu".
    if (!controllers.empty() && ("," + controllers + ",").find(",cpu,") == std::string::npos)
      continue;
    const fs::path root = controllers.empty() ? mount : mount / "cpu";
    // A group is bound by those above it, too. Inside a container its path can be the host's, where
    // only the root of what is mounted exists.
    for (fs::path group = fs::path(path).relative_path();; group = group.parent_path()) {
      const std::optional<double> quota = quota_of(root / group);
      if (quota && (!least || *quota < *least)) least = quota;
      if (group.empty()) break;
    }
  }
  return least;
}

int usable_processors() {
  cpu_set_t allowed;
  const bool known = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  // A machine may have more processors than the set has room for; then affinity is left out.
  const int threads =
      known ? CPU_COUNT(&allowed) : static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  const auto quota = processor_quota("/proc/self/cgroup", "/sys/fs/cgroup");
  return quota ? std::clamp(static_cast<int>(std::ceil(*quota)), 1, threads) : threads;
}

void share_processors([[maybe_unused]] char* const* argv) {
#if defined(_OPENMP)
  const auto is_set = [](const char* name) { return std::getenv(name) != nullptr; };
  if (!is_set("OMP_NUM_THREADS")) omp_set_num_threads(usable_processors());

  if (omp_get_max_threads() == 1) return;  // nobody waits
  if (is_set("OMP_WAIT_POLICY") || is_set("GOMP_SPINCOUNT") || is_set("KMP_BLOCKTIME")) return;
  // gcc's OpenMP then looks this often before it sleeps: 20 to 100 microseconds. Left to itself it
  // looks 300,000 times, several milliseconds in which another program, or the very thread that is
  // waited for, could run. The layers of a step follow one another within microseconds, so on an
  // idle machine threads still find their next work while they look.
  ::setenv("GOMP_SPINCOUNT", "2000", 1);
  ::setenv("OMP_WAIT_POLICY", "passive", 1);  // for LLVM's OpenMP, which does not know the other
  // By its path, not as /proc/self/exe, which would become the name that `ps` and `pgrep` see.
  std::error_code unreadable;
  const fs::path program = fs::read_symlink("/proc/self/exe", unreadable);
  // Where it fails the program is right, too, only slower beside others.
  if (!unreadable) ::execv(program.c_str(), argv);
#endif
}

}  // namespace gpt2_trainer
