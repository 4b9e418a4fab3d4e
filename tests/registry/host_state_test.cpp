/// @file
/// What launchers share with the rest of the program: the last error of a host thread, and the
/// settings of kernels, which all host threads share.
#include <cuda_runtime.h>

#include <chrono>
#include <exception>
#include <string>
#include <thread>

#include <llmc/error.hpp>

#include "../support/catch.hpp"
#include "../support/gpu.cuh"
#include "registry/registry.hpp"

using namespace llmc_registry;

namespace {

/// A launch that fails: it leaves its error as the last one of this thread.
cudaError_t failed_launch() {
  return cudaLaunchKernel(static_cast<const void*>(nullptr), dim3(1), dim3(1), nullptr, 0, nullptr);
}

/// The shape of a few rows of that many columns.
extents few_rows(const operation& o, std::int64_t columns) {
  extents shape;
  for (const parameter& p : o.parameters) shape[p.name] = p.name == "rows" ? 4 : columns;
  return shape;
}

/// Launches again and again, in a stream of its own; returns what was thrown.
std::string launch_often(const entry& e, problem& p) {
  using clock = std::chrono::steady_clock;
  constexpr int launches = 4000;
  constexpr std::chrono::milliseconds most_time{300};  // for what is slow on purpose
  try {
    const llmc_test::stream stream;
    const auto begin = clock::now();
    for (int i = 0; i < launches && clock::now() - begin < most_time; ++i) {
      run(e, p, stream);
      if (i % 16 == 15) stream.synchronize();
    }
    stream.synchronize();
  } catch (const llmc::unsupported&) {
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("no operation hides an earlier error of the user's or takes it for its own",
          "[registry]") {
  LLMC_REQUIRE_GPU();
  for (const operation& o : operations()) {
    const auto problem = o.make_problem(checked_shape(o, default_shape(o)), {});
    const llmc_test::stream stream;
    for (const entry& e : o.entries) {
      if (!e.is_default) continue;
      INFO(o.name << " " << to_string(e));
      problem->reset(stream);
      stream.synchronize();
      const cudaError_t earlier = failed_launch();
      REQUIRE(earlier != cudaSuccess);
      try {
        run(e, *problem, stream);
      } catch (const llmc::unsupported&) {
      } catch (const llmc::error& error) {
        FAIL_CHECK(error.what());
      }
      CHECK(cudaPeekAtLastError() == earlier);
      cudaGetLastError();
      stream.synchronize();
    }
  }
}

TEST_CASE("two host threads launch the same kernels with different shared memory", "[registry]") {
  LLMC_REQUIRE_GPU();
  for (const operation& o : operations()) {
    if (o.name != "softmax_forward" && o.name != "classifier_forward_backward") continue;
    for (const entry& e : o.entries) {
      if (!e.is_default) continue;
      INFO(o.name << " " << to_string(e));
      const auto narrow = o.make_problem(few_rows(o, 8192), {});
      const auto wide = o.make_problem(few_rows(o, 50304), {});
      std::string thrown;
      std::thread other([&] { thrown = launch_often(e, *wide); });
      CHECK(launch_often(e, *narrow) == "");
      other.join();
      CHECK(thrown == "");
    }
  }
}
