#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "gpt2/files/strict_json.hpp"
#include "gpt2/tokens/forms/byte_level.hpp"
#include "gpt2/tokens/forms/vocabulary_builder.hpp"
#include "gpt2/tokens/forms/vocabulary_readers.hpp"

namespace gpt2_trainer {
namespace {

using nlohmann::json;

/// A setting, and the values with which text becomes the tokens that GPT-2's rules make. All else
/// makes others, which nobody would notice.
struct setting {
  const char* name;
  std::vector<json> fine;
  bool may_be_missing = true;
};

/// No value, or any.
const std::vector<json> any{};
const std::vector<json> none{nullptr};
const std::vector<json> no{false};
const std::vector<json> empty{nullptr, ""};

/// An object of the file, and what it may have.
class checked_object {
 public:
  checked_object(const input_file& from, std::string place, const json& object)
      : from_(from), place_(std::move(place)), object_(object) {
    if (!object.is_object()) from.fail(place_ + " must be an object, got " + shown(object));
  }

  /// Requires those settings, and that there is nothing else.
  void require(const std::vector<setting>& settings) const {
    for (const auto& [name, value] : object_.items()) {
      const auto known = std::find_if(settings.begin(), settings.end(),
                                      [&, &key = name](const setting& s) { return key == s.name; });
      if (known == settings.end()) {
        from_.fail(member(name) + " is not a setting of GPT-2's tokenizer, got " + shown(value));
      }
      const std::vector<json>& fine = known->fine;
      if (fine.empty() || std::find(fine.begin(), fine.end(), value) != fine.end()) continue;
      from_.fail(member(name) + " must be " + choices(fine) + ", as GPT-2's is, got " +
                 shown(value));
    }
    for (const setting& each : settings) {
      if (!each.may_be_missing) (*this)[each.name];
    }
  }

  /// A member that must be there.
  const json& operator[](const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end()) from_.fail(member(name) + " is wanted, but is missing");
    return *found;
  }

  std::string member(const std::string& name) const {
    return place_.empty() ? name : place_ + "." + name;
  }

 private:
  static std::string choices(const std::vector<json>& fine) {
    std::string text;
    for (const json& each : fine) text += (text.empty() ? "" : " or ") + each.dump();
    return text;
  }

  const input_file& from_;
  std::string place_;
  const json& object_;
};

/// Requires that a part that may be null is of one kind, with these settings.
void require_part(const input_file& from, const json& tokenizer, const char* name, const char* type,
                  std::vector<setting> settings) {
  const json part = tokenizer.value(name, json());
  if (part.is_null()) return;
  settings.push_back({"type", {type}, false});
  checked_object(from, name, part).require(settings);
}

void require_byte_level(const input_file& from, const json& tokenizer) {
  if (tokenizer.value("pre_tokenizer", json()).is_null()) {
    from.fail("pre_tokenizer must be ByteLevel, as GPT-2's is, got none");
  }
  require_part(from, tokenizer, "pre_tokenizer", "ByteLevel",
               {{"add_prefix_space", no, false}, {"use_regex", {true}}, {"trim_offsets", any}});
  // Of these only the type says something about tokens: the rest is for offsets, or not used.
  const std::vector<setting> unused{
      {"add_prefix_space", any}, {"use_regex", any}, {"trim_offsets", any}};
  require_part(from, tokenizer, "decoder", "ByteLevel", unused);
  const json post = tokenizer.value("post_processor", json());
  const bool adds_nothing = post.is_object() &&
                            post.value("type", json()) == "TemplateProcessing" &&
                            post.value("special_tokens", json()) == json::object();
  if (!adds_nothing) require_part(from, tokenizer, "post_processor", "ByteLevel", unused);
}

struct added_token {
  std::string text;
  std::int64_t id;
};

std::vector<added_token> added_tokens(const input_file& from, const json& tokenizer) {
  std::vector<added_token> added;
  const json list = tokenizer.value("added_tokens", json::array());
  if (!list.is_array()) from.fail("added_tokens must be an array, got " + shown(list));
  for (std::size_t i = 0; i < list.size(); ++i) {
    const checked_object token(from, "added_tokens[" + std::to_string(i) + "]", list[i]);
    token.require({{"id", any},
                   {"content", any},
                   {"special", {true}, false},
                   {"single_word", no},
                   {"lstrip", no},
                   {"rstrip", no},
                   {"normalized", any}});
    const json& content = token["content"];
    if (!content.is_string()) {
      from.fail(token.member("content") + " must be a text, got " + shown(content));
    }
    added.push_back({content, id_of(from, content, token["id"])});
  }
  return added;
}

void add_merges(vocabulary_builder& to, const input_file& from, const json& merges) {
  if (!merges.is_array() || merges.empty()) {
    from.fail("model.merges must be an array of at least one merge, got " + shown(merges));
  }
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const json& merge = merges[i];
    const std::string place = "model.merges[" + std::to_string(i) + "]";
    if (merge.is_string()) {
      add_byte_level_merge(to, from, place, merge.get_ref<const std::string&>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      add_byte_level_merge(to, from, place, merge[0].get_ref<const std::string&>(),
                           merge[1].get_ref<const std::string&>());
    } else {
      from.fail(place + " must be a text or an array of two, got " + shown(merge));
    }
  }
}

}  // namespace

vocabulary read_tokenizer_json(const input_file& from, const json& tokenizer) {
  checked_object(from, "", tokenizer)
      .require({{"version", {"1.0"}},
                {"truncation", any},
                {"padding", any},
                {"added_tokens", any},
                {"normalizer", none},
                {"pre_tokenizer", any, false},
                {"post_processor", any},
                {"decoder", any},
                {"model", any, false}});
  require_byte_level(from, tokenizer);
  const checked_object model(from, "model", tokenizer["model"]);
  model.require({{"type", {"BPE"}},
                 {"dropout", {nullptr, 0}},
                 {"unk_token", any},  // for what is no token, but each byte is one; as the next
                 {"fuse_unk", any},
                 {"continuing_subword_prefix", empty},
                 {"end_of_word_suffix", empty},
                 {"byte_fallback", no},
                 {"ignore_merges", no},
                 {"vocab", any, false},
                 {"merges", any, false}});
  const json& vocab = model["vocab"];
  if (!vocab.is_object()) from.fail("model.vocab must be an object, got " + shown(vocab));

  const std::vector<added_token> added = added_tokens(from, tokenizer);
  std::set<std::string> specials{end_of_text_name};
  std::size_t tokens = vocab.size();
  for (const added_token& each : added) {
    if (vocab.count(each.text) == 0) ++tokens;
    specials.insert(each.text);
  }
  vocabulary_builder builder(from, tokens);
  add_byte_level_tokens(builder, from, vocab, specials);
  for (const added_token& each : added) {
    const auto same = vocab.find(each.text);
    if (same == vocab.end()) {
      builder.add_special(each.id, each.text);
    } else if (*same != each.id) {
      from.fail("the id of " + shown_token(each.text) + " must be " + same->dump() +
                " as in model.vocab, got " + std::to_string(each.id) + " in added_tokens");
    }
  }
  add_merges(builder, from, model["merges"]);
  for (const char* name : {"truncation", "padding"}) {
    if (tokenizer.value(name, json()).is_null()) continue;
    builder.note(from.path().string() + ": its " + name + " is not applied");
  }
  return builder.finish();
}

}  // namespace gpt2_trainer
