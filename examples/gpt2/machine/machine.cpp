#include "gpt2/machine/machine.hpp"

#include "gpt2/input_error.hpp"
#include "gpt2/machine/cuda/cuda_backend.hpp"
#include "gpt2/machine/reference_backend.hpp"

namespace gpt2_trainer {

std::unique_ptr<backend<float>> choose_machine(backend_choice choice, llmc::precision arithmetic,
                                               std::string& note) {
  if (choice != backend_choice::cpu) {
    if (auto machine = make_cuda_backend(arithmetic, note)) return machine;
    if (choice == backend_choice::cuda) {
      throw input_error("--backend cuda needs a CUDA device, got none: " + note);
    }
  }
  return make_reference_backend<float>();
}

}  // namespace gpt2_trainer
