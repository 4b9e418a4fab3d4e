/// @file
/// How the CPU's threads wait, and how many there are.
#pragma once

#include <filesystem>
#include <optional>

namespace gpt2_trainer {

/// Lets this program's OpenMP threads share the processor with others: who waits for another thread
/// sleeps soon, and there are no more threads than the container's quota has processors. What the
/// user's environment says about OpenMP stays as it is. Call this first in main: OpenMP reads its
/// environment when the program is loaded, so the program is loaded once more, as the same process.
void share_processors(char* const* argv);

/// How many threads can work at the same time: the processors that this process may use, of which
/// there are no more than its container's quota allows.
int usable_processors();

/// How many processors' time the control groups of this process allow, where they set a limit.
/// `groups` is /proc/self/cgroup, `mount` /sys/fs/cgroup.
std::optional<double> processor_quota(const std::filesystem::path& groups,
                                      const std::filesystem::path& mount);

}  // namespace gpt2_trainer
