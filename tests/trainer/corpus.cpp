#include "gpt2/data/corpus.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>

#include "../support/catch.hpp"
#include "gpt2/data/token_source.hpp"
#include "gpt2/input_error.hpp"
#include "temporary_folder.hpp"
#include "watchdog.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;
using namespace std::string_literals;

namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t gib = std::uintmax_t{1} << 30;

std::string refusal(const fs::path& path, std::int64_t most = largest_text()) {
  return message_of([&] { read_text({path}, most); });
}

/// A file of that size that takes no space.
fs::path make_sparse(const fs::path& path, std::uintmax_t bytes) {
  write_text(path, "text");
  fs::resize_file(path, bytes);
  return path;
}

/// As an ordinary user, to whom rights apply.
class without_privileges {
 public:
  without_privileges() {
    if (is_root_) REQUIRE(::seteuid(65534) == 0);
  }
  ~without_privileges() {
    if (is_root_ && ::seteuid(0) != 0) std::abort();
  }

 private:
  bool is_root_ = ::geteuid() == 0;
};

}  // namespace

TEST_CASE("corpus: a file is one document", "[corpus]") {
  const temporary_folder folder;
  const text_corpus corpus = read_text({write_text(folder / "a.txt", "gr\xC3\xBC\xC3\x9F")});
  CHECK(corpus.text == "\0gr\xC3\xBC\xC3\x9F"s);
  CHECK(corpus.documents == 1);
  CHECK(corpus.passed_over.text().empty());
  REQUIRE(corpus.files.size() == 1);
  CHECK(corpus.files[0].name == "a.txt");
  CHECK(corpus.files[0].bytes == 6);
}

TEST_CASE("corpus: a folder is read by name, without hidden files", "[corpus]") {
  const temporary_folder folder;
  write_text(folder / "b.txt", "second");
  write_text(folder / "a/z.txt", "first");
  write_text(folder / "c.bin", "\xFF\xFE");
  write_text(folder / "d.dat", "a\0b"s);
  write_text(folder / ".git/config", "hidden");
  write_text(folder / ".hidden", "hidden");
  const text_corpus corpus = read_text({folder.path()});
  CHECK(corpus.text == "\0first\0second"s);
  CHECK(corpus.documents == 2);
  REQUIRE(corpus.files.size() == 2);
  CHECK(corpus.files[0].name == "a/z.txt");
  CHECK(corpus.passed_over.text() == "2 not UTF-8 text");
}

TEST_CASE("corpus: what in a folder cannot be used is passed over and counted", "[corpus]") {
  const watchdog hang;
  const temporary_folder folder;
  write_text(folder / "good.txt", "good");
  write_text(folder / "binary", "\0"s);
  make_sparse(folder / "sparse", 100 * gib);
  make_fifo(folder / "fifo");
  fs::create_symlink("itself", folder / "itself");
  fs::create_symlink("nowhere", folder / "dangling");
  fs::create_symlink("/dev/zero", folder / "device");
  fs::create_symlink(".", folder / "circle");
  write_text(folder / "run/product_plans.txt", "text");
  write_text(folder / "run/state_00000004.bin", "");
  fs::create_symlink("good.txt", folder / "linked.txt");  // this one can be used
  const text_corpus corpus = read_text({folder.path()}, 1000);
  CHECK(corpus.text == "\0good\0good"s);
  CHECK(corpus.passed_over[pass_over::not_text] == 1);
  CHECK(corpus.passed_over[pass_over::too_large] == 1);
  CHECK(corpus.passed_over[pass_over::not_readable] == 2);
  CHECK(corpus.passed_over[pass_over::no_file] == 2);
  CHECK(corpus.passed_over[pass_over::folder_link] == 1);
  CHECK(corpus.passed_over[pass_over::run_folder] == 1);
  CHECK(corpus.passed_over.text() ==
        "1 not UTF-8 text, 1 too large, 2 not readable, 2 not a regular file, 1 link to a folder, "
        "1 folder with checkpoints");
}

TEST_CASE("corpus: what one has no right to read is passed over and counted", "[corpus]") {
  const temporary_folder folder;
  write_text(folder / "good.txt", "good");
  fs::permissions(write_text(folder / "secret.txt", "x"), fs::perms::none);
  write_text(folder / "closed/a.txt", "x");
  fs::permissions(folder / "closed", fs::perms::none);
  fs::permissions(folder.path(), fs::perms::all);
  {
    const without_privileges ordinary;
    const text_corpus corpus = read_text({folder.path()});
    CHECK(corpus.text == "\0good"s);
    CHECK(corpus.passed_over.text() == "2 not readable");
    CHECK(refusal(folder / "closed") ==
          (folder / "closed").string() + ": cannot read the folder: Permission denied");
  }
  fs::permissions(folder / "closed", fs::perms::owner_all);
}

TEST_CASE("corpus: a folder in which nothing can be used is refused", "[corpus]") {
  const watchdog hang;
  const temporary_folder folder;
  const std::string wanted =
      folder.path().string() + ": a folder with UTF-8 text files is wanted, but ";
  const std::string hint = " (token shards are named by a pattern, such as '*.bin')";
  CHECK(refusal(folder.path()) == wanted + "there is none that is not hidden" + hint);
  write_text(folder / "x.txt", "good\xFF");
  make_fifo(folder / "fifo");
  CHECK(refusal(folder.path()) ==
        wanted + "all was passed over: 1 not UTF-8 text, 1 not a regular file" + hint);
}

TEST_CASE("corpus: a file that is named must be text", "[corpus]") {
  const watchdog hang;
  const temporary_folder folder;
  const auto binary = write_text(folder / "x.txt", "good\xFF");
  CHECK_THROWS_AS(read_text({binary}), input_error);
  CHECK(refusal(binary) ==
        binary.string() + ": UTF-8 text or llm.c's token shards are wanted, but byte 4 is neither");
  for (const fs::path& path :
       {folder / "missing", fs::path("/dev/zero"), make_fifo(folder / "fifo")}) {
    INFO(path);
    CHECK_THROWS_AS(read_text({path}), input_error);
  }
  fs::create_symlink("itself", folder / "itself");
  CHECK(refusal(folder / "itself").find("Too many levels of symbolic links") != std::string::npos);
}

TEST_CASE("corpus: text that has no room in memory is refused by its size", "[corpus]") {
  const temporary_folder folder;
  const auto sparse = make_sparse(folder / "sparse", 100 * gib);
  CHECK(refusal(sparse, 1 << 20) ==
        sparse.string() +
            ": text is read into memory, where at most 1048576 bytes (half of it) are for it, got "
            "107374182400 (token shards may be larger)");
  // With room for it reading ends at the first byte that is not text.
  const auto smaller = make_sparse(folder / "smaller", gib);
  CHECK(refusal(smaller, std::int64_t{1} << 40).find("byte 4 is neither") != std::string::npos);

  write_text(folder / "f/a", "12345");
  write_text(folder / "f/b", "67890");
  CHECK(read_text({folder / "f"}, 12).text ==
        "\0"
        "12345\0"
        "67890"s);
  CHECK(refusal(folder / "f", 11).find("at most 11 bytes (half of it) are for it, got 12") !=
        std::string::npos);
  CHECK(read_text({folder / "f/a"}, 6).documents == 1);
  CHECK_FALSE(refusal(folder / "f/a", 5).empty());
  CHECK(largest_text() > 1 << 20);
}

TEST_CASE("corpus: characters are whole where pieces of a file meet", "[corpus]") {
  const temporary_folder folder;
  for (const std::size_t before : {(1 << 18) - 3, (1 << 18) - 2, (1 << 18) - 1, 1 << 18}) {
    const std::string text = std::string(before, 'x') + "\xF0\x9F\x98\x80 and more";
    CHECK(read_text({write_text(folder / "a", text)}).text == "\0"s + text);
    const std::string cut = text.substr(0, before + 2);
    CHECK(refusal(write_text(folder / "a", cut)).find("byte " + std::to_string(before)) !=
          std::string::npos);
    const std::string wrong = std::string(before, 'x') + "\xF0\x9Fzz";
    CHECK(refusal(write_text(folder / "a", wrong)).find("byte " + std::to_string(before)) !=
          std::string::npos);
  }
}

TEST_CASE("corpus: names may hold any bytes", "[corpus]") {
  const temporary_folder folder;
  const fs::path odd = folder / "with space\nand \xFF";
  write_text(odd / "a \xFE.txt", "text");
  CHECK(matching_paths(odd.string()) == std::vector<fs::path>{odd});
  CHECK(matching_paths((folder / "with*").string()) == std::vector<fs::path>{odd});
  const text_corpus corpus = read_text({odd});
  CHECK(corpus.text == "\0text"s);
  CHECK(corpus.files[0].name == "a \xEF\xBF\xBD.txt");
  const data_record back = data_record_from_json(data_record_to_json(corpus.files));
  CHECK(back[0].name == corpus.files[0].name);
}

TEST_CASE("corpus: patterns may match nothing, folders, or both kinds", "[corpus]") {
  const temporary_folder folder;
  write_text(folder / "a1/x.txt", "1");
  write_text(folder / "a2/x.txt", "2");
  const auto paths = matching_paths((folder / "a*").string());
  CHECK(paths.size() == 2);
  CHECK_FALSE(are_shards(paths));
  const text_corpus corpus = read_text(paths);
  CHECK(corpus.text ==
        "\0"
        "1\0"
        "2"s);
  CHECK(corpus.files[0].name == (folder / "a1/x.txt").string());
  CHECK_THROWS_AS(matching_paths((folder / "b*").string()), input_error);
  CHECK_THROWS_AS(matching_paths(""), input_error);
}

TEST_CASE("corpus: the program carries text with it", "[corpus]") {
  const text_corpus corpus = embedded_text();
  CHECK(corpus.documents > 10);
  CHECK(corpus.text.size() > 50000);
  CHECK(corpus.text.find("#pragma once") != std::string::npos);
  CHECK(corpus.text.find(std::string(9, ' ')) == std::string::npos);
  REQUIRE(corpus.files.size() == 1);
  CHECK(corpus.files[0].bytes == static_cast<std::int64_t>(corpus.text.size()));
}
