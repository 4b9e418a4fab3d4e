/// @file
/// One run at a time in a folder.
#pragma once

#include <filesystem>
#include <string>

#include "gpt2/files/file.hpp"

namespace gpt2_trainer {

/// Has a folder for itself as long as the object lives, by a lock of the system's on the file
/// `run.lock` in it. The lock ends with the process, however that ends, so a dead run blocks
/// nothing; then the file stays, without meaning. In a folder that several machines share it holds
/// as far as their file system hands locks on (NFS does).
class folder_lock : public file {
 public:
  /// Throws input_error if another process has the folder; the message says which and since when.
  explicit folder_lock(const std::filesystem::path& folder);
  ~folder_lock();

  /// False where the file system has no locks: nothing can be known of other processes there.
  bool is_held() const { return held_; }

 private:
  bool lock();
  std::string text() const;

  bool held_ = false;
};

}  // namespace gpt2_trainer
