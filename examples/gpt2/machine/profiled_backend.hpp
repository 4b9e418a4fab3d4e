/// @file
/// A backend that times each call of another one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpt2/machine/backend.hpp"
#include "registry/costs.hpp"

namespace gpt2_trainer {

using llmc_registry::call_cost;
using llmc_registry::call_kind;
namespace costs = llmc_registry::costs;

struct timed_call {
  std::string name;  ///< the layer, of products with their extents, or the kind of transfer
  call_cost cost;
  double seconds;
};
using timed_step = std::vector<timed_call>;

/// Does what the other backend does, as it does it, until `start`. From there on to `finish` each
/// call is timed, so none is replayed from a recording, and the parts of a backward pass through a
/// linear layer, which are kernels of their own, are asked for one after another.
class profiled_backend : public backend<float> {
 public:
  virtual void start() = 0;
  /// What was called since the step before is a step.
  virtual void end_step() = 0;
  /// Waits for the calls. Those after the last step's end are not in it.
  virtual std::vector<timed_step> finish() = 0;
};

std::unique_ptr<profiled_backend> make_profiled_backend(std::unique_ptr<backend<float>> inner);

}  // namespace gpt2_trainer
