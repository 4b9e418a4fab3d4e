#include "gpt2/evaluation/choices.hpp"

#include <numeric>

#include "../support/catch.hpp"
#include "../trainer/temporary_folder.hpp"
#include "oracle.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

namespace {

namespace fs = std::filesystem;
using numbers = std::vector<std::uint16_t>;
using tokens = std::vector<std::int32_t>;

struct choice_file {
  numbers body;
  std::vector<std::int32_t> header{20240522, 1, 2, 30};
};

/// Two examples; the second has a context of one token.
choice_file good_file() {
  numbers body{65535, 28, 0, 1, 2, 3, 5, 6, 7, 1, 8, 2, 9, 3};
  const numbers second{65535, 30, 1, 0, 3, 1, 5, 1, 8, 2, 9, 3, 2, 1, 2};
  body.insert(body.end(), second.begin(), second.end());
  return {body};
}

fs::path write(const temporary_folder& folder, choice_file file) {
  file.header.resize(256);
  write_numbers(folder / "choices.bin", file.header);
  return write_numbers(folder / "choices.bin", file.body, true);
}

std::vector<choice_example> read(const fs::path& path) {
  return read_choices(path, 10, std::nullopt);
}

/// The refusal of a file in which one number is another, without the file's name.
std::string refusal(const temporary_folder& folder, const choice_file& file) {
  const fs::path path = write(folder, file);
  return message_of([&] { read(path); }).substr(path.string().size() + 2);
}

std::string line_refusal(const temporary_folder& folder, const std::string& text) {
  const fs::path path = write_text(folder / "choices.jsonl", text);
  return message_of([&] { read_choices(path, 256, text_tokens()); })
      .substr(path.string().size() + 2);
}

tokens bytes(const std::string& text) {
  return text_tokens().encode(text);
}

}  // namespace

TEST_CASE("choices: llm.c's file") {
  const temporary_folder folder;
  const std::vector<choice_example> examples = read(write(folder, good_file()));
  REQUIRE(examples.size() == 2);
  CHECK(examples[0].label == 1);
  CHECK(examples[0].context == tokens{5, 6, 7});
  REQUIRE(examples[0].completions.size() == 2);
  CHECK(examples[0].completions[1].tokens == tokens{9, 3});
  CHECK(!examples[0].completions[1].bytes);
  CHECK(examples[1].label == 0);
  REQUIRE(examples[1].completions.size() == 3);
  CHECK(examples[1].completions[2].tokens == tokens{1, 2});
}

TEST_CASE("choices: where text is known, so is its length without the space before it") {
  const temporary_folder folder;
  const numbers body{65535, 26, 0, 1, 2, 1, 'a', 3, ' ', 'b', 'c', 2, 'd', 'e'};
  choice_file file{body, {20240522, 1, 1, 28}};
  file.body[1] = 28;
  const auto examples = read_choices(write(folder, file), 256, text_tokens());
  CHECK(examples[0].completions[0].bytes == 2);
  CHECK(examples[0].completions[1].bytes == 2);
}

TEST_CASE("choices: llm.c's file is checked to the last number") {
  const temporary_folder folder;
  struct spoilt {
    std::size_t place;
    std::uint16_t number;
    std::string text;
  };
  const std::vector<spoilt> cases{
      {0, 7, "example 0: its first number must be between 65535 and 65535, got 7"},
      {1, 26, "example 0: size in bytes must be 28, got 26"},
      {2, 1, "example 0: index must be between 0 and 0, got 1"},
      {3, 2, "example 0: label must be between 0 and 1, got 2"},
      {4, 1, "example 0: number of completions must be between 2 and 65534, got 1"},
      {5, 0, "example 0: context: length must be between 1 and 65534, got 0"},
      {7, 10, "example 0: context: token 1 must be between 0 and 9, got 10"},
      {9, 0, "example 0: completion 0: length must be between 1 and 65534, got 0"},
      {11, 3, "example 0: completion 1: token 2 must be between 0 and 9, got 65535"},
      {26, 9, "example 1: completion 2: token 2 is wanted, but the file ends there"},
  };
  for (const spoilt& each : cases) {
    choice_file file = good_file();
    file.body[each.place] = each.number;
    CHECK(refusal(folder, file) == each.text);
  }
  choice_file file = good_file();
  file.body.push_back(0);
  CHECK(refusal(folder, file) == "the file must end after the 2 examples of its header, got more");
  file = good_file();
  file.header[2] = 3;
  CHECK(refusal(folder, file) == "example 2: its first number is wanted, but the file ends there");
  file.header[2] = 0;
  CHECK(refusal(folder, file) == "number of examples must be between 1 and 65536, got 0");
  file = good_file();
  file.header[3] = 28;
  CHECK(refusal(folder, file) == "bytes of the longest example in the header must be 30, got 28");
  file.header[1] = 2;
  CHECK(refusal(folder, file) == "version must be 1 (an llm.c file of multiple choice), got 2");
  file.header[0] = 20240520;
  CHECK(refusal(folder, file) ==
        "an llm.c file of multiple choice or, with --tokenizer, lines of JSON are wanted, got "
        "neither");
}

TEST_CASE("choices: HellaSwag's lines of JSON") {
  const temporary_folder folder;
  const fs::path path = write_text(
      folder / "choices.jsonl",
      R"({"ind": 24, "ctx_a": "A man.", "ctx_b": "he", "ctx": "A man. he", "label": 1, "endings": ["is up.", "ran"]})"
      "\r\n"
      R"({"ctx_a": "A man.", "ctx_b": "he", "label": "2", "endings": ["é", "b", "c"]})"
      "\n\n"
      R"({"ctx_a": "A man.", "ctx_b": "", "label": 0, "endings": ["x", "<|endoftext|>"]})");
  const auto examples = read_choices(path, 256, text_tokens());
  REQUIRE(examples.size() == 3);
  CHECK(examples[0].context == bytes("A man. he"));
  CHECK(examples[0].label == 1);
  CHECK(examples[0].completions[0].tokens == bytes(" is up."));
  CHECK(examples[0].completions[0].bytes == 6);
  CHECK(examples[1].context == bytes("A man. he"));
  CHECK(examples[1].label == 2);
  CHECK(examples[1].completions[0].bytes == 2);
  CHECK(examples[2].context == bytes("A man."));
  CHECK(examples[2].completions[1].tokens == bytes(" <|endoftext|>"));
}

TEST_CASE("choices: lines that are no examples are refused by their number") {
  const temporary_folder folder;
  const std::string good = R"({"ctx": "a", "label": 0, "endings": ["b", "c"]})"
                           "\n";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"{", "a JSON object, got none"},
      {"[1]", "a JSON object, got another value"},
      {"{\"ctx\": \"\xff\"}", "a JSON object, got none"},
      {R"({"ctx": "a", "label": 2, "endings": ["b", "c"]})", R"(a "label" of 0 to 1, got 2)"},
      {R"({"ctx": "a", "label": "", "endings": ["b", "c"]})", R"(a "label" of 0 to 1, got "")"},
      {R"({"ctx": "a", "endings": ["b", "c"]})", R"(a "label" of 0 to 1, got null)"},
      {R"({"ctx": "a", "label": 0, "endings": ["b"]})",
       R"("endings" of at least 2 texts, got ["b"])"},
      {R"({"ctx": "a", "label": 0, "endings": "bc"})",
       R"("endings" of at least 2 texts, got "bc")"},
      {R"({"ctx": "a", "label": 0, "endings": ["b", 3]})",
       R"("endings" of at least 2 texts, got ["b",3])"},
      {R"({"ctx": "", "label": 0, "endings": ["b", "c"]})", "a context, got \"\""},
      {R"({"label": 0, "endings": ["b", "c"]})", R"(text in "ctx_a", got null)"},
  };
  for (const auto& [line, text] : cases) {
    CHECK(line_refusal(folder, good + line) == "line 2 must have " + text);
  }
  CHECK(line_refusal(folder, "\n") == "at least one line with an example is wanted, got none");
}

TEST_CASE("choices: each rule chooses by its own measure, and of equals the first") {
  const choice_example example{2, {1}, {{{1, 2, 3, 4}, 2}, {{1}, 3}, {{1, 2}, 40}, {{1, 2}, 40}}};
  const judged_example judged{&example, {4, 3, 3.5, 3.5}};
  CHECK(judged.chosen(choice_rule::loss_per_token) == 0u);
  CHECK(judged.chosen(choice_rule::loss) == 1u);
  CHECK(judged.chosen(choice_rule::loss_per_byte) == 2u);
  const std::vector<judged_example> all{judged, judged, judged, {&example, {9, 9, 9, 1}}};
  const auto by_bytes = accuracy_by(choice_rule::loss_per_byte, all);
  REQUIRE(by_bytes);
  CHECK(by_bytes->correct == 3);
  CHECK(by_bytes->share() == 0.75);
  CHECK(*by_bytes->standard_error() == Approx(std::sqrt(0.75 * 0.25 / 3)));
  CHECK(accuracy_by(choice_rule::loss, all)->correct == 0);
  CHECK(!accuracy{1, 1}.standard_error());

  const choice_example unknown{0, {1}, {{{1}, std::nullopt}, {{1}, 1}}};
  CHECK(!accuracy_by(choice_rule::loss_per_byte, {judged, {&unknown, {1, 2}}}));
}

TEST_CASE("choices: contexts are cut from the left, completions are not") {
  const std::vector<choice_example> examples{{0, {1, 2, 3}, {{{4}, {}}, {{5, 6, 7}, {}}}},
                                             {0, {1, 2}, {{{4}, {}}, {{5, 6}, {}}}}};
  choice_rows rows(examples, 3, "file");
  CHECK(rows.rows() == 4);
  CHECK(rows.cut() == 1);
  CHECK(rows.next()->tokens == tokens{1, 2, 3, 4});
  const auto cut = rows.next();
  CHECK(cut->tokens == tokens{3, 5, 6, 7});
  CHECK(cut->first == 1);
  CHECK(rows.next()->tokens == tokens{1, 2, 4});
  CHECK(rows.next()->tokens == tokens{1, 2, 5, 6});
  CHECK(!rows.next());
  CHECK_THROWS_WITH(
      choice_rows(examples, 2, "file"),
      "file: example 0: completions must be of at most 2 tokens, as many as the model "
      "sees, got 3");
}

TEST_CASE("choices: losses are those of the completions' tokens") {
  const temporary_folder folder;
  const std::vector<choice_example> examples = read(write(folder, good_file()));
  const auto machine = make_reference_backend<float>();
  gpt2<float> model({4, 10, 128, 2, 2, 12}, *machine, 4, 4);
  small_network oracle(4, 10, 1);
  model.set_parameters(strong_parameters(model.layout(), 5));
  for (const std::int64_t batch : {1, 4}) {
    const auto judged =
        judge(model, batch, examples, choice_rows(examples, 4, "file"), [](std::int64_t) {});
    REQUIRE(judged.size() == 2);
    for (const judged_example& each : judged) {
      REQUIRE(each.losses.size() == each.example->completions.size());
      for (std::size_t i = 0; i < each.losses.size(); ++i) {
        tokens row = each.example->context;
        const tokens& own = each.example->completions[i].tokens;
        row.insert(row.end(), own.begin(), own.end());
        double wanted = 0;
        for (std::size_t at = row.size() - own.size(); at < row.size(); ++at) {
          wanted += loss_at(oracle.model, row, at);
        }
        CHECK(each.losses[i] == Approx(wanted).epsilon(1e-5));
      }
    }
  }
}
