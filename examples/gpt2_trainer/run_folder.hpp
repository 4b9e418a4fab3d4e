/// @file
/// The folder to which a run writes its checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "gpt2/files/checkpoint.hpp"
#include "gpt2/files/folder_lock.hpp"

namespace gpt2_trainer {

/// A folder that a run has for itself as long as the object lives. It is made where there is none,
/// and if nothing was written to it in the end, it goes again.
class run_folder {
 public:
  /// Throws input_error if another run has the folder.
  explicit run_folder(const std::filesystem::path& path);
  /// The first of llmc-run, llmc-run-2, ... after those that are in the current folder. Of several
  /// runs that begin at once, each gets its own.
  static std::unique_ptr<run_folder> make_default();

  const std::filesystem::path& path() const { return folder_.path; }
  /// False where the file system has no locks, so that other runs are not kept out.
  bool is_locked() const { return lock_.is_held(); }

 private:
  struct own_folder {
    std::filesystem::path path;
    bool is_new;
    ~own_folder();
  };
  run_folder(const std::filesystem::path& path, bool is_new);

  own_folder folder_;
  folder_lock lock_;
};

/// Requires that checkpoints of more than `done` steps replace no whole one in the folder, and no
/// file of another run than the one that is resumed, if any; else an input_error.
void require_room(const std::filesystem::path& folder, const checkpoint* resumed,
                  std::int64_t done);

/// The checkpoint that --resume names; without a path that of the latest default folder.
checkpoint find_resumed(const std::string& path, non_finite_choice non_finite);

}  // namespace gpt2_trainer
