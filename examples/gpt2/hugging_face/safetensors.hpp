/// @file
/// The safetensors format: a header of JSON that names tensors, then their bytes.
///
/// A file is read strictly. Its tensors must tile the bytes after the header, without holes and
/// without overlap, so each byte of a file means one thing. Errors have the names in brackets that
/// the format's own library gives them: (InvalidOffset).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpt2/files/file.hpp"
#include "gpt2/model/number_type.hpp"

namespace gpt2_trainer {

struct safetensor {
  std::string name;
  std::string type;                 ///< "F32"
  std::vector<std::int64_t> shape;  ///< row-major
  std::int64_t begin;               ///< of its bytes in the file
  std::int64_t end;

  /// The type of its numbers, if it is one that a model's may have.
  std::optional<number_type> numbers() const;
};

/// "(2, 3)".
std::string shape_text(const std::vector<std::int64_t>& shape);

class safetensors_file {
 public:
  /// Reads the header and checks all of it; what is wrong is an input_error.
  explicit safetensors_file(const std::filesystem::path& path);

  const input_file& file() const { return file_; }
  /// In the order of their bytes.
  const std::vector<safetensor>& tensors() const { return tensors_; }

 private:
  input_file file_;
  std::vector<safetensor> tensors_;
};

/// A tensor that is to be written as F32.
struct named_shape {
  std::string name;
  std::vector<std::int64_t> shape;
};

/// What stands in a file before the tensors' bytes, which follow in this order.
std::string safetensors_header(const std::vector<named_shape>& tensors);

}  // namespace gpt2_trainer
