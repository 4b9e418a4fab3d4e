#include "gpt2/data/data_record.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "gpt2/input_error.hpp"
#include "gpt2/run/json_text.hpp"

namespace gpt2_trainer {
namespace {

using nlohmann::json;

/// The coarsest time stamps are FAT's, of 2 seconds.
constexpr std::int64_t coarsest_tick = 2'000'000'000;

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

bool same_bytes(const file_record& a, const file_record& b) {
  return a.bytes == b.bytes && a.checksum == b.checksum;
}

std::map<std::string, const file_record*> by_name(const data_record& record) {
  std::map<std::string, const file_record*> files;
  for (const file_record& file : record) files.emplace(file.name, &file);
  return files;
}

std::string difference(const file_record& wanted, const file_record& seen) {
  if (wanted.bytes != seen.bytes) {
    return seen.name + " must have " + std::to_string(wanted.bytes) + " bytes, got " +
           std::to_string(seen.bytes);
  }
  return seen.name + " must have checksum " + wanted.checksum + ", got " + seen.checksum;
}

/// A sentence for each file that changed, is new or is missing; if there is none, for the order.
std::vector<std::string> differences(const data_record& wanted, const data_record& seen) {
  const auto before = by_name(wanted);
  const auto now = by_name(seen);
  std::vector<std::string> all;
  for (const auto& [name, file] : now) {
    const auto same_name = before.find(name);
    if (same_name == before.end()) {
      all.push_back(name + " is new");
    } else if (!same_bytes(*same_name->second, *file)) {
      all.push_back(difference(*same_name->second, *file));
    }
  }
  for (const auto& [name, file] : before) {
    if (now.count(name) == 0) all.push_back(name + " is missing");
  }
  if (all.empty()) all.push_back("they are in another order");
  return all;
}

json describe(const file_record& file) {
  json text{{"name", json_of_text(file.name)}, {"bytes", file.bytes}, {"checksum", file.checksum}};
  if (file.stamp) {
    text["modified"] = file.stamp->modified;
    text["changed"] = file.stamp->changed;
    text["inode"] = file.stamp->inode;
  }
  return text;
}

/// Throws input_error or json::exception where the text describes no file.
file_record from_description(const json& text) {
  const auto integer = [&](const char* key) -> const json& {
    const json& value = text.at(key);
    // Else the JSON library would convert fractions, of any size, without a word.
    if (!value.is_number_integer()) throw input_error(std::string(key) + " must be an integer");
    return value;
  };
  file_record file{text_of_json(text.at("name")), integer("bytes"), text.at("checksum"),
                   std::nullopt};
  if (text.contains("inode")) {
    file.stamp = {file.bytes, integer("modified"), integer("changed"), integer("inode")};
  }
  return file;
}

}  // namespace

file_stamp stamp_of(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    throw input_error(path.string() + ": cannot open: " + std::strerror(errno));
  }
  return {status.st_size, nanoseconds(status.st_mtim), nanoseconds(status.st_ctim), status.st_ino};
}

std::optional<std::string> checksum_of(const input_file& input,
                                       const std::function<bool(std::string_view)>& use) {
  constexpr std::int64_t piece_bytes = 1 << 18;
  checksum sum;
  std::string piece;
  for (std::int64_t at = 0; at < input.size(); at += piece_bytes) {
    piece.resize(static_cast<std::size_t>(std::min(piece_bytes, input.size() - at)));
    input.read(piece.data(), piece.size(), at);
    if (!use(piece)) return std::nullopt;
    sum.add(piece.data(), piece.size());
  }
  return sum.text();
}

std::optional<file_stamp> settled(const file_stamp& stamp) {
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  if (std::max(stamp.modified, stamp.changed) >= now.count() - coarsest_tick) return std::nullopt;
  return stamp;
}

const file_record* find_unchanged(const data_record& known, const std::string& name,
                                  const file_stamp& stamp) {
  const auto found = std::find_if(known.begin(), known.end(), [&](const file_record& file) {
    return file.name == name && file.stamp == stamp;
  });
  return found == known.end() ? nullptr : &*found;
}

void require_same(const std::string& data, const data_record& wanted, const data_record& seen) {
  if (std::equal(wanted.begin(), wanted.end(), seen.begin(), seen.end(), same_bytes)) return;
  constexpr std::size_t shown = 3;
  const std::vector<std::string> all = differences(wanted, seen);
  std::string text = data + ": the data must be those of the run that is resumed, but " + all[0];
  for (std::size_t i = 1; i < std::min(shown, all.size()); ++i) text += "; " + all[i];
  if (all.size() > shown) text += "; and " + std::to_string(all.size() - shown) + " more";
  throw input_error(text);
}

std::string data_record_to_json(const data_record& record) {
  json files = json::array();
  for (const file_record& file : record) files.push_back(describe(file));
  return files.dump();
}

data_record data_record_from_json(const std::string& text) {
  try {
    data_record record;
    for (const json& file : json::parse(text)) record.push_back(from_description(file));
    return record;
  } catch (const json::exception& error) {
    throw input_error(std::string("a list of the data's files is wanted in the state, got ") +
                      error.what());
  }
}

}  // namespace gpt2_trainer
