// In this program memory runs out in every parallel region, and an exception there would end it: so
// all its test cases say that the CPU reference allocates in none.
#include <omp.h>

#include <cstdlib>
#include <new>

#include <llmc/reference/parallel.hpp>

#include "../../support/catch.hpp"

void* operator new(std::size_t bytes) {
  void* const memory = omp_in_parallel() != 0 ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace {

// Also on one core, where a region would have one thread and would not count as parallel.
const bool several_threads = (omp_set_num_threads(3), true);

}  // namespace

TEST_CASE("parallel_for: memory runs out inside, and not outside", "[parallel]") {
  int failures[64] = {};
  llmc::reference::parallel_for(64, [&](std::int64_t i) {
    try {
      ::operator delete(::operator new(1));
    } catch (const std::bad_alloc&) {
      failures[i] = 1;
    }
  });
  for (const int failed : failures) CHECK(failed == 1);
  CHECK(several_threads);
}

TEST_CASE("parallel_for: each call has memory that no other uses at the same time", "[parallel]") {
  double sums[64] = {};
  llmc::reference::parallel_for(64, 1000, [&](std::int64_t i, double* scratch) {
    for (int k = 0; k < 1000; ++k) scratch[k] = static_cast<double>(i);
    for (int k = 0; k < 1000; ++k) sums[i] += scratch[k];
  });
  for (int i = 0; i < 64; ++i) CHECK(sums[i] == 1000.0 * i);
}

TEST_CASE("parallel_for: no calls, and no memory", "[parallel]") {
  int calls = 0;
  llmc::reference::parallel_for(0, 7, [&](std::int64_t, double*) { ++calls; });
  llmc::reference::parallel_for(1, 0, [&](std::int64_t, double*) { ++calls; });
  CHECK(calls == 1);
}
