/// @file
/// Causal attention whose result is known in closed form for any shape.
///
/// All queries are 0, so every softmax is a plain mean over the positions so far. In feature 0 of
/// each head, keys and values are the position itself and the gradient of the output is 1; all
/// other features are 0. With s = 1 / sqrt(HS):
///
///     out[t] = t / 2,  lse[t] = log(t + 1)
///     dq[t] = s * t * (t + 2) / 12,  dk[t] = 0,  dv[t] = sum_{j >= t} 1 / (j + 1)
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include <llmc/types.hpp>

namespace llmc_test {

struct attention_oracle {
  llmc::attention_shape shape;
  std::vector<float> qkv, dout;
  std::vector<double> out, lse, dqkv;

  explicit attention_oracle(llmc::attention_shape s) : shape(s) {
    const std::int64_t T = s.sequence, NH = s.heads, HS = s.head_size;
    const std::size_t count = static_cast<std::size_t>(s.batch * T * NH * HS);
    qkv.assign(3 * count, 0.0f);
    dqkv.assign(3 * count, 0.0);
    dout.assign(count, 0.0f);
    out.assign(count, 0.0);
    lse.assign(static_cast<std::size_t>(s.batch * NH * T), 0.0);

    std::vector<double> tail(static_cast<std::size_t>(T) + 1, 0.0);
    for (std::int64_t t = T - 1; t >= 0; --t) {
      tail[static_cast<std::size_t>(t)] =
          tail[static_cast<std::size_t>(t) + 1] + 1.0 / static_cast<double>(t + 1);
    }
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t t = 0; t < T; ++t) {
        for (std::int64_t h = 0; h < NH; ++h) {
          const auto in_qkv = [&](int which) {
            return static_cast<std::size_t>((((b * T + t) * 3 + which) * NH + h) * HS);
          };
          const auto in_out = static_cast<std::size_t>(((b * T + t) * NH + h) * HS);
          const auto position = static_cast<double>(t);
          qkv[in_qkv(1)] = qkv[in_qkv(2)] = static_cast<float>(t);
          dout[in_out] = 1.0f;
          out[in_out] = position / 2;
          lse[static_cast<std::size_t>((b * NH + h) * T + t)] = std::log(position + 1);
          dqkv[in_qkv(0)] = position * (position + 2) / 12 / std::sqrt(static_cast<double>(HS));
          dqkv[in_qkv(2)] = tail[static_cast<std::size_t>(t)];
        }
      }
    }
  }
};

}  // namespace llmc_test
