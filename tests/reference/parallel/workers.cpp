#include "workers.hpp"

#include <llmc/reference/parallel.hpp>

#include <array>
#include <set>
#include <thread>

#if defined(_OPENMP)
std::size_t workers_with_openmp() {
#else
std::size_t workers_without_openmp() {
#endif
  std::array<std::thread::id, 64> ids;
  llmc::reference::parallel_for(ids.size(), [&](std::int64_t i) {
    ids[static_cast<std::size_t>(i)] = std::this_thread::get_id();
  });
  return std::set<std::thread::id>(ids.begin(), ids.end()).size();
}
