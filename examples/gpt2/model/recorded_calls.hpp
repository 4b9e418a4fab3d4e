/// @file
/// What tells the recordings of a step's calls apart.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

namespace gpt2_trainer {

/// All that the calls of a recording depend on: what decides a micro-batch's gradients, what
/// decides an update, or both.
struct recorded_calls {
  struct gradients_of {
    std::int64_t batch;
    std::int64_t sequence;
    bool overwrite;  ///< the first micro-batch of a step overwrites, later ones add
    int micro_batches;
  };
  struct update_by {
    float beta1;
    float beta2;
    float epsilon;
    float weight_decay;
    float max_norm;
  };
  std::optional<gradients_of> gradients;
  std::optional<update_by> update;
};

inline auto as_tuple(const recorded_calls::gradients_of& g) {
  return std::tie(g.batch, g.sequence, g.overwrite, g.micro_batches);
}
inline auto as_tuple(const recorded_calls::update_by& u) {
  return std::tie(u.beta1, u.beta2, u.epsilon, u.weight_decay, u.max_norm);
}
inline bool operator<(const recorded_calls::gradients_of& a,
                      const recorded_calls::gradients_of& b) {
  return as_tuple(a) < as_tuple(b);
}
inline bool operator<(const recorded_calls::update_by& a, const recorded_calls::update_by& b) {
  return as_tuple(a) < as_tuple(b);
}
/// A key without an update is another one than a key with an update of zeros.
inline bool operator<(const recorded_calls& a, const recorded_calls& b) {
  return std::tie(a.gradients, a.update) < std::tie(b.gradients, b.update);
}

}  // namespace gpt2_trainer
