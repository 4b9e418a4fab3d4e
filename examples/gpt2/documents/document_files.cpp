#include "gpt2/documents/document_files.hpp"

#include <algorithm>
#include <numeric>
#include <system_error>
#include <utility>

#include "gpt2/data/text.hpp"
#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

void add_folder(const fs::path& folder, bool only, document_files& to) {
  const std::size_t before = to.files.size();
  for (const fs::path& path : files_below(folder, to.passed_over)) {
    const fs::path name = only ? path.lexically_relative(folder) : path;
    try {
      to.files.push_back({path, printable(name.string()), stamp_of(path), false});
    } catch (const input_error&) {  // removed since
      to.passed_over.add(pass_over::not_readable);
    }
  }
  if (to.files.size() > before) return;
  const std::string passed_over = to.passed_over.text();
  throw input_error(folder.string() + ": a folder with files is wanted, but " +
                    (passed_over.empty() ? "there is none that is not hidden"
                                         : "all was passed over: " + passed_over));
}

}  // namespace

std::int64_t document_files::bytes() const {
  return std::accumulate(
      files.begin(), files.end(), std::int64_t{0},
      [](std::int64_t sum, const document_file& file) { return sum + file.stamp.bytes; });
}

document_files find_documents(const std::vector<fs::path>& paths) {
  document_files found;
  const bool only = paths.size() == 1;
  for (const fs::path& path : paths) {
    std::error_code error;  // what is no folder is a file, or cannot be opened as one
    if (fs::is_directory(path, error)) {
      add_folder(path, only, found);
    } else {
      const input_file input(path);  // refused now, not after hours
      const fs::path name = only ? path.filename() : path;
      found.files.push_back({path, printable(name.string()), stamp_of(path), true});
    }
  }
  return found;
}

bool are_unchanged(const document_files& now, const data_record& before) {
  return std::equal(now.files.begin(), now.files.end(), before.begin(), before.end(),
                    [](const document_file& file, const file_record& record) {
                      return record.name == file.name && record.stamp == file.stamp;
                    });
}

}  // namespace gpt2_trainer
