#include <fstream>

#include "../support/catch.hpp"
#include "checkpoint_support.hpp"
#include "gpt2/files/file.hpp"
#include "gpt2/input_error.hpp"
#include "temporary_folder.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

namespace {

std::string refusal(const std::filesystem::path& path) {
  return message_of([&] { read_model(path); });
}

/// Changes one integer of a header.
void set_header(const std::filesystem::path& path, int index, std::int32_t value) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(index * 4);
  file.write(reinterpret_cast<const char*>(&value), 4);
}

}  // namespace

TEST_CASE("checkpoint: a model is written in llm.c's format and read back", "[checkpoint]") {
  const temporary_folder folder;
  const auto path = folder / "model.bin";
  const model_file model = small_model(1);
  write_model(path, model);
  CHECK(files_in(folder.path()) == 1);  // nothing temporary is left

  std::vector<std::int32_t> header(256);
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(header.data()), 1024);
  std::vector<std::int32_t> wanted(256, 0);
  const std::vector<std::int32_t> first{20240326, 3, 6, 10, 2, 3, 12, 128};
  std::copy(first.begin(), first.end(), wanted.begin());
  CHECK(header == wanted);
  CHECK(std::filesystem::file_size(path) == 1024 + 4 * model.parameters.size());

  const model_file read = read_model(path);
  CHECK(read.parameters == model.parameters);
  CHECK(read.config.max_sequence == 6);
  CHECK(read.config.vocabulary == 10);
  CHECK(read.config.padded_vocabulary == 128);
  CHECK(read.config.layers == 2);
  CHECK(read.config.heads == 3);
  CHECK(read.config.channels == 12);
}

TEST_CASE("checkpoint: files that are no models are refused with what was seen and wanted",
          "[checkpoint]") {
  const temporary_folder folder;
  const auto path = folder / "model.bin";
  const std::string name = path.string() + ": ";
  const auto refusal_with = [&](int index, std::int32_t value) {
    write_model(path, small_model(1));
    set_header(path, index, value);
    return refusal(path);
  };
  CHECK(refusal_with(0, 7) ==
        name + "magic number must be 20240326 (an llm.c FP32 checkpoint), got 7");
  CHECK(refusal_with(1, 4) == name + "version must be 3 (an llm.c FP32 checkpoint), got 4");
  CHECK(refusal_with(1, 5).find(name + "by its header the file must have") == 0);  // it is BF16
  CHECK(refusal_with(2, 0).find(name + "context must be between 1 and") == 0);
  CHECK(refusal_with(3, -1).find(name + "vocabulary must be between 1 and") == 0);
  CHECK(refusal_with(4, 1 << 30).find(name + "layers must be between 1 and") == 0);
  CHECK(refusal_with(5, 5).find(name + "heads must divide channels") == 0);
  CHECK(refusal_with(6, 0).find(name + "channels must be between 1 and") == 0);
  CHECK(refusal_with(7, 9).find(name + "padded vocabulary must be between 10 and") == 0);
  CHECK(refusal_with(4, 3).find(name + "by its header the file must have") == 0);

  write_model(path, small_model(1));
  const std::uintmax_t size = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, size - 1);
  CHECK(refusal(path) == name + "by its header the file must have " + std::to_string(size) +
                             " bytes, got " + std::to_string(size - 1));
  std::filesystem::resize_file(path, size + 4);
  CHECK(refusal(path).find("by its header") != std::string::npos);
  write_text(path, "");
  CHECK(refusal(path).find("of at least 1024 bytes, got 0") != std::string::npos);
  std::filesystem::remove(path);
  CHECK(refusal(path) == name + "cannot open: No such file or directory");
  CHECK_THROWS_AS(read_model(folder.path()), input_error);
}

TEST_CASE("checkpoint: a state is read back as it was written", "[checkpoint]") {
  const temporary_folder folder;
  const model_file model = small_model(1);
  const training_state state = small_state(model);
  const checkpoint_paths paths = checkpoint_at(folder.path(), 200);
  CHECK(paths.model.filename() == "model_00000200.bin");
  CHECK(paths.state.filename() == "state_00000200.bin");
  write_checkpoint(paths, model, state);
  CHECK(files_in(folder.path()) == 2);

  const auto from = GENERATE(true, false);  // the folder, the file
  const checkpoint read = read_checkpoint(from ? folder.path() : paths.state);
  CHECK(read.paths.model == paths.model);
  CHECK(read.paths.state == paths.state);
  CHECK(read.model.parameters == model.parameters);
  CHECK(read.state.step == 200);
  CHECK(read.state.loader.epoch == 3);
  CHECK(read.state.loader.shard == 1);
  CHECK(read.state.loader.window == 7);
  CHECK(read.state.data == state.data);
  CHECK(read.state.model == read.model.checksum);
  CHECK(read.state.options == state.options);
  CHECK(read.state.plans == state.plans);
  CHECK(read.state.moments.m == state.moments.m);
  CHECK(read.state.moments.v == state.moments.v);
}

TEST_CASE("checkpoint: a folder's steps are those of its models and states", "[checkpoint]") {
  const temporary_folder folder;
  CHECK(steps_in(folder.path()).empty());
  CHECK(steps_in(folder / "missing").empty());
  CHECK_THROWS_AS(read_checkpoint(folder.path()), input_error);
  for (const char* name :
       {"state_00000008.bin", "model_00000008.bin", "state_00000016.bin", "model_00000024.bin",
        "state_00000032.bin.llmc-0123abcd.tmp", "state_40.bin", "state_x.bin", "state_00000099.txt",
        "stats_00000064.bin", "state_-0000064.bin", "state_99999999999999999999.bin"}) {
    write_text(folder / name, "");
  }
  CHECK(steps_in(folder.path()) == std::vector<std::int64_t>{24, 16, 8});
  write_text(folder / "state_100000000.bin", "");  // one digit more
  CHECK(steps_in(folder.path()).front() == 100000000);
}

TEST_CASE("checkpoint: states that do not fit are refused", "[checkpoint]") {
  const temporary_folder folder;
  const model_file model = small_model(1);
  const checkpoint_paths paths = checkpoint_at(folder.path(), 200);
  const auto refused = [&] { return message_of([&] { read_checkpoint(paths.state); }); };
  const auto write_again = [&] { write_checkpoint(paths, model, small_state(model)); };

  write_again();
  write_model(paths.model, small_model(2));  // another run's
  CHECK(refused().find(paths.model.string() + ": checksum of the model must be") == 0);

  write_again();
  const std::uintmax_t size = std::filesystem::file_size(paths.state);
  std::filesystem::resize_file(paths.state, size - 4);
  CHECK(refused().find("by its header the file must have " + std::to_string(size)) !=
        std::string::npos);
  std::filesystem::resize_file(paths.state, 30);
  CHECK(refused().find("number of parameters must be at most 3 in a file of 30 bytes") !=
        std::string::npos);
  std::filesystem::resize_file(paths.state, 20);
  CHECK(refused().find("a training state is wanted") != std::string::npos);

  write_again();
  set_header(paths.state, static_cast<int>(size / 4) - 3, 12345);  // one of the moments
  CHECK(refused().find("checksum of the state must be") != std::string::npos);
  write_again();
  set_header(paths.state, 6, 0);  // the first bytes of the description
  CHECK(refused().find("checksum of the state must be") != std::string::npos);

  write_again();
  set_header(paths.state, 2, 1);
  CHECK(refused().find(paths.state.string() +
                       ": version of the training state must be 2, got 1 (") == 0);
  set_header(paths.state, 0, 0);
  CHECK(refused().find("a training state is wanted") != std::string::npos);

  write_again();
  std::filesystem::rename(paths.state, checkpoint_at(folder.path(), 201).state);
  CHECK(message_of([&] {
          read_checkpoint(checkpoint_at(folder.path(), 201).state);
        }).find("step must be 201 as in the file's name, got 200") != std::string::npos);
  std::filesystem::rename(checkpoint_at(folder.path(), 201).state, folder / "best.bin");
  CHECK(read_checkpoint(folder / "best.bin").state.step == 200);

  write_again();
  std::filesystem::remove(paths.model);
  CHECK(refused() == paths.model.string() + ": cannot open: No such file or directory");
}

TEST_CASE("checkpoint: the checksum sees every byte and its place", "[checkpoint]") {
  const auto sum = [](const std::string& text) {
    checksum s;
    s.add(text.data(), text.size());
    return s.text();
  };
  const std::string text = "sixteen bytes ok, and five";
  CHECK(sum(text) == sum(text));
  CHECK(sum(text).size() == 16);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] = static_cast<char>(other[i] ^ 1);
    CHECK(sum(other) != sum(text));
  }
  CHECK(sum("abcdefghABCDEFGH") != sum("ABCDEFGHabcdefgh"));
}
