#include "gpt2/files/writable.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "gpt2/input_error.hpp"

namespace gpt2_trainer {

namespace fs = std::filesystem;

fs::path existing_ancestor(fs::path path) {
  path = fs::absolute(path).lexically_normal();
  while (!fs::exists(path) && path.has_parent_path() && path != path.parent_path()) {
    path = path.parent_path();
  }
  return path;
}

void require_access(const fs::path& path, int mode, const std::string& option) {
  if (::access(path.c_str(), mode) == 0) return;
  throw input_error(option + " must be writable, but " + path.string() +
                    " is not: " + std::strerror(errno));
}

void require_writable(const fs::path& folder, const std::string& option) {
  const fs::path ancestor = existing_ancestor(folder);
  if (!fs::is_directory(ancestor)) {
    throw input_error(option + " must lie in a folder, but " + ancestor.string() + " is a file");
  }
  require_access(ancestor, W_OK | X_OK, option);
}

}  // namespace gpt2_trainer
