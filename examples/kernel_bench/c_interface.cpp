#include "kernel_bench/c_interface.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "registry/registry.hpp"
#include "registry/selection.hpp"

using namespace llmc_registry;

struct kernel_bench_call {
  entry chosen;
  std::unique_ptr<problem> arguments;
};

namespace {

thread_local std::string error_text;

/// Returns what `body` returns. If it throws, keeps the text and returns `failed`.
template <class Result, class Body>
Result guarded(Result failed, Body body) {
  try {
    return body();
  } catch (const std::exception& error) {
    error_text = error.what();
    return failed;
  }
}

extents shape_of(const operation& o, const kernel_bench_extent* given, int count) {
  extents shape = default_shape(o);
  for (int i = 0; i < count; ++i) {
    const auto found = shape.find(given[i].name);
    if (found == shape.end() || given[i].value < 1) {
      throw std::invalid_argument(o.name + " has no extent " + given[i].name + " of " +
                                  std::to_string(given[i].value));
    }
    found->second = given[i].value;
  }
  return shape;
}

std::unique_ptr<problem> make_problem(const operation& o, const extents& shape,
                                      const named_arrays& arrays) {
  settings on_callers_arrays;
  on_callers_arrays.callers = &arrays;
  std::unique_ptr<problem> p = o.make_problem(shape, on_callers_arrays);
  for (const auto& [name, data] : arrays) {
    const auto& all = p->array_names();
    if (std::find(all.begin(), all.end(), name) == all.end()) {
      throw std::invalid_argument("there is no array " + name);
    }
  }
  return p;
}

}  // namespace

const char* kernel_bench_list(void) {
  static const std::string text = listing();
  return text.c_str();
}

const char* kernel_bench_error(void) {
  return error_text.c_str();
}

kernel_bench_call* kernel_bench_open(const char* operation_name, const char* variant,
                                     int block_size, const char* precision,
                                     const kernel_bench_extent* extents, int extent_count,
                                     const kernel_bench_array* arrays, int array_count) {
  return guarded<kernel_bench_call*>(nullptr, [&] {
    const operation& o = operation_named(operation_name);
    const selection wanted{variant, block_size, precision == nullptr ? "" : precision};
    const entry chosen = select(o, wanted).front();
    named_arrays callers;
    for (int i = 0; i < array_count; ++i) callers[arrays[i].name] = arrays[i].data;
    return new kernel_bench_call{chosen,
                                 make_problem(o, shape_of(o, extents, extent_count), callers)};
  });
}

int kernel_bench_launch(kernel_bench_call* call, void* stream, int tune) {
  return guarded(1, [&] {
    const auto on = static_cast<cudaStream_t>(stream);
    const auto launch = [&] { run(call->chosen, *call->arguments, on); };
    if (tune != 0) {
      call->arguments->tune(on, launch);
    } else {
      launch();
    }
    return 0;
  });
}

void kernel_bench_close(kernel_bench_call* call) {
  delete call;
}
