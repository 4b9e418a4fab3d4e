#include "bench.hpp"

#include <algorithm>
#include <memory>

#include <llmc/error.hpp>

#include "registry/measure/ceilings.hpp"

namespace kernel_bench {
namespace {

using llmc_registry::deviation;
using llmc_registry::problem;

void reject(result& r, const std::string& reason) {
  r.outcome = verdict::wrong;
  r.reason = reason;
}

void judge(result& r, const deviation& found, const std::string& where) {
  r.error = std::max(r.error, found.ratio);
  if (!(found.ratio <= 1)) reject(r, where + ": " + found.text);
}

/// Runs the entry once from fresh outputs; false if it refuses.
bool run_fresh(result& r, problem& p, const stopwatch& watch) {
  p.reset(watch.stream());
  try {
    llmc_registry::run(r.entry, p, watch.stream());
  } catch (const llmc::unsupported& e) {
    r.outcome = verdict::unsupported;
    r.reason = e.what();
    return false;
  } catch (const llmc::error& e) {
    reject(r, e.what());
    return false;
  }
  llmc_test::check_cuda(cudaStreamSynchronize(watch.stream()));
  return true;
}

/// Against the reference on the CPU.
void check(result& r, problem& p, const stopwatch& watch) {
  if (!run_fresh(r, p, watch)) return;
  judge(r, p.compare_with_reference(), "against the reference");
  if (!p.guards_intact()) reject(r, "wrote outside its outputs");
}

/// At the full shape, against the first entry that was right.
void check_in_full(std::vector<result>& results, problem& p, const stopwatch& watch) {
  bool has_kept = false;
  for (result& r : results) {
    if (r.outcome != verdict::right || !run_fresh(r, p, watch)) continue;
    if (has_kept) {
      judge(r, p.compare_with_kept(watch.stream()), "against the first entry at the full shape");
    } else {
      p.keep(watch.stream());
      has_kept = true;
    }
  }
}

llmc::precision precision_of(const result& r) {
  return r.entry.arithmetic.value_or(llmc::precision::ieee);
}

void mark_fastest(std::vector<result>& results) {
  std::map<std::optional<llmc::precision>, result*> fastest;
  for (result& r : results) {
    if (r.outcome != verdict::right || r.entry.variant == "automatic") continue;
    result*& best = fastest[r.entry.arithmetic];
    if (best == nullptr || r.time.us < best->time.us) best = &r;
  }
  for (const auto& [arithmetic, best] : fastest) best->is_fastest = true;
}

}  // namespace

bool report::all_right() const {
  return std::none_of(results.begin(), results.end(),
                      [](const result& r) { return r.outcome == verdict::wrong; });
}

report bench::measure(const llmc_registry::operation& o, const llmc_registry::extents& shape) {
  report r;
  r.operation = o.name;
  r.shape = shape;
  r.checked_shape = llmc_registry::checked_shape(o, shape);
  for (const llmc_registry::entry& e : o.entries) {
    r.results.emplace_back();
    r.results.back().entry = e;
  }
  {
    const std::unique_ptr<problem> small = o.make_problem(r.checked_shape, {});
    for (result& one : r.results) check(one, *small, watch_);
  }
  const std::unique_ptr<problem> full = o.make_problem(shape, {});
  r.bytes = static_cast<std::int64_t>(full->cost().bytes);
  r.flops = full->cost().flops;
  if (r.checked_shape != shape) check_in_full(r.results, *full, watch_);
  time_right_ones(r, *full);
  mark_fastest(r.results);
  return r;
}

void bench::measure_ceilings(report& r) {
  watch_.wake();
  if (r.flops == 0) {
    r.ceilings["copy"] = llmc_registry::copy_rate(watch_, r.bytes);
    return;
  }
  for (const result& one : r.results) {
    if (one.outcome != verdict::right) continue;
    const llmc::precision arithmetic = precision_of(one);
    r.ceilings[to_string(arithmetic)] = product_ceiling(arithmetic);
  }
}

void bench::time_right_ones(report& r, problem& full) {
  measure_ceilings(r);
  watch_.wake();  // the clock fell during the comparison, and by the heat of the products
  for (result& one : r.results) {
    if (one.outcome != verdict::right) continue;
    one.time = watch_.time([&](cudaStream_t s) { llmc_registry::run(one.entry, full, s); },
                           [&](cudaStream_t s) { full.restore(s); });
    if (r.flops == 0) {
      one.rate = static_cast<double>(r.bytes) / one.time.us / 1e3;
      one.share = one.rate / r.ceilings["copy"];
    } else {
      one.rate = r.flops / one.time.us / 1e6;
      one.share = one.rate / r.ceilings[to_string(precision_of(one))];
    }
  }
}

double bench::product_ceiling(llmc::precision arithmetic) {
  const auto found = product_rates_.find(arithmetic);
  if (found != product_rates_.end()) return found->second;
  return product_rates_[arithmetic] = llmc_registry::product_rate(watch_, arithmetic);
}

}  // namespace kernel_bench
