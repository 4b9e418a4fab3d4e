/// @file
/// The two layouts of heads on the CPU; see llmc/permute.cuh for the contracts.
#pragma once

#include <algorithm>
#include <cstdint>

#include <llmc/detail/attention/parts.hpp>
#include <llmc/reference/parallel.hpp>
#include <llmc/types.hpp>

LLMC_REFERENCE_BEGIN

/// Calls `body(by_head, by_position)` with where each vector of HS numbers begins in the two
/// layouts, in parallel.
template <class Body>
void for_each_vector(attention_shape shape, int parts, Body body) {
  const std::int64_t T = shape.sequence, NH = shape.heads, HS = shape.head_size;
  parallel_for(parts * shape.batch * NH * T, [&](std::int64_t i) {
    const std::int64_t t = i % T, h = i / T % NH, b = i / (T * NH) % shape.batch;
    const std::int64_t part = i / (T * NH * shape.batch);
    body(i * HS, (((b * T + t) * parts + part) * NH + h) * HS);
  });
}

template <class Real>
void permute_heads(Real* out, const Real* inp, attention_shape shape, int parts) {
  checks::require_parts("llmc::reference::permute_heads", shape, parts);
  for_each_vector(shape, parts, [&](std::int64_t by_head, std::int64_t by_position) {
    std::copy_n(inp + by_position, shape.head_size, out + by_head);
  });
}

template <class Real>
void unpermute_heads(Real* out, const Real* inp, attention_shape shape, int parts) {
  checks::require_parts("llmc::reference::unpermute_heads", shape, parts);
  for_each_vector(shape, parts, [&](std::int64_t by_head, std::int64_t by_position) {
    std::copy_n(inp + by_head, shape.head_size, out + by_position);
  });
}

LLMC_REFERENCE_END
