#include <llmc/error.hpp>
#include <llmc/reference/layernorm.hpp>
#include <llmc/types.hpp>

#include <cstdio>

int main() {
  const float inp[] = {1, 3}, weight[] = {1, 1}, bias[] = {0, 10};
  float out[2];
  llmc::reference::layernorm_forward<float>(out, nullptr, nullptr, inp, weight, bias, {1, 2}, 0.0);
  if (out[0] != -1 || out[1] != 11) return 1;

  try {
    llmc::reference::layernorm_forward<float>(out, nullptr, nullptr, inp, weight, bias, {1, 0},
                                              0.0);
  } catch (const llmc::error& error) {
    std::printf("%s\n", error.what());
    return 0;
  }
  return 1;
}
