/// @file
/// The layers that only continuing a text needs; see llmc/reference for what they compute.
#pragma once

#include <cstdint>

#include <llmc/cache_types.hpp>
#include <llmc/types.hpp>

namespace gpt2_trainer {

namespace calls {

template <class Real>
struct placed_encoder_forward {
  Real* out;
  const std::int32_t* tokens;
  const llmc::cache_place* places;
  const Real* wte;
  const Real* wpe;
  llmc::encoder_shape shape;
};

template <class Real>
struct matmul_few_rows_forward {
  Real* out;
  const Real* inp;
  const Real* weight;
  const Real* bias;
  llmc::matmul_shape shape;
};

template <class Real>
struct cached_attention_forward {
  Real* out;
  Real* keys;
  Real* values;
  const Real* qkv;
  const llmc::cache_place* places;
  llmc::cached_attention_shape shape;
};

}  // namespace calls

/// Who makes their calls.
template <class Real>
class decode_layers {
 public:
  virtual ~decode_layers() = default;

  virtual void run(const calls::placed_encoder_forward<Real>& call) = 0;
  virtual void run(const calls::matmul_few_rows_forward<Real>& call) = 0;
  virtual void run(const calls::cached_attention_forward<Real>& call) = 0;
};

}  // namespace gpt2_trainer
