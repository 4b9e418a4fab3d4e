#include "gpt2/documents/text_blocks.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "gpt2/data/text.hpp"
#include "gpt2/tokens/splitter.hpp"

namespace gpt2_trainer {
namespace {

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

bool is_ascii(char byte) {
  return static_cast<unsigned char>(byte) < 0x80;
}

/// The class of the character that ends before `at`.
character_class class_before(std::string_view text, std::size_t at) {
  const char* const end = text.data() + at;
  for (std::size_t length = std::min(longest_character, at); length > 1; --length) {
    const character last = character_at(end - length, end);
    if (last.length == length) return last.kind;
  }
  return character_at(end - 1, end).kind;
}

/// Collects a file's bytes and hands them on in blocks. What all places count from is the buffer.
class cutter {
 public:
  cutter(const input_file& file, const document_rules& rules,
         const std::function<bool(text_block&&)>& use)
      : file_(file), rules_(rules), use_(use) {}

 protected:
  void take(std::string_view piece) {
    buffer_.erase(0, head_);
    offset_ += static_cast<std::int64_t>(head_);
    seen_ -= head_;
    head_ = 0;
    buffer_ += piece;
  }

  std::int64_t offset_of(std::size_t place) const {
    return offset_ + static_cast<std::int64_t>(place);
  }

  void require_room(std::size_t bytes, const std::string& what) const {
    file_.require(bytes <= rules_.longest_stretch, what,
                  "of at most " + std::to_string(rules_.longest_stretch) + " bytes",
                  std::to_string(bytes) + " so far");
  }

  void give() {
    block_.end = offset_of(head_);
    goes_on_ = goes_on_ && use_(std::exchange(block_, {}));
  }

  const input_file& file_;
  const document_rules& rules_;
  const std::function<bool(text_block&&)>& use_;
  std::string buffer_;
  std::int64_t offset_ = 0;  ///< of the buffer in the file
  std::size_t head_ = 0;     ///< all before it was dealt with
  std::size_t seen_ = 0;     ///< there is nothing to cut at between the head and here
  text_block block_;
  bool goes_on_ = true;
};

class text_cutter : public cutter {
 public:
  using cutter::cutter;

  bool add(std::string_view piece) {
    const std::size_t head = head_;
    take(piece);
    searched_ -= head;
    end_documents();
    // The last bytes may be the beginning of a separator.
    const std::size_t open = std::max<std::size_t>(rules_.separator.size(), 1) - 1;
    searched_ = buffer_.size() - std::min(open, buffer_.size() - head_);
    cut(searched_, false);
    return goes_on_;
  }

  bool finish() {
    cut(buffer_.size(), true);
    give();
    return goes_on_;
  }

 private:
  /// Takes the documents whose ends are in the buffer.
  void end_documents() {
    if (rules_.separator.empty()) return;
    for (;;) {
      const std::size_t end = buffer_.find(rules_.separator, searched_);
      if (end == std::string::npos) return;
      cut(end, true);
      head_ = seen_ = searched_ = end + rules_.separator.size();
      begins_document_ = true;
    }
  }

  /// Takes what is before `limit`: all of it if the document ends there, else whole blocks.
  void cut(std::size_t limit, bool is_end) {
    while (limit - head_ > rules_.block_bytes) {
      const std::size_t at = find_cut(limit);
      if (at == limit) {
        seen_ = limit - 1;
        require_room(limit - head_, "text from byte " + std::to_string(offset_of(head_)) +
                                        " on, which has no place to cut it, such as white space,");
        break;
      }
      append(at);
    }
    if (is_end) append(limit);
  }

  /// The last place within a block's size where the text may be cut, else the first one after it;
  /// `limit` if there is none before that.
  std::size_t find_cut(std::size_t limit) const {
    const std::string_view text = std::string_view(buffer_).substr(head_, limit - head_);
    const std::size_t seen = seen_ - head_;
    std::size_t at = rules_.block_bytes;
    while (at > seen && !may_cut(text, at)) --at;
    if (at > seen) return head_ + at;
    at = std::max(rules_.block_bytes, seen) + 1;
    while (at < text.size() && !may_cut(text, at)) ++at;
    return std::min(head_ + at, limit);
  }

  void append(std::size_t end) {
    const std::size_t size = end - head_;
    if (!block_.bytes.empty() && block_.bytes.size() + size > rules_.block_bytes) give();
    if (size > 0) {
      block_.stretches.push_back({block_.bytes.size(), size, offset_of(head_), begins_document_});
      block_.bytes.append(buffer_, head_, size);
      begins_document_ = false;
    }
    head_ = seen_ = end;
  }

  bool begins_document_ = true;
  std::size_t searched_ = 0;  ///< no separator begins between the head and here
};

class line_cutter : public cutter {
 public:
  using cutter::cutter;

  bool add(std::string_view piece) {
    take(piece);
    while (buffer_.size() - head_ >= rules_.block_bytes) {
      const std::size_t end = find_end();
      if (end == 0) {
        seen_ = buffer_.size();
        require_room(buffer_.size() - head_, "line " + std::to_string(line_));
        break;
      }
      append(end);
    }
    return goes_on_;
  }

  bool finish() {
    append(buffer_.size());
    return goes_on_;
  }

 private:
  /// Where the last line ends that does so within a block's size, else the first one after it; 0 if
  /// none does.
  std::size_t find_end() const {
    const std::size_t wanted = head_ + rules_.block_bytes;
    for (std::size_t at = wanted; at > seen_; --at) {
      if (buffer_[at - 1] == '\n') return at;
    }
    return buffer_.find('\n', std::max(wanted, seen_)) + 1;
  }

  void append(std::size_t end) {
    block_.bytes.assign(buffer_, head_, end - head_);
    block_.first_line = line_;
    line_ += std::count(block_.bytes.begin(), block_.bytes.end(), '\n');
    head_ = seen_ = end;
    give();
  }

  std::int64_t line_ = 1;
};

template <class Cutter>
std::optional<std::string> read_with(Cutter cutter, const input_file& file) {
  const std::optional<std::string> sum =
      checksum_of(file, [&](std::string_view piece) { return cutter.add(piece); });
  return sum && cutter.finish() ? sum : std::nullopt;
}

bool has_json_suffix(const std::filesystem::path& path) {
  return path.extension() == ".jsonl" || path.extension() == ".ndjson";
}

}  // namespace

bool may_cut(std::string_view text, std::size_t at) {
  if (is_continuation(text[at]) || text[at - 1] == '\'') return false;  // 's can be one piece
  const bool is_whole = is_ascii(text[at]) || text.size() - at >= longest_character;
  if (!is_whole) return false;  // what it is depends on bytes that are not there
  const character_class before = class_before(text, at);
  const character after = character_at(text.data() + at, text.data() + text.size());
  return before != character_class::space && before != after.kind;
}

bool is_json_lines(const std::filesystem::path& path, document_form form) {
  return form == document_form::json_lines ||
         (form == document_form::by_suffix && has_json_suffix(path));
}

std::optional<std::string> read_blocks(const input_file& file, const document_rules& rules,
                                       const std::function<bool(text_block&&)>& use) {
  return is_json_lines(file.path(), rules.form) ? read_with(line_cutter(file, rules, use), file)
                                                : read_with(text_cutter(file, rules, use), file);
}

}  // namespace gpt2_trainer
