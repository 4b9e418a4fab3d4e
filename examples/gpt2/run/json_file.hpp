/// @file
/// The files of JSON that a program writes for other programs. Each says of what schema it is, and
/// only by that is a file that exists taken as one that may be written again.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gpt2_trainer {

/// What is in a file.
struct json_schema {
  const char* name;
  int version;
};

/// The members that say it: "schema" and "version".
nlohmann::json json_of_schema(json_schema schema);

/// Throws an input_error if this file exists, is not empty and does not hold one value of that
/// schema, of any version.
void require_own_json(const std::string& path, json_schema schema);

/// Throws an input_error unless lines may be added to that file: it is a pipe or a terminal, does
/// not exist, is empty, or its first line is of that schema.
void require_own_lines(const std::string& path, json_schema schema);

/// A file to which lines of JSON are added. What it holds already stays.
class json_lines {
 public:
  /// Creates the file, and the folders that it lies in, if they do not exist. An input_error if it
  /// cannot be opened. `first`, with the members of the schema, is the line that comes before all
  /// others.
  json_lines(std::string path, json_schema schema, nlohmann::json first);
  json_lines(const json_lines&) = delete;
  json_lines& operator=(const json_lines&) = delete;
  ~json_lines();

  /// Adds a line. Returns why it could not be written; empty if it was. A part of a line is taken
  /// back, and the next line is tried again.
  std::string add(const nlohmann::json& value);
  /// Waits until all lines are on the disk. Returns why they cannot be; empty if they are.
  std::string finish();

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int descriptor_;
  std::string before_;  ///< what has to be written before the next line
};

}  // namespace gpt2_trainer
