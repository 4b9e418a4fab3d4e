#include "machine.hpp"

#include "config.hpp"
#include "cuda_backend.hpp"
#include "reference_backend.hpp"

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
