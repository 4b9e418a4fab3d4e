#include "gpt2/files/file_header.hpp"

#include <algorithm>
#include <string>

namespace gpt2_trainer {

bool has_magic(const input_file& file, const file_kind& kind) {
  std::int32_t magic = 0;
  if (file.size() < header_bytes) return false;
  file.read(&magic, sizeof magic, 0);
  return magic == kind.magic;
}

bool has_kind(const input_file& file, const file_kind& kind) {
  std::int32_t version = 0;
  if (!has_magic(file, kind)) return false;
  file.read(&version, sizeof version, sizeof kind.magic);
  return version == kind.version;
}

file_header read_header(input_file& file, const file_kind& kind) {
  if (file.size() < header_bytes) {
    file.fail("the file must be " + std::string(kind.name) + " of at least " +
              std::to_string(header_bytes) + " bytes, got " + std::to_string(file.size()));
  }
  file_header header;
  file.next(header.data(), sizeof header);
  const auto require = [&](const char* what, std::int32_t wanted, std::int32_t seen) {
    file.require(seen == wanted, what, std::to_string(wanted) + " (" + kind.name + ")",
                 std::to_string(seen));
  };
  require("magic number", kind.magic, header[0]);
  require("version", kind.version, header[1]);
  return header;
}

file_header make_header(const file_kind& kind, const std::vector<std::int64_t>& extents) {
  file_header header{kind.magic, kind.version};
  std::transform(extents.begin(), extents.end(), header.begin() + 2,
                 [](std::int64_t extent) { return static_cast<std::int32_t>(extent); });
  return header;
}

}  // namespace gpt2_trainer
