#include "gpt2/documents/tokenize.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "gpt2/data/text.hpp"
#include "gpt2/documents/document_tokens.hpp"
#include "gpt2/documents/ordered_workers.hpp"
#include "gpt2/documents/text_blocks.hpp"
#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

std::int32_t end_of_text_of(const tokenizer& words) {
  if (words.words().end_of_text) return *words.words().end_of_text;
  throw input_error(
      "the tokenizer must have an end of text, which goes between documents, got none");
}

/// What would be replaced must not be read.
void require_apart(const document_files& files, const std::vector<fs::path>& replaced) {
  for (const fs::path& shard : replaced) {
    const file_stamp stamp = stamp_of(shard);
    for (const document_file& file : files.files) {
      std::error_code gone;
      if (file.stamp.inode != stamp.inode || !fs::equivalent(file.path, shard, gone)) continue;
      throw input_error(shard.string() + ": a shard must not be one of the files that are read, " +
                        "got " + file.path.string());
    }
  }
}

class tokenizing {
 public:
  tokenizing(const document_rules& rules, const tokenizer& words, int threads, shard_writer& to,
             const std::function<bool(std::int64_t)>& go_on)
      : rules_(rules),
        words_(words),
        end_of_text_(end_of_text_of(words)),
        to_(to),
        go_on_(go_on),
        workers_(threads, [this](result&& done) { use(std::move(done)); }) {}

  tokenized run(const document_files& files) {
    all_.passed_over = files.passed_over;
    for (const document_file& file : files.files) {
      read(file);
      if (all_.stopped) return std::move(all_);
      begin_ += file.stamp.bytes;
    }
    workers_.finish();
    if (all_.documents == 0) throw input_error("text is wanted, but there is none" + reasons());
    return std::move(all_);
  }

 private:
  struct result {
    block_tokens block;
    std::int64_t done;  ///< bytes of all files
  };

  void read(const document_file& file) {
    file_record record{file.name, file.stamp.bytes, "", std::nullopt};
    try {
      const input_file input(file.path);
      const file_stamp stamp = stamp_of(file.path);
      record.stamp = settled(stamp);
      record.bytes = stamp.bytes;
      if (is_taken(file, input)) record.checksum = tokenize(file, input);
    } catch (const input_error&) {
      if (file.is_named || begun_ == &file) throw;
      all_.passed_over.add(pass_over::not_readable);
    }
    all_.files.push_back(std::move(record));
  }

  bool is_taken(const document_file& file, const input_file& input) {
    if (file.is_named || rules_.invalid == invalid_text::keep || is_text(input)) return true;
    if (!all_.stopped) all_.passed_over.add(pass_over::not_text);
    return false;
  }

  bool is_text(const input_file& input) {
    std::string open;  // the beginning of a character
    const auto sum = checksum_of(input, [&](std::string_view piece) {
      open += piece;
      open.erase(0, valid_text_prefix(open));
      return open.size() < longest_character && goes_on();
    });
    return sum && open.empty();
  }

  std::string tokenize(const document_file& file, const input_file& input) {
    begun_ = &file;
    const std::optional<std::string> sum = read_blocks(input, rules_, [&](text_block&& block) {
      const auto shared = std::make_shared<text_block>(std::move(block));
      const std::int64_t done = begin_ + shared->end;
      workers_.add([this, &file, shared, done] {
        return result{tokens_of(*shared, file, rules_, words_), done};
      });
      return goes_on();
    });
    return sum.value_or("");
  }

  bool goes_on() {
    all_.stopped = all_.stopped || !go_on_(done_);
    return !all_.stopped;
  }

  void use(result&& done) {
    const block_tokens& block = done.block;
    std::size_t begin = 0;
    const auto add_until = [&](std::size_t end) {
      if (end > begin) to_.add(block.tokens.data() + begin, end - begin);
      begin = end;
    };
    for (const std::size_t document : block.documents) {
      add_until(document);
      to_.begin_document();
      to_.add(&end_of_text_, 1);
    }
    add_until(block.tokens.size());
    const std::size_t documents = block.documents.size();
    all_.documents += static_cast<std::int64_t>(documents);
    all_.tokens += static_cast<std::int64_t>(documents + block.tokens.size());
    all_.text_bytes += block.text_bytes;
    all_.skipped_lines += block.skipped_lines;
    done_ = done.done;
  }

  std::string reasons() const {
    std::string text = all_.passed_over.text();
    if (!text.empty()) text = "; passed over: " + text;
    if (all_.skipped_lines > 0) text += "; skipped lines: " + std::to_string(all_.skipped_lines);
    return text;
  }

  const document_rules& rules_;
  const tokenizer& words_;
  std::int32_t end_of_text_;
  shard_writer& to_;
  const std::function<bool(std::int64_t)>& go_on_;
  const document_file* begun_ = nullptr;  ///< some of its blocks may be among the tokens already
  std::int64_t begin_ = 0;                ///< bytes of the files before this one
  std::int64_t done_ = 0;
  tokenized all_;
  ordered_workers<result> workers_;  // last: its threads end before what they use
};

}  // namespace

tokenized tokenize(const document_files& files, const document_rules& rules, const tokenizer& words,
                   int threads, shard_writer& to, const std::function<bool(std::int64_t)>& go_on) {
  require_apart(files, to.replaced());
  return tokenizing(rules, words, threads, to, go_on).run(files);
}

}  // namespace gpt2_trainer
