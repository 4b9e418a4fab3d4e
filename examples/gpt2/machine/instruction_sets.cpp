#include "gpt2/machine/instruction_sets.hpp"

#include <fstream>
#include <istream>
#include <iterator>
#include <set>
#include <sstream>

#include "gpt2/input_error.hpp"

namespace gpt2_trainer {

std::string missing_instruction_sets(const instruction_set* sets, std::istream& cpuinfo) {
  std::string key, value;
  // "flags : fpu vme ..." on x86, "Features : fp asimd ..." on ARM; the first processor's line.
  while (std::getline(cpuinfo, key, ':') && std::getline(cpuinfo, value)) {
    key.erase(key.find_last_not_of(" \t") + 1);
    key.erase(0, key.find_first_not_of('\n'));
    if (key != "flags" && key != "Features") continue;
    std::istringstream words(value);
    const std::set<std::string> has{std::istream_iterator<std::string>(words), {}};
    std::string missing;
    for (const instruction_set* set = sets; set->name != nullptr; ++set) {
      if (!set->compiled || has.count(set->name) > 0) continue;
      missing += (missing.empty() ? "" : ", ") + std::string(set->name);
    }
    return missing;
  }
  return "";
}

void require_instruction_sets() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  const std::string missing = missing_instruction_sets(reference_layers_instruction_sets, cpuinfo);
  if (missing.empty()) return;
  throw input_error("the CPU backend of this program was built for another processor, which has " +
                    missing + ": build it here, or configure with -DLLMC_NATIVE=OFF");
}

}  // namespace gpt2_trainer
