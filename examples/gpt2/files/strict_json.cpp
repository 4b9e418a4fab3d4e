#include "gpt2/files/strict_json.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gpt2/data/text.hpp"

namespace gpt2_trainer {
namespace {

using nlohmann::json;

constexpr std::size_t deepest = 32;

/// Builds the value from the events of nlohmann's parser.
class strict_builder final : public json::json_sax_t {
 public:
  explicit strict_builder(const input_file& from) : from_(from) {}

  json result() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // there is none in text

  bool key(string_t& name) override {
    level& here = open_.back();
    const auto [member, is_new] = here.container->get_ref<json::object_t&>().emplace(name, nullptr);
    if (!is_new) {
      from_.fail("the members of an object must have different names, got " + shown(name) +
                 " twice" + place());
    }
    here.name = &member->first;
    here.member = &member->second;
    return true;
  }

  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    from_.fail(std::string("JSON is wanted, got ") + error.what());
  }

 private:
  /// A container that has not ended yet.
  struct level {
    json* container;
    const std::string* name = nullptr;  ///< of an object: of the member that is next
    json* member = nullptr;
  };

  /// Where the next value belongs.
  json& next() {
    if (open_.empty()) return root_;
    level& here = open_.back();
    if (here.container->is_object()) return *here.member;
    return here.container->emplace_back();
  }

  template <class Value>
  bool put(Value&& value) {
    next() = std::forward<Value>(value);
    return true;
  }

  bool open(json container) {
    if (open_.size() == deepest) {
      from_.fail("JSON of at most " + std::to_string(deepest) + " levels is wanted, got more");
    }
    json& place = next();
    place = std::move(container);
    open_.push_back({&place});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  /// " in model.vocab"; empty at the outermost level.
  std::string place() const {
    std::string names;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
      if (open_[i].name) names += (names.empty() ? " in " : ".") + printable(*open_[i].name);
    }
    return names;
  }

  const input_file& from_;
  json root_;
  std::vector<level> open_;
};

}  // namespace

json parse_strictly(const input_file& from, std::string_view text) {
  strict_builder builder(from);
  json::sax_parse(text, &builder);
  return builder.result();
}

std::string shown(const json& value) {
  constexpr std::size_t longest = 60;
  if (value.is_structured() && !value.empty()) return std::string("an ") + value.type_name();
  // One line, whatever is in it.
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return printable(text.size() > longest ? text.substr(0, longest) + "..." : text);
}

}  // namespace gpt2_trainer
