#include "registry/problem.hpp"

#include <cstring>
#include <sstream>
#include <stdexcept>

#include <llmc/matmul_context.hpp>

#include "registry/kernels.hpp"

namespace llmc_registry {

using llmc_test::buffer;
using llmc_test::check_cuda;

namespace {

void copy(const buffer<float>& to, const buffer<float>& from, cudaStream_t stream) {
  check_cuda(cudaMemcpyAsync(to.get(), from.get(), from.size() * sizeof(float),
                             cudaMemcpyDeviceToDevice, stream));
}

std::string description(const std::string& name, const llmc_test::comparison& c) {
  std::ostringstream text;
  text.precision(9);
  text << name << ": " << c.wrong << " of " << c.count << " wrong; worst at " << c.worst << ": got "
       << c.actual << ", wanted " << c.expected << " (" << c.worst_ratio << " times the tolerance)";
  return text.str();
}

void keep_larger(deviation& worst, double ratio, const std::string& text) {
  if (worst.text.empty() || ratio > worst.ratio) worst = {ratio, text};
}

}  // namespace

std::vector<double> array::widened(const buffer<float>& memory) const {
  const std::vector<float> values = memory.values();
  if (!in_double_) return {values.begin(), values.end()};
  std::vector<double> doubles(static_cast<std::size_t>(count_));
  std::memcpy(doubles.data(), values.data(), doubles.size() * sizeof(double));
  return doubles;
}

std::vector<double> array::values() const {
  return widened(*memory_);
}

std::vector<double> array::values_before() const {
  return before_ ? widened(*before_) : std::vector<double>(static_cast<std::size_t>(count_), 0.0);
}

void problem::tune(cudaStream_t stream, const std::function<void()>& launches) {
  context().tune(stream, launches);
}

template <class Body>
void problem::for_each_output(Body body) {
  for (const auto& a : arrays_) {
    if (a->use_ != array::use::read) body(*a);
  }
}

void problem::reset(cudaStream_t stream) {
  for_each_output([&](array& a) {
    check_cuda(cudaMemsetAsync(a, 0xff, a.memory_->size() * sizeof(float), stream));
  });
  restore(stream);
}

void problem::restore(cudaStream_t stream) {
  for_each_output([&](array& a) {
    if (a.before_) copy(*a.memory_, *a.before_, stream);
  });
}

deviation problem::compare_with_reference() {
  if (expected_.empty()) expected_ = reference();
  deviation worst;
  auto expected = expected_.begin();
  for_each_output([&](array& a) {
    if (expected == expected_.end() || expected->size() != static_cast<std::size_t>(a.size())) {
      throw std::logic_error("the registry's reference does not fit its output " + a.name_);
    }
    const auto c = llmc_test::compare(a.values(), *expected++, allowed(a));
    keep_larger(worst, c.worst_ratio, description(a.name_, c));
  });
  return worst;
}

void problem::keep(cudaStream_t stream) {
  for_each_output([&](array& a) {
    if (!a.kept_) a.kept_ = std::make_unique<buffer<float>>(a.floats());
    copy(*a.kept_, *a.memory_, stream);
  });
}

deviation problem::compare_with_kept(cudaStream_t stream) {
  deviation worst;
  for_each_output([&](array& a) {
    if (a.in_double_) return;
    // The kept output may be as far from the truth, on the other side.
    const tolerance either = allowed(a);
    const tolerance both{2 * either.absolute, 2 * either.relative};
    const double ratio = largest_ratio(a, *a.kept_, a.size(), both, stream);
    keep_larger(worst, ratio, a.name_ + ": " + std::to_string(ratio) + " times the tolerance");
  });
  return worst;
}

bool problem::holds_kept() {
  bool same = true;
  for_each_output([&](array& a) {
    const std::vector<float> now = a.memory_->values(), kept = a.kept_->values();
    same = same && std::memcmp(now.data(), kept.data(), now.size() * sizeof(float)) == 0;
  });
  return same;
}

named_arrays problem::arrays() const {
  named_arrays all;
  for (const auto& a : arrays_) all[a->name_] = static_cast<float*>(*a);
  for (const auto& [name, data] : integers_) all[name] = data->get();
  return all;
}

bool problem::guards_intact() const {
  for (const auto& a : arrays_) {
    if (!a->memory_->guards_intact()) return false;
  }
  return !scratch_ || scratch_->guards_intact();
}

std::int64_t problem::array_bytes() const {
  std::int64_t elements = 0;
  for (const auto& a : arrays_) elements += a->floats() * (a->use_ == array::use::updated ? 2 : 1);
  for (const auto& [name, i] : integers_) elements += static_cast<std::int64_t>(i->size());
  return elements * 4;
}

array& problem::input(const std::string& name, std::int64_t count, normal contents) {
  array& a = add(name, array::use::read, count);
  if (owns_arrays()) fill(*a.memory_, contents);
  return a;
}

array& problem::output(const std::string& name, std::int64_t count, tolerance allowed,
                       tolerance allowed_rounded) {
  array& a = add(name, array::use::written, count);
  a.allowed_ = allowed;
  a.allowed_rounded_ = allowed_rounded;
  return a;
}

array& problem::updated(const std::string& name, std::int64_t count, tolerance allowed,
                        normal contents) {
  array& a = output(name, count, allowed);
  make_updated(a, contents);
  return a;
}

array& problem::gradient(const std::string& name, std::int64_t count, tolerance allowed,
                         tolerance allowed_rounded) {
  array& a = output(name, count, allowed, allowed_rounded);
  if (mode() == llmc::accumulation::add) make_updated(a, {});
  return a;
}

array& problem::gradient_in_double(const std::string& name, std::int64_t count, tolerance allowed) {
  array& a = add(name, array::use::written, count, true);
  a.allowed_ = a.allowed_rounded_ = allowed;
  if (mode() == llmc::accumulation::add) make_updated(a, {});
  return a;
}

const std::int32_t* problem::integers(const std::string& name,
                                      const std::vector<std::int32_t>& values) {
  const auto* callers = static_cast<const std::int32_t*>(callers_array(name));
  if (!owns_arrays()) return callers;
  integers_[name] = std::make_unique<buffer<std::int32_t>>(values, settings_.misalignment);
  return integers_[name]->get();
}

llmc::workspace problem::scratch(std::size_t bytes) {
  if (bytes == 0) return {};
  if (!scratch_ || llmc::workspace(*scratch_).bytes != bytes) {
    scratch_.reset();
    scratch_ = std::make_unique<llmc_test::scratch>(bytes);
  }
  return *scratch_;
}

llmc::matmul_context& problem::context() {
  if (!context_) context_ = std::make_shared<llmc::matmul_context>();
  return *context_;
}

array& problem::add(const std::string& name, array::use use, std::int64_t count, bool in_double) {
  arrays_.push_back(std::make_unique<array>());
  array& a = *arrays_.back();
  a.name_ = name;
  a.count_ = count;
  a.in_double_ = in_double;
  a.use_ = use;
  a.callers_ = static_cast<float*>(callers_array(name));
  if (owns_arrays()) {
    const int floats_each = in_double ? 2 : 1;
    a.memory_ = std::make_unique<buffer<float>>(a.floats(), floats_each * settings_.misalignment);
  }
  return a;
}

void* problem::callers_array(const std::string& name) {
  array_names_.push_back(name);
  if (owns_arrays()) return nullptr;
  const auto found = settings_.callers->find(name);
  if (found == settings_.callers->end()) {
    throw std::invalid_argument("the array " + name + " is missing");
  }
  return found->second;
}

void problem::make_updated(array& a, normal contents) {
  a.use_ = array::use::updated;
  if (!owns_arrays()) return;
  a.before_ = std::make_unique<buffer<float>>(a.floats());
  fill(*a.before_, contents);
}

tolerance problem::allowed(const array& a) const {
  return llmc::facts_of(arithmetic_).is_exact() ? a.allowed_ : a.allowed_rounded_;
}

void problem::fill(buffer<float>& memory, normal contents) {
  fill_normal(memory, static_cast<std::int64_t>(memory.size()), ++seed_, contents.deviation,
              contents.mean);
}

}  // namespace llmc_registry
