/// @file
/// The layers' calls that a step is made of, as values. Each says once what the layer is given,
/// what a profile calls it, and what it must do at least. A layer is given the launcher's
/// arguments, in their order, without those that belong to the machine: scratch, arithmetic,
/// context, stream. The header of each layer says what it computes.
#pragma once

#include <cstdint>
#include <string>

#include <llmc/types.hpp>

#include "registry/costs.hpp"

namespace gpt2_trainer {

using llmc_registry::call_cost;
using llmc_registry::call_kind;

namespace calls {

namespace costs = llmc_registry::costs;

inline std::string with_extents(const char* name, llmc::matmul_shape shape) {
  return std::string(name) + " " + std::to_string(shape.channels) + " -> " +
         std::to_string(shape.out_channels);
}

template <class Real>
struct encoder_forward {
  Real* out;
  std::uint64_t* out_of_range;
  const std::int32_t* tokens;
  const Real* wte;
  const Real* wpe;
  llmc::encoder_shape shape;

  std::string name() const { return "encoder_forward"; }
  call_cost cost() const {
    return costs::encoder_forward(shape, costs::most_different_tokens(shape));
  }
};

template <class Real>
struct encoder_backward {
  Real* dwte;
  Real* dwpe;
  const std::int32_t* tokens;
  const Real* dout;
  llmc::encoder_shape shape;
  llmc::accumulation dwte_mode;
  llmc::accumulation dwpe_mode;

  std::string name() const { return "encoder_backward"; }
  call_cost cost() const {
    return costs::encoder_backward(shape, costs::most_different_tokens(shape), dwte_mode,
                                   dwpe_mode);
  }
};

template <class Real>
struct layernorm_forward {
  Real* out;
  Real* mean;
  Real* rstd;
  const Real* inp;
  const Real* weight;
  const Real* bias;
  llmc::row_shape shape;
  Real epsilon;

  std::string name() const { return "layernorm_forward"; }
  call_cost cost() const { return costs::layernorm_forward(shape); }
};

template <class Real>
struct residual_layernorm_forward {
  Real* residual;
  Real* out;
  Real* mean;
  Real* rstd;
  const Real* inp1;
  const Real* inp2;
  const Real* weight;
  const Real* bias;
  llmc::row_shape shape;
  Real epsilon;

  std::string name() const { return "residual_layernorm_forward"; }
  call_cost cost() const { return costs::residual_layernorm_forward(shape); }
};

template <class Real>
struct residual_layernorm_backward {
  Real* dinp;
  Real* dinp_bias;
  Real* dweight;
  Real* dbias;
  const Real* dout;
  const Real* dresidual;
  const Real* residual;
  const Real* weight;
  const Real* mean;
  const Real* rstd;
  llmc::row_shape shape;
  llmc::accumulation mode;

  std::string name() const { return "residual_layernorm_backward"; }
  call_cost cost() const {
    return costs::residual_layernorm_backward(shape, dresidual != nullptr, dinp_bias != nullptr,
                                              mode);
  }
};

template <class Real>
struct matmul_forward {
  Real* out;
  const Real* inp;
  const Real* weight;
  const Real* bias;
  llmc::matmul_shape shape;

  std::string name() const { return with_extents("matmul_forward", shape); }
  call_cost cost() const { return costs::matmul_forward(shape, bias != nullptr); }
};

/// The gradient of the bias comes from the layer that makes `dout`. Where only one of `dinp` and
/// `dweight` is asked for, name and cost are those of that one; a profile asks so.
template <class Real>
struct matmul_backward {
  Real* dinp;
  Real* dweight;
  const Real* dout;
  const Real* inp;
  const Real* weight;
  llmc::matmul_shape shape;
  llmc::accumulation mode;

  std::string name() const {
    return with_extents("matmul_backward", shape) + (dinp != nullptr ? " dinp" : " dweight");
  }
  call_cost cost() const {
    return dinp != nullptr ? costs::matmul_dinp(shape) : costs::matmul_dweight(shape, mode);
  }
};

template <class Real>
struct matmul_gelu_forward {
  Real* out;
  Real* before_gelu;
  const Real* inp;
  const Real* weight;
  const Real* bias;
  llmc::matmul_shape shape;

  std::string name() const { return with_extents("matmul_gelu_forward", shape); }
  call_cost cost() const { return costs::matmul_gelu_forward(shape, bias != nullptr); }
};

template <class Real>
struct gelu_forward {
  Real* out;
  const Real* inp;
  std::int64_t count;

  std::string name() const { return "gelu_forward"; }
  call_cost cost() const { return costs::gelu_forward(count); }
};

/// As in matmul_backward, name and cost are those of one part: dgelu_inp with dgelu_bias, or
/// dweight.
template <class Real>
struct gelu_matmul_backward {
  Real* dgelu_inp;
  Real* dgelu_bias;
  Real* dweight;
  const Real* dout;
  const Real* gelu_inp;
  const Real* inp;
  const Real* weight;
  llmc::matmul_shape shape;
  llmc::accumulation mode;

  std::string name() const {
    return with_extents("gelu_matmul_backward", shape) +
           (dgelu_inp != nullptr ? " dgelu_inp" : " dweight");
  }
  call_cost cost() const {
    return dgelu_inp != nullptr ? costs::matmul_dgelu_inp(shape, dgelu_bias != nullptr, mode)
                                : costs::matmul_dweight(shape, mode);
  }
};

template <class Real>
struct attention_forward {
  Real* out;
  Real* lse;
  const Real* qkv;
  llmc::attention_shape shape;

  std::string name() const { return "attention_forward"; }
  call_cost cost() const { return costs::attention_forward(shape); }
};

template <class Real>
struct attention_backward {
  Real* dqkv;
  Real* dqkv_bias;
  const Real* dout;
  const Real* qkv;
  const Real* out;
  const Real* lse;
  llmc::attention_shape shape;
  llmc::accumulation mode;

  std::string name() const { return "attention_backward"; }
  call_cost cost() const { return costs::attention_backward(shape, dqkv_bias != nullptr, mode); }
};

template <class Real>
struct crossentropy_forward {
  Real* losses;
  std::uint64_t* out_of_range;
  const Real* logits;
  const std::int32_t* targets;
  llmc::classifier_shape shape;

  std::string name() const { return "crossentropy_forward"; }
  call_cost cost() const { return costs::crossentropy_forward(shape); }
};

template <class Real>
struct classifier_forward_backward {
  Real* logits;
  Real* losses;
  std::uint64_t* out_of_range;
  const std::int32_t* targets;
  llmc::classifier_shape shape;
  Real dloss;

  std::string name() const { return "classifier_forward_backward"; }
  call_cost cost() const { return costs::classifier_forward_backward(shape); }
};

template <class Real>
struct loss_sum {
  double* sum;
  const Real* losses;
  std::int64_t count;
  llmc::accumulation mode;

  std::string name() const { return "loss_sum"; }
  call_cost cost() const { return costs::loss_sum(count); }
};

template <class Real>
struct skip_update_unless_sound {
  llmc::clip_state* clip;
  const double* loss;
  const std::uint64_t* out_of_range;

  std::string name() const { return "skip_update_unless_sound"; }
  call_cost cost() const { return {}; }
};

template <class Real>
struct global_norm {
  llmc::clip_state* result;
  const Real* grads;
  std::int64_t count;
  float max_norm;

  std::string name() const { return "global_norm"; }
  call_cost cost() const { return costs::global_norm(count); }
};

/// Learning rate, step and clip state are in the device's memory.
template <class Real>
struct adamw_update_segments {
  Real* params;
  Real* m;
  Real* v;
  const Real* grads;
  const llmc::adamw_segment* segments;
  std::int64_t segment_count;
  llmc::adamw_parameters constants;
  const float* learning_rate;
  const std::int64_t* step;
  const llmc::clip_state* clip;

  std::string name() const { return "adamw_update_segments"; }
  call_cost cost() const {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < segment_count; ++i) count += segments[i].count;
    return costs::adamw_update(count);
  }
};

/// Calls `visit` for each part of a call that is a kernel of its own. Most calls are one part.
template <class Call, class Visit>
void for_each_part(const Call& call, Visit visit) {
  visit(call);
}
template <class Real, class Visit>
void for_each_part(const matmul_backward<Real>& call, Visit visit) {
  matmul_backward<Real> dinp = call, dweight = call;
  dinp.dweight = dweight.dinp = nullptr;
  visit(dinp);
  visit(dweight);
}
/// dgelu_bias is a sum that the kernel of dgelu_inp makes, so these two stay together.
template <class Real, class Visit>
void for_each_part(const gelu_matmul_backward<Real>& call, Visit visit) {
  gelu_matmul_backward<Real> dgelu_inp = call, dweight = call;
  dgelu_inp.dweight = dweight.dgelu_inp = dweight.dgelu_bias = nullptr;
  visit(dgelu_inp);
  visit(dweight);
}

}  // namespace calls
}  // namespace gpt2_trainer
