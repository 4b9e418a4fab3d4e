/// @file
/// A program's options as a table. One entry says all about one option; the command line, --help, a
/// run's saved options and the rules of resuming are made from the table.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gpt2/input_error.hpp"
#include "gpt2/run/choice.hpp"
#include "gpt2/run/json_text.hpp"
#include "gpt2/run/numbers.hpp"

namespace gpt2_trainer {

/// What a resumed run does with an option.
enum class on_resume {
  keep,    ///< another value is refused
  change,  ///< another value may be given
  forget   ///< the option is not saved with the run
};

/// How an option is written.
struct option_name {
  std::string names;  ///< as CLI11 takes them, the longest last: "-b,--batch"
  std::string type;   ///< what --help shows in the value's place; empty: it takes no value

  /// "--batch", which messages use.
  std::string name() const { return names.substr(names.rfind(',') + 1); }
  /// "batch", by which it is saved.
  std::string key() const { return name().substr(name().find_first_not_of('-')); }
  /// Whether this argument of the command line names it.
  bool is(const std::string& argument) const;
};

template <class Options>
struct option : option_name {
  std::string help;  ///< ends with the default in brackets
  on_resume resume;
  /// Throws input_error if this is no value of the option.
  std::function<void(Options&, const std::string&)> parse;
  /// Null where an optional value is not set.
  std::function<nlohmann::json(const Options&)> value;
  /// What is parsed where the option is given without a value. Empty: it must have a value.
  std::optional<std::string> bare = std::nullopt;
  bool required = false;
  bool several = false;  ///< takes all values up to the next option; each is parsed
};

template <class Options>
struct option_group {
  std::string heading;
  std::vector<option<Options>> options;
};

template <class Options>
using option_table = std::vector<option_group<Options>>;

template <class Options, class Visit>
void for_each_option(const option_table<Options>& table, Visit visit) {
  for (const option_group<Options>& group : table) {
    for (const option<Options>& each : group.options) visit(each);
  }
}

// ---- entries ----

/// The path from the root: a relative one would mean another file in another folder.
std::string absolute_path(const std::string& path);

template <class Value>
struct type_in {
  using type = Value;
};
template <class Value>
struct type_in<std::optional<Value>> {
  using type = Value;
};

template <class Value>
nlohmann::json json_of(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return to_string(value);
  } else if constexpr (std::is_same_v<Value, std::string>) {
    return json_of_text(value);
  } else if constexpr (std::is_same_v<Value, float>) {
    return as_typed(value);
  } else {
    return value;
  }
}
template <class Value>
nlohmann::json json_of(const std::optional<Value>& value) {
  return value ? json_of(*value) : nlohmann::json();
}

/// An entry whose value `read` makes of a text.
template <class Options, class Value, class Read>
option<Options> entry(const char* names, Value Options::*member, std::string type, const char* help,
                      on_resume resume, Read read) {
  using inner = typename type_in<Value>::type;
  return {{names, std::move(type)},
          help,
          resume,
          [=](Options& o, const std::string& text) { o.*member = static_cast<inner>(read(text)); },
          [=](const Options& o) { return json_of(o.*member); }};
}

// A number's range is one of the member's type, so it is used as it was checked.

template <class Options, class Value>
option<Options> integer(const char* names, Value Options::*member,
                        number_range<typename type_in<Value>::type> range, const char* help,
                        on_resume resume = on_resume::forget) {
  static_assert(std::is_integral_v<typename type_in<Value>::type>);
  return entry(names, member, "N", help, resume,
               [=](const std::string& text) { return parse_number(text, range); });
}

template <class Options, class Value>
option<Options> number(const char* names, Value Options::*member,
                       number_range<typename type_in<Value>::type> range, const char* help,
                       on_resume resume = on_resume::forget) {
  static_assert(std::is_floating_point_v<typename type_in<Value>::type>);
  return entry(names, member, "X", help, resume,
               [=](const std::string& text) { return parse_number(text, range); });
}

template <class Options, class Value>
option<Options> text(const char* names, Value Options::*member, const char* type, const char* help,
                     on_resume resume = on_resume::forget) {
  return entry(names, member, type, help, resume, [](const std::string& text) { return text; });
}

/// `word` is taken as it is.
template <class Options, class Value>
option<Options> path(const char* names, Value Options::*member, const char* type, const char* help,
                     on_resume resume = on_resume::forget, std::string word = "") {
  return entry(names, member, type, help, resume, [word](const std::string& text) {
    return text == word ? text : absolute_path(text);
  });
}

/// Files and folders, without a name if `names` has no dash.
template <class Options>
option<Options> paths(const char* names, std::vector<std::string> Options::*member,
                      const char* type, const char* help, on_resume resume = on_resume::forget) {
  option<Options> each{{names, type},
                       help,
                       resume,
                       [=](Options& o, const std::string& text) { (o.*member).push_back(text); },
                       [=](const Options& o) {
                         nlohmann::json all = nlohmann::json::array();
                         for (const std::string& path : o.*member)
                           all.push_back(json_of_text(path));
                         return all;
                       }};
  each.several = true;
  return each;
}

/// An option without a value.
template <class Options>
option<Options> flag(const char* names, bool Options::*member, const char* help,
                     on_resume resume = on_resume::forget) {
  return entry(names, member, "", help, resume, [](const std::string&) { return true; });
}

template <class Options, class Enum, std::size_t Count>
option<Options> choice(const char* names, Enum Options::*member,
                       const std::array<Enum, Count>& choices, const char* help,
                       on_resume resume = on_resume::forget) {
  return entry(names, member, joined_words(choices, "|"), help, resume,
               [choices](const std::string& text) { return parse_choice(choices, text); });
}

/// The same option, which may be given without a value and then has this one.
template <class Options>
option<Options> with_bare(option<Options> each, std::string value) {
  each.type = "[" + each.type + "]";
  each.bare = std::move(value);
  return each;
}

template <class Options>
option<Options> with_required(option<Options> each) {
  each.required = true;
  return each;
}

// ---- the command line ----

template <class Options>
void add_option(CLI::App& app, const std::string& heading, const option<Options>& each,
                Options& to) {
  const auto set = [&each, &to](const std::string& text) {
    try {
      each.parse(to, text.empty() && each.bare ? *each.bare : text);
    } catch (const input_error& error) {
      throw CLI::ValidationError(each.name(), error.what());
    }
  };
  const auto set_all = [set](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) set(text);
  };
  const bool is_flag = each.type.empty();
  CLI::Option* const made =
      is_flag ? app.add_flag_callback(
                    each.names, [set] { set(""); }, each.help)
      : each.several
          ? app.add_option_function<std::vector<std::string>>(each.names, set_all, each.help)
          : app.add_option_function<std::string>(each.names, set, each.help);
  made->group(heading)->required(each.required);
  if (!is_flag) made->type_name(each.type);
  if (each.bare) made->expected(0, 1);
}

/// The options of the table, and those that every program has.
template <class Options>
std::vector<option_name> known_options(const option_table<Options>& table) {
  std::vector<option_name> known{{"-h,--help", ""}, {"--version", ""}};
  for_each_option(table, [&](const option<Options>& each) { known.push_back(each); });
  return known;
}

/// Says which of the arguments that are left over was not expected, and what may have been meant.
std::string unexpected(const std::vector<std::string>& arguments,
                       const std::vector<std::string>& left, const std::vector<option_name>& known);

/// What to say if these arguments name an option more than once.
std::optional<std::string> given_twice(const std::vector<std::string>& arguments,
                                       const std::vector<option_name>& known);

/// Options that are not given keep the values that they have. Returns the text that answers --help
/// or --version, if that is asked for. A bad option is an input_error.
template <class Options>
std::optional<std::string> parse_command_line(CLI::App& app, const option_table<Options>& table,
                                              int argc, const char* const* argv, Options& to,
                                              const std::string& version) {
  app.set_help_flag("-h,--help", "print this and leave");
  app.set_version_flag("--version", version, "print the version and leave");
  for (const option_group<Options>& group : table) {
    for (const option<Options>& each : group.options) add_option(app, group.heading, each, to);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::CallForVersion& asked) {
    return std::string(asked.what()) + "\n";
  } catch (const CLI::ExtrasError&) {
    throw input_error(unexpected({argv + 1, argv + argc}, app.remaining(), known_options(table)));
  } catch (const CLI::ParseError& error) {
    const auto twice = given_twice({argv + 1, argv + argc}, known_options(table));
    throw input_error(twice ? *twice : error.what());
  }
  return std::nullopt;
}

// ---- saved options ----

/// The options that a resumed run keeps or may change, by their keys.
template <class Options>
nlohmann::json saved_options(const option_table<Options>& table, const Options& options) {
  nlohmann::json saved = nlohmann::json::object();
  for_each_option(table, [&](const option<Options>& each) {
    if (each.resume != on_resume::forget) saved[each.key()] = each.value(options);
  });
  return saved;
}

/// A saved value as the command line takes it.
std::string option_text(const nlohmann::json& value);

/// Throws input_error if one is missing or is no value of its option.
template <class Options>
Options restored_options(const option_table<Options>& table, const nlohmann::json& saved) {
  Options options;
  for_each_option(table, [&](const option<Options>& each) {
    if (each.resume == on_resume::forget) return;
    const auto found = saved.find(each.key());
    if (found == saved.end()) {
      throw input_error("the saved options must hold " + each.name() +
                        ", got none (they are those of another version of this program)");
    }
    if (found->is_null()) return;
    try {
      each.parse(options, option_text(*found));
    } catch (const input_error& error) {
      throw input_error("the saved " + each.name() + " " + error.what());
    }
  });
  return options;
}

/// The options that have other values: {"steps": {"from": 10, "to": 20}}.
template <class Options>
nlohmann::json option_changes(const option_table<Options>& table, const Options& from,
                              const Options& to) {
  nlohmann::json changes = nlohmann::json::object();
  for_each_option(table, [&](const option<Options>& each) {
    const nlohmann::json before = each.value(from);
    const nlohmann::json after = each.value(to);
    if (each.resume == on_resume::forget || before == after) return;
    changes[each.key()] = {{"from", before}, {"to", after}};
  });
  return changes;
}

/// Throws input_error unless both agree on the options that a resumed run keeps.
template <class Options>
void require_kept(const option_table<Options>& table, const Options& saved, const Options& now) {
  const auto shown = [](const nlohmann::json& value) {
    return value.is_string() ? "'" + value.get<std::string>() + "'" : value.dump();
  };
  for_each_option(table, [&](const option<Options>& each) {
    const nlohmann::json before = each.value(saved);
    const nlohmann::json after = each.value(now);
    if (each.resume != on_resume::keep || before == after) return;
    throw input_error(each.name() + " must be " + shown(before) +
                      " as in the run that is resumed, got " + shown(after));
  });
}

}  // namespace gpt2_trainer
