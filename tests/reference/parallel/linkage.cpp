// Files with and without OpenMP in one program: each has its own parallel_for.
#include <omp.h>

#include "../../support/catch.hpp"
#include "workers.hpp"

TEST_CASE("a file runs its own parallel_for, with or without OpenMP", "[parallel]") {
  omp_set_num_threads(3);
  CHECK(workers_with_openmp() == 3);
  CHECK(workers_without_openmp() == 1);
}
