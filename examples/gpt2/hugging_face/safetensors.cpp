#include "gpt2/hugging_face/safetensors.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "gpt2/files/strict_json.hpp"

namespace gpt2_trainer {
namespace {

using nlohmann::json;

constexpr std::int64_t length_bytes = 8;
constexpr std::int64_t longest_header = 100'000'000;
constexpr const char* metadata_name = "__metadata__";

struct tensor_type {
  const char* name;
  std::int64_t bytes;
};
constexpr std::array tensor_types{
    tensor_type{"F32", 4},     tensor_type{"F16", 2},     tensor_type{"BF16", 2},
    tensor_type{"F64", 8},     tensor_type{"BOOL", 1},    tensor_type{"U8", 1},
    tensor_type{"I8", 1},      tensor_type{"F8_E5M2", 1}, tensor_type{"F8_E4M3", 1},
    tensor_type{"F8_E8M0", 1}, tensor_type{"I16", 2},     tensor_type{"U16", 2},
    tensor_type{"I32", 4},     tensor_type{"U32", 4},     tensor_type{"I64", 8},
    tensor_type{"U64", 8},     tensor_type{"C64", 8}};

/// The product of extents and of bytes an element, if it is a number.
std::optional<std::int64_t> product(std::int64_t bytes, const std::vector<std::int64_t>& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (const std::int64_t extent : shape) {
    if (extent > std::numeric_limits<std::int64_t>::max() / bytes) return std::nullopt;
    bytes *= extent;
  }
  return bytes;
}

/// Reads what the header says of one tensor after another.
class header_reader {
 public:
  header_reader(const input_file& file, std::int64_t data) : file_(file), data_(data) {}

  safetensor tensor(const std::string& name, const json& value) const {
    const std::string what = "tensor " + shown(name);
    if (!value.is_object()) refuse(what, "an object", value);
    for (const auto& member : value.items()) {
      const std::string& key = member.key();
      if (key == "dtype" || key == "shape" || key == "data_offsets") continue;
      refuse(what, "one of dtype, shape and data_offsets", shown(key));
    }
    safetensor tensor{name, "", numbers(what, value, "shape"), 0, 0};
    const json type = value.value("dtype", json());
    const auto known = std::find_if(tensor_types.begin(), tensor_types.end(),
                                    [&](const tensor_type& each) { return type == each.name; });
    if (known == tensor_types.end()) refuse(what + ": dtype", "one that safetensors has", type);
    tensor.type = known->name;

    const std::vector<std::int64_t> offsets = numbers(what, value, "data_offsets");
    if (offsets.size() != 2) refuse(what + ": data_offsets", "two", value["data_offsets"]);
    const std::int64_t room = file_.size() - data_;
    if (offsets[0] > offsets[1] || offsets[1] > room) {
      file_.fail(what + ": data_offsets must rise and end within the " + std::to_string(room) +
                 " bytes of data, got " + value["data_offsets"].dump() + " (InvalidOffset)");
    }
    const std::optional<std::int64_t> bytes = product(known->bytes, tensor.shape);
    if (!bytes) {
      file_.fail(what + ": shape must have less than 2^63 bytes, got " + value["shape"].dump() +
                 " (ValidationOverflow)");
    }
    if (*bytes != offsets[1] - offsets[0]) {
      file_.fail(what + ": by dtype and shape it must have " + std::to_string(*bytes) +
                 " bytes, got data_offsets of " + std::to_string(offsets[1] - offsets[0]) +
                 " (TensorInvalidInfo)");
    }
    tensor.begin = data_ + offsets[0];
    tensor.end = data_ + offsets[1];
    return tensor;
  }

  void metadata(const json& value) const {
    if (!value.is_object()) refuse(metadata_name, "an object", value);
    for (const auto& member : value.items()) {
      if (member.value().is_string()) continue;
      refuse(metadata_name + (": " + shown(member.key())), "a string", member.value());
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& wanted,
                           const std::string& seen) const {
    file_.fail(what + " must be " + wanted + ", got " + seen + " (InvalidHeaderDeserialization)");
  }
  [[noreturn]] void refuse(const std::string& what, const std::string& wanted,
                           const json& seen) const {
    refuse(what, wanted, seen.is_null() ? "none" : shown(seen));
  }

  std::vector<std::int64_t> numbers(const std::string& what, const json& value,
                                    const char* name) const {
    const json list = value.value(name, json());
    const auto is_number = [](const json& each) {
      return each.is_number_unsigned() &&
             each.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max();
    };
    if (!list.is_array() || !std::all_of(list.begin(), list.end(), is_number)) {
      refuse(what + ": " + name, "a list of whole numbers from 0 to 2^63 - 1", list);
    }
    return list.get<std::vector<std::int64_t>>();
  }

  const input_file& file_;
  std::int64_t data_;  ///< where the tensors' bytes begin
};

/// The header's text. The file stands after it then.
std::string header_text(input_file& file) {
  if (file.size() < length_bytes) {
    file.fail("a safetensors file must have at least 8 bytes, got " + std::to_string(file.size()) +
              " (HeaderTooSmall)");
  }
  std::uint64_t length = 0;
  file.next(&length, sizeof length);
  const std::string got = ", got " + std::to_string(length);
  if (length > static_cast<std::uint64_t>(longest_header)) {
    file.fail("the header of a safetensors file must have at most " +
              std::to_string(longest_header) + " bytes" + got + " (HeaderTooLarge)");
  }
  const std::int64_t room = file.size() - length_bytes;
  if (static_cast<std::int64_t>(length) > room) {
    file.fail("the header must end within the file, so have at most " + std::to_string(room) +
              " bytes" + got + " (InvalidHeaderLength)");
  }
  std::string text(static_cast<std::size_t>(length), '\0');
  file.next(text.data(), text.size());
  if (text.empty() || text.front() != '{') {
    file.fail("the header must begin with {, got " +
              (text.empty() ? "none" : shown(text.substr(0, 1))) + " (InvalidHeaderStart)");
  }
  return text;
}

/// Requires that each tensor begins where the one before it ends, and the last one ends the file.
void require_tiling(const input_file& file, const std::vector<safetensor>& tensors,
                    std::int64_t data) {
  std::int64_t next = data;
  for (const safetensor& tensor : tensors) {
    if (tensor.begin != next) {
      file.fail("tensor " + shown(tensor.name) + ": its data must begin at " +
                std::to_string(next - data) + ", where those before it end, got " +
                std::to_string(tensor.begin - data) + " (InvalidOffset)");
    }
    next = tensor.end;
  }
  if (next != file.size()) {
    file.fail("the tensors must end with the file, after " + std::to_string(file.size() - data) +
              " bytes of data, got " + std::to_string(next - data) + " (MetadataIncompleteBuffer)");
  }
}

}  // namespace

std::optional<number_type> safetensor::numbers() const {
  for (const number_type each : number_types) {
    if (type == to_string(each)) return each;
  }
  return std::nullopt;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t extent : shape) {
    text += (text.empty() ? "" : ", ") + std::to_string(extent);
  }
  return "(" + text + ")";
}

safetensors_file::safetensors_file(const std::filesystem::path& path) : file_(path) {
  const json header = parse_strictly(file_, header_text(file_));
  const std::int64_t data = file_.offset();
  const header_reader reader(file_, data);
  for (const auto& [name, value] : header.items()) {
    if (name == metadata_name) {
      reader.metadata(value);
    } else {
      tensors_.push_back(reader.tensor(name, value));
    }
  }
  // One without bytes stands before the one that begins at the same place.
  std::sort(tensors_.begin(), tensors_.end(), [](const safetensor& a, const safetensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  require_tiling(file_, tensors_, data);
}

std::string safetensors_header(const std::vector<named_shape>& tensors) {
  json header{{metadata_name, {{"format", "pt"}}}};  // without it transformers refuses the file
  std::int64_t next = 0;
  for (const named_shape& tensor : tensors) {
    const std::int64_t end = next + *product(sizeof(float), tensor.shape);
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {next, end}}};
    next = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // then the numbers are aligned
  const std::uint64_t length = text.size();
  std::string length_text(sizeof length, '\0');
  std::memcpy(length_text.data(), &length, sizeof length);
  return length_text + text;
}

}  // namespace gpt2_trainer
