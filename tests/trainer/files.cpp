#include "gpt2/files/file.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../support/catch.hpp"
#include "gpt2/input_error.hpp"
#include "temporary_folder.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

namespace {

namespace fs = std::filesystem;

int files_in(const fs::path& folder) {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder)) ++count;
  return count;
}

/// A name in the file system to which a server could listen.
fs::path make_socket(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.string().copy(address.sun_path, sizeof address.sun_path - 1);
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  ::close(descriptor);
  return path;
}

std::string write_refusal(const fs::path& path) {
  return message_of([&] { output_file output(path); });
}

}  // namespace

TEST_CASE("files: only regular files are opened, and nothing is waited for", "[files]") {
  const temporary_folder folder;
  make_fifo(folder / "fifo");
  make_socket(folder / "socket");
  const auto refused = [](const fs::path& path, const std::string& kind) {
    const std::string wanted = path.string() + ": a regular file is wanted, got " + kind;
    CHECK(message_of([&] { input_file input(path); }) == wanted);
    CHECK(write_refusal(path) == wanted);
  };
  refused(folder / "fifo", "a FIFO");
  refused(folder / "socket", "a socket");
  refused(folder.path(), "a folder");
  refused("/dev/null", "a device");
  refused("/dev/tty", "a device");
  fs::create_symlink(folder / "fifo", folder / "link");
  refused(folder / "link", "a FIFO");
  fs::create_symlink(folder / "itself", folder / "itself");
  CHECK(message_of([&] {
          input_file input(folder / "itself");
        }).find("cannot open: Too many levels of symbolic links") != std::string::npos);
}

TEST_CASE("files: a file that is not committed leaves the old one", "[files]") {
  const temporary_folder folder;
  const auto path = write_text(folder / "a", "old");
  {
    output_file output(path);
    output.write("new contents", 12);
    CHECK(read_file(path) == "old");
  }
  CHECK(read_file(path) == "old");
  CHECK(files_in(folder.path()) == 1);
  CHECK_THROWS_AS(output_file(folder / "missing/a"), std::runtime_error);
}

TEST_CASE("files: two that write one file do not meet before it is whole", "[files]") {
  const temporary_folder folder;
  output_file one(folder / "a");
  output_file other(folder / "a");
  one.write("one", 3);
  other.write("the other", 9);
  one.commit();
  CHECK(read_file(folder / "a") == "one");
  other.commit();
  CHECK(read_file(folder / "a") == "the other");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("files: what a link leads to is replaced, not the link", "[files]") {
  const temporary_folder folder;
  write_text(folder / "far/a", "old");
  fs::create_symlink(folder / "far/a", folder / "link");
  write_file(folder / "link", "new");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(read_file(folder / "far/a") == "new");
}
