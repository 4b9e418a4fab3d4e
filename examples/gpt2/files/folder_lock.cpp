#include "gpt2/files/folder_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

constexpr const char* beginning = "host ";

/// "host here, process 12, since 2026-11-28 22:51:33 +0000"
std::string this_process() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  std::array<char, 64> since{};
  std::strftime(since.data(), since.size(), "%Y-%m-%d %H:%M:%S %z", &local);
  return beginning + std::string(host.data()) + ", process " + std::to_string(::getpid()) +
         ", since " + since.data();
}

}  // namespace

folder_lock::folder_lock(const std::filesystem::path& folder) : file(folder / "run.lock", -1) {
  while (!lock()) {
  }
  const std::string before = text();
  if (!before.empty() && before.rfind(beginning, 0) != 0) {
    throw input_error(path().string() + ": the lock of a run is wanted, got another file");
  }
  const std::string line = this_process() + "\n";
  // Who cannot read this is told less, but the lock holds without it.
  if (::ftruncate(descriptor(), 0) == 0) {
    [[maybe_unused]] const ssize_t put = ::pwrite(descriptor(), line.data(), line.size(), 0);
  }
}

folder_lock::~folder_lock() {
  ::unlink(path().c_str());
}

/// False if the owner before removed the file while we opened it: then the lock is on no name.
bool folder_lock::lock() {
  const auto require = [this](bool so) {
    if (!so) throw input_error(path().string() + ": cannot lock: " + std::strerror(errno));
  };
  take(::open(path().c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  require(descriptor() >= 0);
  held_ = ::flock(descriptor(), LOCK_EX | LOCK_NB) == 0;
  if (!held_ && errno == EWOULDBLOCK) {
    const std::string owner = text();
    throw input_error(
        path().parent_path().string() +
        ": a folder that no other run writes to is wanted, got one of " +
        (owner.empty() ? "a run that has just begun" : owner.substr(0, owner.find('\n'))));
  }
  require(held_ || errno == ENOLCK || errno == ENOSYS || errno == EOPNOTSUPP);
  struct stat opened {};
  struct stat named {};
  return ::fstat(descriptor(), &opened) == 0 && ::stat(path().c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

std::string folder_lock::text() const {
  std::array<char, 512> bytes{};
  const ssize_t size = ::pread(descriptor(), bytes.data(), bytes.size(), 0);
  return {bytes.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

}  // namespace gpt2_trainer
