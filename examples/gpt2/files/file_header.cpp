#include "gpt2/files/file_header.hpp"

#include <algorithm>
#include <string>

#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

void require_number(const input_file& file, const file_kind& kind, const std::string& what,
                    std::int32_t seen, std::int32_t wanted) {
  if (seen == wanted) return;
  throw input_error(file.path().string() + ": " + what + " must be " + std::to_string(wanted) +
                    " (" + kind.name + "), got " + std::to_string(seen));
}

}  // namespace

file_header read_header(const input_file& file, const file_kind& kind) {
  if (file.size() < header_bytes) {
    throw input_error(file.path().string() + ": the file must be " + kind.name + " of at least " +
                      std::to_string(header_bytes) + " bytes, got " + std::to_string(file.size()));
  }
  file_header header;
  file.read(header.data(), sizeof header, 0);
  require_number(file, kind, "magic number", header[0], kind.magic);
  require_number(file, kind, "version", header[1], kind.version);
  return header;
}

void require_size(const input_file& file, std::int64_t bytes) {
  if (file.size() == bytes) return;
  throw input_error(file.path().string() + ": by its header the file must have " +
                    std::to_string(bytes) + " bytes, got " + std::to_string(file.size()));
}

file_header make_header(const file_kind& kind, const std::vector<std::int64_t>& extents) {
  file_header header{kind.magic, kind.version};
  std::transform(extents.begin(), extents.end(), header.begin() + 2,
                 [](std::int64_t extent) { return static_cast<std::int32_t>(extent); });
  return header;
}

}  // namespace gpt2_trainer
