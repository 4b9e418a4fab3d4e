#include "gpt2/hugging_face/model_folder.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "gpt2/files/strict_json.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/model/parameters.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Numbers that are turned round at once.
constexpr std::int64_t band_numbers = 1 << 20;

std::string without_prefix(const std::string& name) {
  return name.rfind(name_prefix, 0) == 0 ? name.substr(name_prefix.size()) : name;
}

/// Which file of the folder each tensor is in.
std::map<std::string, std::string> weight_map(const fs::path& index) {
  const input_file file(index);
  const json value = parse_strictly(file, read_file(index));
  const json map = value.is_object() ? value.value("weight_map", json()) : json();
  if (!map.is_object()) file.fail("an object with the object weight_map is wanted, got none");
  std::map<std::string, std::string> files;
  for (const auto& [tensor, name] : map.items()) {
    // Only a file of this folder: the index may be from anywhere.
    const fs::path path = name.is_string() ? name.get<std::string>() : "";
    if (path.empty() || path != path.filename() || path == "." || path == "..") {
      file.fail("weight_map: " + shown(tensor) + " must be in a file of this folder, got " +
                shown(name));
    }
    files[tensor] = path.string();
  }
  return files;
}

/// Requires that the file has those tensors that the index says it has, and no other.
void require_indexed(const safetensors_file& file, const std::map<std::string, std::string>& map) {
  const std::string name = file.file().path().filename().string();
  std::set<std::string> wanted;
  for (const auto& [tensor, where] : map) {
    if (where == name) wanted.insert(tensor);
  }
  for (const safetensor& tensor : file.tensors()) {
    if (wanted.erase(tensor.name) == 1) continue;
    file.file().fail("the tensors must be those of " + std::string(index_name) + ", got " +
                     shown(tensor.name) + ", too");
  }
  if (!wanted.empty()) {
    file.file().fail("tensor " + shown(*wanted.begin()) + " is wanted by " + index_name +
                     ", got none");
  }
}

/// Calls `visit(first, count)` for bands of a tensor's rows.
template <class Visit>
void for_each_band(const named_parameter& tensor, Visit visit) {
  const std::int64_t rows = tensor.rows();
  const std::int64_t most = std::max<std::int64_t>(1, band_numbers / tensor.columns());
  for (std::int64_t first = 0; first < rows; first += most) {
    visit(first, std::min(most, rows - first));
  }
}

}  // namespace

bool is_model_folder(const fs::path& folder) {
  return fs::exists(folder / safetensors_name) || fs::exists(folder / index_name);
}

model_folder::model_folder(const fs::path& path) {
  const fs::path folder = fs::is_directory(path) ? path : path.parent_path();
  config_ = read_hugging_face_config(folder / config_name);
  paths_.push_back(folder / config_name);
  open_files(path);
  find_parts();
}

void model_folder::open_files(const fs::path& path) {
  const auto open = [&](const fs::path& name) {
    paths_.push_back(name);
    return safetensors_file(name);
  };
  if (!fs::is_directory(path)) {
    files_.push_back(open(path));
  } else if (fs::exists(path / safetensors_name)) {
    files_.push_back(open(path / safetensors_name));
  } else {
    paths_.push_back(path / index_name);
    const std::map<std::string, std::string> map = weight_map(path / index_name);
    std::set<std::string> names;
    for (const auto& [tensor, name] : map) names.insert(name);
    for (const std::string& name : names) {
      files_.push_back(open(path / name));
      require_indexed(files_.back(), map);
    }
  }
}

void model_folder::find_parts() {
  std::map<std::string, named_parameter> missing;
  for (named_parameter& each : named_parameters(config_.extents)) missing[each.name] = each;
  const std::vector<std::int64_t> table_shape = missing.at("wte.weight").shape;
  const std::map<std::string, named_parameter> known = missing;

  for (std::size_t file = 0; file < files_.size(); ++file) {
    const input_file& input = files_[file].file();
    for (const safetensor& tensor : files_[file].tensors()) {
      const std::string name = without_prefix(tensor.name);
      const std::string what = "tensor " + shown(tensor.name);
      if (is_mask(name)) continue;
      const bool is_head = tensor.name == head_name;
      const auto found = known.find(is_head ? "wte.weight" : name);
      if (found == known.end())
        input.fail(what + " is none of a GPT-2 of " + std::to_string(config_.extents.layers) +
                   " layers");
      if (is_head ? !heads_.empty() : missing.erase(name) == 0) {
        input.fail(what + " must be there once, got another one of the same meaning");
      }
      const named_parameter& place = found->second;
      input.require(tensor.numbers().has_value(), what, "of F32, F16 or BF16", tensor.type);
      input.require(tensor.shape == place.shape, what,
                    "of shape " + shape_text(place.shape) + " by " + config_name,
                    shape_text(tensor.shape));
      (is_head ? heads_ : parts_).push_back({file, tensor, place});
    }
  }
  if (missing.empty()) return;
  throw input_error(paths_.back().string() + ": tensor " + missing.begin()->first +
                    " is wanted, got none (" + std::to_string(missing.size()) + " are missing)");
}

std::string model_folder::types() const {
  std::set<std::string> types;
  for (const part& each : parts_) types.insert(each.tensor.type);
  std::string text;
  for (const std::string& type : types) text += (text.empty() ? "" : " and ") + type;
  return text;
}

template <class Visit>
void model_folder::read_bands(const part& each, Visit visit) const {
  const number_type type = *each.tensor.numbers();
  const std::int64_t columns = each.place.columns();
  std::vector<float> band;
  for_each_band(each.place, [&](std::int64_t first, std::int64_t count) {
    band.resize(static_cast<std::size_t>(count * columns));
    files_[each.file].file().read_floats(band.data(), count * columns, type,
                                         each.tensor.begin + first * columns * bytes_of(type));
    visit(first, count, band.data());
  });
}

void model_folder::read(const part& each, float* to) const {
  const std::int64_t rows = each.place.rows();
  const std::int64_t columns = each.place.columns();
  read_bands(each, [&](std::int64_t first, std::int64_t count, const float* band) {
    if (!each.place.transposed) {
      std::copy_n(band, count * columns, to + first * columns);
      return;
    }
    for (std::int64_t column = 0; column < columns; ++column) {
      float* const at = to + column * rows + first;
      for (std::int64_t row = 0; row < count; ++row) at[row] = band[row * columns + column];
    }
  });
}

void model_folder::compare_head(const part& head, const float* table) const {
  const std::int64_t columns = head.place.columns();
  read_bands(head, [&](std::int64_t first, std::int64_t count, const float* band) {
    const auto bytes = static_cast<std::size_t>(count * columns) * sizeof(float);
    if (std::memcmp(band, table + first * columns, bytes) == 0) return;
    files_[head.file].file().fail("tensor " + std::string(head_name) +
                                  " must be equal to wte.weight, since GPT-2's head is " +
                                  "the token embedding, got other numbers in rows " +
                                  std::to_string(first) + " to " +
                                  std::to_string(first + count - 1));
  });
}

std::vector<float> model_folder::parameters() const {
  // What no tensor covers, the padding of the vocabulary, stays zero.
  std::vector<float> parameters(static_cast<std::size_t>(parameter_layout(config_.extents).count()),
                                0.0f);
  for (const part& each : parts_) read(each, parameters.data() + each.place.offset);
  for (const part& each : heads_) compare_head(each, parameters.data() + each.place.offset);
  return parameters;
}

void write_safetensors(output_file& output, const gpt2_config& config,
                       const std::vector<float>& parameters) {
  const std::vector<named_parameter> all = named_parameters(config);
  std::vector<named_shape> shapes;
  for (const named_parameter& each : all) {
    shapes.push_back({std::string(name_prefix) + each.name, each.shape});
  }
  const std::string header = safetensors_header(shapes);
  output.write(header.data(), header.size());
  std::vector<float> band;
  for (const named_parameter& each : all) {
    const float* const from = parameters.data() + each.offset;
    const std::int64_t rows = each.rows();
    const std::int64_t columns = each.columns();
    for_each_band(each, [&](std::int64_t first, std::int64_t count) {
      const auto numbers = static_cast<std::size_t>(count * columns);
      const float* rows_of_band = from + first * columns;
      if (each.transposed) {
        band.resize(numbers);
        for (std::int64_t column = 0; column < columns; ++column) {
          const float* const at = from + column * rows + first;
          for (std::int64_t row = 0; row < count; ++row) band[row * columns + column] = at[row];
        }
        rows_of_band = band.data();
      }
      output.write(rows_of_band, numbers * sizeof(float));
    });
  }
}

}  // namespace gpt2_trainer
