/// @file
/// The types that every layer shares: extents, arithmetic, and whether a gradient overwrites its
/// buffer or is added to it. Plain C++17 without CUDA, so the same types serve .cpp and .cu files.
///
/// Letters used in all of llmc's documentation: B batch, T sequence length, C channels, NH heads,
/// HS head size (C = NH * HS), V vocabulary, Vp padded vocabulary, OC output channels. Arrays are
/// row-major and dense.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include <llmc/detail/namespace.hpp>
#include <llmc/error.hpp>

LLMC_TYPES_BEGIN

/// The arithmetic of matrix products and attention. Everything else is always IEEE FP32.
enum class precision {
  ieee,   ///< FP32 multiply and add, as on the CPU. The library's default.
  tf32,   ///< Operands rounded to TF32 (10 bits of mantissa), sums in FP32. Fast, relative error
          ///< about 1e-3.
  tf32x3  ///< Three TF32 products per product: at least as exact as `ieee`.
};

/// The numbers that a multiplier takes. Tensor cores take all of them but FP32.
enum class operand_format { fp32, tf32 };

/// What a program may ask of a precision. How the precision multiplies is in
/// device/tensor_core/precision.cuh.
struct precision_facts {
  precision value;
  const char* name;  ///< as the trainer's command line spells it
  operand_format operands;
  int products;  ///< of operands for one product: 3 where each is split into two parts

  constexpr bool on_tensor_cores() const { return operands != operand_format::fp32; }
  /// At least as exact as FP32 multiply-adds.
  constexpr bool is_exact() const { return !on_tensor_cores() || products > 1; }
};

/// All precisions. The declarations below are made from this table, and none repeats it.
inline constexpr std::array precision_table{
    precision_facts{precision::ieee, "ieee", operand_format::fp32, 1},
    precision_facts{precision::tf32, "tf32", operand_format::tf32, 1},
    precision_facts{precision::tf32x3, "tf32x3", operand_format::tf32, 3}};

inline constexpr auto precisions = [] {
  std::array<precision, precision_table.size()> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = precision_table[i].value;
  return all;
}();

/// The facts of a precision. Throws invalid_argument for a number that is no precision.
constexpr const precision_facts& facts_of(precision value) {
  for (const precision_facts& facts : precision_table) {
    if (facts.value == value) return facts;
  }
  throw invalid_argument("llmc: no precision has the number " +
                         std::to_string(static_cast<int>(value)));
}

constexpr const char* to_string(precision value) {
  return facts_of(value).name;
}

/// A precision as a type, for code that is compiled once for each.
template <precision Value>
using precision_constant = std::integral_constant<precision, Value>;

/// Calls `body` with the precision as a precision_constant and returns what it returns.
template <std::size_t Row = 0, class Body>
decltype(auto) with_precision(precision value, Body&& body) {
  if constexpr (Row + 1 < precisions.size()) {
    if (value != precisions[Row]) return with_precision<Row + 1>(value, body);
  }
  return body(precision_constant<precisions[Row]>{});
}

/// Scratch memory on the GPU, which the caller owns. `<launcher>_workspace_bytes(shape)` says how
/// much a launcher needs. The launcher refuses less, or memory that is not aligned to 16 bytes.
/// What it leaves there has no meaning.
struct workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// The gradients of the rows' losses: scale * of_row[r] for row r, or `scale` for every row where
/// `of_row` is null. The backward pass of a loss layer multiplies by them. {1.0f / rows} gives the
/// gradient of the losses' mean.
struct loss_gradient {
  float scale = 1.0f;
  const float* of_row = nullptr;  ///< (rows), on the GPU
};

/// What happens to the old contents of a gradient of parameters. A backward launcher takes one
/// `mode` for all gradients of parameters that it makes. Only encoder_backward takes two, because
/// another layer may share one of its tables. Gradients of activations are always overwritten, but
/// for those of residual_backward, which take a `mode`, too.
enum class accumulation {
  overwrite,  ///< The buffer need not be initialised; every element is written.
  add         ///< The gradient is added to what the buffer holds.
};

/// A matrix of `rows` rows of `channels` numbers: (B*T, C).
struct row_shape {
  std::int64_t rows;
  std::int64_t channels;
};

/// Token and position embedding: tokens (B, T), tables (V, C) and (at least T, C).
struct encoder_shape {
  std::int64_t batch;       ///< B
  std::int64_t sequence;    ///< T
  std::int64_t channels;    ///< C
  std::int64_t vocabulary;  ///< V: a token outside [0, V) is out of range
};

/// A linear layer: inp (rows, channels), weight (out_channels, channels), out (rows, out_channels).
struct matmul_shape {
  std::int64_t rows;          ///< B*T
  std::int64_t channels;      ///< C
  std::int64_t out_channels;  ///< OC
};

/// Causal self-attention: qkv (B, T, 3, NH, HS), out (B, T, NH, HS).
struct attention_shape {
  std::int64_t batch;      ///< B
  std::int64_t sequence;   ///< T
  std::int64_t heads;      ///< NH
  std::int64_t head_size;  ///< HS
};

/// Logits (rows, padded_vocabulary), of which the first `vocabulary` columns take part.
struct classifier_shape {
  std::int64_t rows;               ///< B*T
  std::int64_t vocabulary;         ///< V
  std::int64_t padded_vocabulary;  ///< Vp >= V: the stride between rows
};

/// The target of a row that takes no part: its loss and its gradient are 0, and it is not counted
/// as out of range.
inline constexpr std::int32_t ignored_target = -100;

/// What `global_norm` finds and `adamw_update` reads, in device memory.
struct clip_state {
  float norm;           ///< Euclidean norm of all gradients, before clipping
  float scale;          ///< min(1, max_norm / norm): what the gradients are multiplied by
  std::int32_t finite;  ///< 1 if the norm is finite, else 0: then the update must be skipped
};

/// AdamW's constants (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019).
struct adamw_parameters {
  float beta1;
  float beta2;
  float epsilon;
  float weight_decay;
};

/// A run of parameters in an arena, which begins where the one before it ends.
struct adamw_segment {
  std::int64_t count;
  bool decays;  ///< whether weight_decay applies: as a rule to matrices, not to biases and norms
};

namespace products {

/// How an operand lies. A product sums over k; `outer` is a row of the first operand or a column of
/// the second.
enum class layout {
  inner_first,  ///< (outers, inner): the k of one outer are neighbours
  outer_first   ///< (inner, outers): the outers of one k are neighbours
};

/// An operand in memory, in lines of neighbours.
struct operand {
  const float* data;
  std::int64_t stride;  ///< floats from one line to the next
  layout order = layout::inner_first;
  std::int64_t batch_stride = 0;  ///< floats from one matrix of a batch to the next
};

}  // namespace products

namespace checks {

/// The product of non-negative extents, or invalid_argument if one is negative or the product
/// passes 2^63 - 1.
template <class... Extents>
std::int64_t checked_product(const char* function, Extents... extents) {
  std::int64_t result = 1;
  for (const std::int64_t extent : {static_cast<std::int64_t>(extents)...}) {
    if (extent < 0) {
      throw invalid_argument(std::string(function) + ": an extent must be at least 0, got " +
                             std::to_string(extent));
    }
    if (extent != 0 && result > (std::numeric_limits<std::int64_t>::max)() / extent) {
      throw invalid_argument(std::string(function) +
                             ": the product of the extents must be below 2^63, got " +
                             std::to_string(result) + " * " + std::to_string(extent));
    }
    result *= extent;
  }
  return result;
}

/// The bytes of that many elements; the only way llmc makes a byte count.
template <class Element, class... Extents>
std::size_t bytes(const char* function, Extents... extents) {
  return static_cast<std::size_t>(checked_product(
      function, static_cast<std::int64_t>(sizeof(Element)), static_cast<std::int64_t>(extents)...));
}

}  // namespace checks

LLMC_TYPES_END
