#include "run_folder.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

std::string default_name(int number) {
  return number == 1 ? "llmc-run" : "llmc-run-" + std::to_string(number);
}

/// The number of a name that default_name makes; 0 for any other.
int number_of(const std::string& name) {
  int number = 1;
  std::sscanf(name.c_str(), "llmc-run-%9d", &number);
  return name == default_name(number) ? number : 0;
}

/// The numbers of all default names in the current folder, the latest first, and 0.
std::vector<int> default_numbers() {
  std::vector<int> numbers{0};
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::current_path())) {
    numbers.push_back(number_of(entry.path().filename().string()));
  }
  std::sort(numbers.begin(), numbers.end(), std::greater<>());
  return numbers;
}

}  // namespace

run_folder::own_folder::~own_folder() {
  if (is_new) ::rmdir(path.c_str());  // fails, as it should, if anything is in it
}

run_folder::run_folder(const fs::path& path, bool is_new)
    : folder_{path, is_new}, lock_(folder_.path) {
  sync_folder(path.parent_path());
}

run_folder::run_folder(const fs::path& path)
    : run_folder(path.has_filename() ? path : path.parent_path(), fs::create_directories(path)) {}

std::unique_ptr<run_folder> run_folder::make_default() {
  for (int number = default_numbers().front() + 1;; ++number) {
    const fs::path path = fs::absolute(default_name(number));
    // Making the folder decides whose it is.
    if (fs::create_directory(path)) return std::unique_ptr<run_folder>(new run_folder(path, true));
  }
}

void require_room(const fs::path& folder, const checkpoint* resumed, std::int64_t done) {
  const std::vector<std::int64_t> steps = steps_in(folder);
  if (steps.empty()) return;
  if (resumed == nullptr || !fs::equivalent(folder, resumed->paths.state.parent_path())) {
    throw input_error(
        "--out must be a folder without checkpoints of another run (--resume goes on from them), "
        "got " +
        folder.string());
  }
  const auto later =
      std::count_if(steps.begin(), steps.end(), [done](std::int64_t step) { return step > done; });
  // What was passed over is not whole.
  if (static_cast<std::size_t>(later) <= resumed->passed_over.size()) return;
  throw input_error("--out must be a folder without checkpoints later than " +
                    resumed->paths.state.string() + ", got " + folder.string() +
                    " with one of step " + std::to_string(steps.front()) +
                    " (another --out begins a branch, --resume FOLDER goes on from the latest)");
}

checkpoint find_resumed(const std::string& path, non_finite_choice non_finite) {
  if (!path.empty()) return read_checkpoint(path, non_finite);
  const std::vector<int> numbers = default_numbers();
  const auto found = std::find_if(numbers.begin(), numbers.end(), [](int number) {
    return number > 0 && !steps_in(default_name(number)).empty();
  });
  if (found == numbers.end()) {
    throw input_error("--resume without a path needs a folder llmc-run with a checkpoint, got " +
                      fs::current_path().string() + " without one");
  }
  return read_checkpoint(fs::absolute(default_name(*found)), non_finite);
}

}  // namespace gpt2_trainer
