#include "gpt2/machine/reference_layers.hpp"

#include <llmc/reference/adamw.hpp>
#include <llmc/reference/attention.hpp>
#include <llmc/reference/cached_attention.hpp>
#include <llmc/reference/classifier.hpp>
#include <llmc/reference/crossentropy.hpp>
#include <llmc/reference/encoder.hpp>
#include <llmc/reference/gelu.hpp>
#include <llmc/reference/global_norm.hpp>
#include <llmc/reference/layernorm.hpp>
#include <llmc/reference/loss_sum.hpp>
#include <llmc/reference/matmul.hpp>
#include <llmc/reference/matmul_few_rows.hpp>
#include <llmc/reference/placed_encoder.hpp>
#include <llmc/reference/residual_layernorm.hpp>

#include "gpt2/machine/instruction_sets.hpp"

namespace gpt2_trainer {
namespace {

namespace reference = llmc::reference;

template <class Real>
class reference_layers final : public layers<Real>, public decode_layers<Real> {
 public:
  void run(const calls::encoder_forward<Real>& c) override {
    reference::encoder_forward(c.out, c.out_of_range, c.tokens, c.wte, c.wpe, c.shape);
  }
  void run(const calls::encoder_backward<Real>& c) override {
    reference::encoder_backward(c.dwte, c.dwpe, c.tokens, c.dout, c.shape, c.dwte_mode,
                                c.dwpe_mode);
  }

  void run(const calls::layernorm_forward<Real>& c) override {
    reference::layernorm_forward(c.out, c.mean, c.rstd, c.inp, c.weight, c.bias, c.shape,
                                 c.epsilon);
  }
  void run(const calls::residual_layernorm_forward<Real>& c) override {
    reference::residual_layernorm_forward(c.residual, c.out, c.mean, c.rstd, c.inp1, c.inp2,
                                          c.weight, c.bias, c.shape, c.epsilon);
  }
  void run(const calls::residual_layernorm_backward<Real>& c) override {
    reference::residual_layernorm_backward(c.dinp, c.dinp_bias, c.dweight, c.dbias, c.dout,
                                           c.dresidual, c.residual, c.weight, c.mean, c.rstd,
                                           c.shape, c.mode);
  }

  void run(const calls::matmul_forward<Real>& c) override {
    reference::matmul_forward(c.out, c.inp, c.weight, c.bias, c.shape);
  }
  void run(const calls::matmul_backward<Real>& c) override {
    reference::matmul_backward<Real>(c.dinp, c.dweight, nullptr, c.dout, c.inp, c.weight, c.shape,
                                     c.mode);
  }

  void run(const calls::matmul_gelu_forward<Real>& c) override {
    reference::matmul_forward(c.before_gelu, c.inp, c.weight, c.bias, c.shape);
    reference::gelu_forward(c.out, c.before_gelu, c.shape.rows * c.shape.out_channels);
  }
  void run(const calls::gelu_forward<Real>& c) override {
    reference::gelu_forward(c.out, c.inp, c.count);
  }
  void run(const calls::gelu_matmul_backward<Real>& c) override {
    reference::matmul_backward<Real>(c.dgelu_inp, c.dweight, nullptr, c.dout, c.inp, c.weight,
                                     c.shape, c.mode);
    if (c.dgelu_inp == nullptr) return;
    reference::gelu_backward(c.dgelu_inp, c.dgelu_inp, c.gelu_inp, c.shape.rows * c.shape.channels);
    reference::matmul_bias_backward(c.dgelu_bias, c.dgelu_inp, {c.shape.rows, c.shape.channels},
                                    c.mode);
  }

  void run(const calls::attention_forward<Real>& c) override {
    reference::attention_forward(c.out, c.lse, c.qkv, c.shape);
  }
  void run(const calls::attention_backward<Real>& c) override {
    reference::attention_backward(c.dqkv, c.dqkv_bias, c.dout, c.qkv, c.out, c.lse, c.shape,
                                  c.mode);
  }

  void run(const calls::crossentropy_forward<Real>& c) override {
    reference::crossentropy_forward(c.losses, c.out_of_range, c.logits, c.targets, c.shape);
  }
  void run(const calls::classifier_forward_backward<Real>& c) override {
    reference::classifier_forward_backward(c.logits, c.losses, c.out_of_range, c.targets, c.shape,
                                           c.dloss);
  }

  void run(const calls::loss_sum<Real>& c) override {
    reference::loss_sum(c.sum, c.losses, c.count, c.mode);
  }
  void run(const calls::skip_update_unless_sound<Real>& c) override {
    reference::skip_update_unless_sound(c.clip, c.loss, c.out_of_range);
  }
  void run(const calls::global_norm<Real>& c) override {
    reference::global_norm(c.result, c.grads, c.count, c.max_norm);
  }
  void run(const calls::adamw_update_segments<Real>& c) override {
    reference::adamw_update_segments(c.params, c.m, c.v, c.grads, c.segments, c.segment_count,
                                     c.constants, c.learning_rate, c.step, c.clip);
  }

  decode_layers<Real>* decoding() override { return this; }
  void run(const calls::placed_encoder_forward<Real>& c) override {
    reference::placed_encoder_forward(c.out, c.tokens, c.places, c.wte, c.wpe, c.shape);
  }
  void run(const calls::matmul_few_rows_forward<Real>& c) override {
    reference::matmul_few_rows_forward(c.out, c.inp, c.weight, c.bias, c.shape);
  }
  void run(const calls::cached_attention_forward<Real>& c) override {
    reference::cached_attention_forward(c.out, c.keys, c.values, c.qkv, c.places, c.shape);
  }
};

}  // namespace

// A macro that is defined becomes 1, the text of any other is its name.
#define LLMC_TEXT(token) #token
#define LLMC_IS_DEFINED(macro) (LLMC_TEXT(macro)[0] == '1')

const instruction_set reference_layers_instruction_sets[] = {
    {"pni", LLMC_IS_DEFINED(__SSE3__)},
    {"ssse3", LLMC_IS_DEFINED(__SSSE3__)},
    {"sse4_1", LLMC_IS_DEFINED(__SSE4_1__)},
    {"sse4_2", LLMC_IS_DEFINED(__SSE4_2__)},
    {"sse4a", LLMC_IS_DEFINED(__SSE4A__)},
    {"popcnt", LLMC_IS_DEFINED(__POPCNT__)},
    {"abm", LLMC_IS_DEFINED(__LZCNT__)},
    {"movbe", LLMC_IS_DEFINED(__MOVBE__)},
    {"bmi1", LLMC_IS_DEFINED(__BMI__)},
    {"bmi2", LLMC_IS_DEFINED(__BMI2__)},
    {"adx", LLMC_IS_DEFINED(__ADX__)},
    {"f16c", LLMC_IS_DEFINED(__F16C__)},
    {"fma", LLMC_IS_DEFINED(__FMA__)},
    {"fma4", LLMC_IS_DEFINED(__FMA4__)},
    {"xop", LLMC_IS_DEFINED(__XOP__)},
    {"tbm", LLMC_IS_DEFINED(__TBM__)},
    {"avx", LLMC_IS_DEFINED(__AVX__)},
    {"avx2", LLMC_IS_DEFINED(__AVX2__)},
    {"avx_vnni", LLMC_IS_DEFINED(__AVXVNNI__)},
    {"gfni", LLMC_IS_DEFINED(__GFNI__)},
    {"avx512f", LLMC_IS_DEFINED(__AVX512F__)},
    {"avx512cd", LLMC_IS_DEFINED(__AVX512CD__)},
    {"avx512bw", LLMC_IS_DEFINED(__AVX512BW__)},
    {"avx512dq", LLMC_IS_DEFINED(__AVX512DQ__)},
    {"avx512vl", LLMC_IS_DEFINED(__AVX512VL__)},
    {"avx512ifma", LLMC_IS_DEFINED(__AVX512IFMA__)},
    {"avx512vbmi", LLMC_IS_DEFINED(__AVX512VBMI__)},
    {"avx512_vbmi2", LLMC_IS_DEFINED(__AVX512VBMI2__)},
    {"avx512_vnni", LLMC_IS_DEFINED(__AVX512VNNI__)},
    {"avx512_bitalg", LLMC_IS_DEFINED(__AVX512BITALG__)},
    {"avx512_vpopcntdq", LLMC_IS_DEFINED(__AVX512VPOPCNTDQ__)},
    {"avx512_bf16", LLMC_IS_DEFINED(__AVX512BF16__)},
    {"avx512_fp16", LLMC_IS_DEFINED(__AVX512FP16__)},
    {"sve", LLMC_IS_DEFINED(__ARM_FEATURE_SVE)},
    {"sve2", LLMC_IS_DEFINED(__ARM_FEATURE_SVE2)},
    {"asimddp", LLMC_IS_DEFINED(__ARM_FEATURE_DOTPROD)},
    {"atomics", LLMC_IS_DEFINED(__ARM_FEATURE_ATOMICS)},
    {nullptr, false}};

std::unique_ptr<layers<float>> make_reference_layers_of_floats() {
  return std::make_unique<reference_layers<float>>();
}
std::unique_ptr<layers<double>> make_reference_layers_of_doubles() {
  return std::make_unique<reference_layers<double>>();
}

}  // namespace gpt2_trainer
