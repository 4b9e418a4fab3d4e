#include <llmc/layernorm.cuh>

#include <cstdio>

#include "layer.hpp"

namespace {

template <class Call>
bool is_refused(Call call) {
  try {
    call();
  } catch (const llmc::invalid_argument& error) {
    std::printf("%s\n", error.what());
    return true;
  }
  return false;
}

}  // namespace

// Refused arguments need no GPU.
int main() {
  const llmc::row_shape no_channels{1, 0};
  const bool here = is_refused([&] {
    llmc::layernorm_forward(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, no_channels,
                            1e-5f, nullptr);
  });
  const bool there = is_refused([&] { normalise(nullptr, nullptr, no_channels); });
  return here && there ? 0 : 1;
}
