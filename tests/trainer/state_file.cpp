// State files that are right by their checksum and wrong in what they say.
#include <limits>

#include "../support/catch.hpp"
#include "checkpoint_support.hpp"
#include "gpt2/files/file.hpp"
#include "temporary_folder.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

namespace {

/// A state's file as docs/file-formats.md has it, with moments of one parameter.
std::filesystem::path write_state_file(const std::filesystem::path& path,
                                       const std::string& description, std::uint64_t parameters = 1,
                                       float v = 0.25f) {
  struct {
    char magic[8] = {'l', 'l', 'm', 'c', 's', 't', 'a', 't'};
    std::uint32_t version = 2;
    std::uint32_t description_bytes = 0;
    std::uint64_t parameters = 0;
  } header;
  header.description_bytes = static_cast<std::uint32_t>(description.size());
  header.parameters = parameters;
  const float moments[2] = {0.5f, v};
  checksum sum;
  sum.add(&header, sizeof header);
  sum.add(description.data(), description.size());
  sum.add(&moments[0], sizeof(float));
  sum.add(&moments[1], sizeof(float));
  const std::uint64_t value = sum.value();
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += description;
  bytes.append(reinterpret_cast<const char*>(moments), sizeof moments);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  return write_text(path, bytes);
}

/// A description in which one entry is `text` instead.
std::string description(const std::string& name = "", const std::string& text = "") {
  std::string result = "{";
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"step", "8"},
                                                        {"epoch", "1"},
                                                        {"shard", "0"},
                                                        {"window", "3"},
                                                        {"data", "\"0123\""},
                                                        {"model", "\"4567\""},
                                                        {"options", "{}"},
                                                        {"plans", "\"\""}}) {
    result += "\"" + key + "\":" + (key == name ? text : value) + (key == "plans" ? "}" : ",");
  }
  return result;
}

}  // namespace

TEST_CASE("state file: each number has a range", "[checkpoint]") {
  const temporary_folder folder;
  const auto path = folder / "state.bin";
  const training_state state = read_state(write_state_file(path, description()));
  CHECK(state.step == 8);
  CHECK(state.loader.window == 3);
  CHECK(state.moments.v == std::vector<float>{0.25f});

  const std::string name = GENERATE("step", "epoch", "shard", "window");
  for (const char* value :
       {"-1", "2.5", "1e300", "9007199254740993", "9223372036854775807", "9223372036854775808",
        "18446744073709551615", "18446744073709551616", "\"8\"", "null", "true", "[]"}) {
    write_state_file(path, description(name, value));
    const std::string refused = message_of([&] { read_state(path); });
    INFO(value);
    INFO(refused);
    CHECK(refused.find(path.string() + ": " + name +
                       " must be an integer between 0 and 9007199254740992, got ") == 0);
  }
  write_state_file(path, description(name, "9007199254740992"));
  CHECK_NOTHROW(read_state(path));
}

TEST_CASE("state file: mean squares below 0 are refused", "[checkpoint]") {
  const temporary_folder folder;
  const auto path = write_state_file(folder / "state.bin", description(), 1, -0.5f);
  CHECK(message_of([&] { read_state(path); }) ==
        path.string() + ": AdamW's mean squares must be at least 0, got -0.500000");
}

TEST_CASE("state file: a description that is none is refused", "[checkpoint]") {
  const temporary_folder folder;
  const auto refused = [&](const std::string& text) {
    const auto path = write_state_file(folder / "state.bin", text);
    const std::string message = message_of([&] { read_state(path); });
    return message.find(path.string() + ": ") == 0 ? message.substr(path.string().size() + 2) : "";
  };
  for (const std::string text : {"", "{", "7", "[]", "{}", "null", "\xff"}) {
    INFO(text);
    CHECK(refused(text).find("a description of the training state is wanted, got ") == 0);
  }
  for (const char* name : {"model", "plans"}) {
    CHECK(refused(description(name, "7")).find("a description of the training state") == 0);
  }
  std::string lacks = description();
  lacks.replace(lacks.find("plans"), 5, "plan_");
  CHECK(refused(lacks).find("'plans'") != std::string::npos);
}

TEST_CASE("state file: JSON that is nested without end is refused", "[checkpoint]") {
  const temporary_folder folder;
  const auto path = folder / "state.bin";
  constexpr std::size_t depth = 100000;
  const auto nested = [](const std::string& open, const std::string& close) {
    std::string text;
    for (std::size_t i = 0; i < depth; ++i) text += open;
    text += "0";
    for (std::size_t i = 0; i < depth; ++i) text += close;
    return text;
  };
  for (const std::string& deep : {nested("[", "]"), nested("{\"a\":", "}"), nested("[", "")}) {
    for (const std::string& text :
         {deep, description("options", deep), description("step", deep)}) {
      write_state_file(path, text);
      CHECK(message_of([&] { read_state(path); }) ==
            path.string() + ": depth of the description must be at most 8, got more");
    }
  }
}

TEST_CASE("state file: a number of parameters that the file has no room for is refused",
          "[checkpoint]") {
  const temporary_folder folder;
  const auto path = folder / "state.bin";
  const auto wanted = GENERATE(std::uint64_t{0}, std::uint64_t{2}, std::uint64_t{1} << 61,
                               std::uint64_t{1} << 63, std::numeric_limits<std::uint64_t>::max());
  write_state_file(path, description(), wanted);
  const std::string refused = message_of([&] { read_state(path); });
  INFO(refused);
  CHECK((refused.find(": number of parameters must be at most ") != std::string::npos ||
         refused.find(": by its header the file must have ") != std::string::npos));
}
