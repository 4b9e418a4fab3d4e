#include "registry/selection.hpp"

#include <stdexcept>

namespace llmc_registry {
namespace {

std::string precision_of(const entry& e) {
  return e.arithmetic ? to_string(*e.arithmetic) : "";
}

bool matches(const entry& e, const selection& wanted) {
  if (wanted.variant && e.variant != *wanted.variant) return false;
  if (wanted.precision && precision_of(e) != *wanted.precision) return false;
  if (wanted.block_size == selection::default_block) return e.is_default;
  return !wanted.block_size || e.block_size == *wanted.block_size;
}

std::string to_string(const selection& wanted) {
  std::string text = wanted.variant.value_or("entry");
  if (wanted.block_size.value_or(selection::default_block) != selection::default_block) {
    text += "<" + std::to_string(*wanted.block_size) + ">";
  }
  if (wanted.precision) {
    text += wanted.precision->empty() ? " without a precision" : " " + *wanted.precision;
  }
  return text;
}

/// The variant's entries or, if there is no such variant, the names of those that there are.
std::string what_there_is(const operation& o, const selection& wanted) {
  selection alike;
  alike.variant = wanted.variant;
  std::string entries, variants, before;
  for (const entry& e : o.entries) {
    if (matches(e, alike)) entries += " " + to_string(e);
    if (e.variant != before) variants += " " + e.variant;
    before = e.variant;
  }
  return entries.empty() ? variants : entries;
}

}  // namespace

std::vector<entry> select(const operation& o, const selection& wanted) {
  std::vector<entry> chosen;
  for (const entry& e : o.entries) {
    if (matches(e, wanted)) chosen.push_back(e);
  }
  if (chosen.empty()) {
    throw std::invalid_argument(o.name + " has no " + to_string(wanted) + ", only" +
                                what_there_is(o, wanted));
  }
  return chosen;
}

}  // namespace llmc_registry
