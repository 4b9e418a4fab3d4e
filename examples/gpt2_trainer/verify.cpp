/// @file
/// gpt2_verify: runs a model over the batch of an llm.c debug state and compares logits, loss and
/// gradients with those of the state.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpt2/files/debug_state.hpp"
#include "gpt2/hugging_face/stored_model.hpp"
#include "gpt2/machine/machine.hpp"
#include "gpt2/model/gpt2.hpp"
#include "gpt2/run/option_table.hpp"
#include "gpt2/run/program.hpp"

namespace {

using namespace gpt2_trainer;
namespace fs = std::filesystem;

struct verify_options {
  std::string state;
  std::string checkpoint;
  backend_choice backend = backend_choice::automatic;
  llmc::precision precision = llmc::precision::ieee;
  std::optional<double> relative;
  std::optional<double> worst;
};

/// Compares tensors and prints a line for each.
class comparison_table {
 public:
  comparison_table(double relative, double worst) : relative_(relative), worst_(worst) {
    std::printf("%-10s %12s %12s %12s\n", "tensor", "elements", "relative", "worst");
  }

  void add(const char* name, const float* actual, const float* expected, std::int64_t count) {
    double squares = 0;
    double difference_squares = 0;
    double largest = 0;
    double worst = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const double e = expected[i];
      const double difference = std::fabs(actual[i] - e);
      squares += e * e;
      difference_squares += difference * difference;
      largest = std::max(largest, std::fabs(e));
      worst = std::max(worst, difference);
    }
    const double relative = ratio(std::sqrt(difference_squares), std::sqrt(squares));
    worst = ratio(worst, largest);
    // The sum of squares is NaN as soon as one element is, and then nothing is OK.
    const bool ok = relative <= relative_ && worst <= worst_;
    std::printf("%-10s %12lld %12.3e %12.3e  %s\n", name, static_cast<long long>(count), relative,
                worst, ok ? "OK" : "NOT OK");
    all_ok_ = all_ok_ && ok;
  }

  bool all_ok() const { return all_ok_; }

 private:
  static double ratio(double difference, double size) {
    return difference == 0 ? 0 : difference / size;
  }

  double relative_;
  double worst_;
  bool all_ok_ = true;
};

/// Tolerances of logits, loss and each gradient, by the arithmetic of the matrix products.
struct tolerances {
  double relative;
  double worst;
};
tolerances tolerances_of(llmc::precision arithmetic) {
  if (llmc::facts_of(arithmetic).is_exact()) return {2e-4, 1e-3};
  return {2e-2, 5e-2};
}

bool verify(const verify_options& options) {
  const fs::path checkpoint =
      options.checkpoint.empty() ? checkpoint_beside(options.state) : fs::path(options.checkpoint);
  const stored_model model = open_model(checkpoint);
  const debug_state state = read_debug_state(options.state, model.config);

  std::string note;
  const auto machine = choose_machine(options.backend, options.precision, note);
  gpt2<float> network(model.config, *machine, state.batch, state.sequence);
  network.set_parameters(model.parameters());
  const auto logits = network.logits(state.tokens.data(), state.batch, state.sequence);
  network.forward_backward(state.tokens.data(), state.targets.data(), state.batch, state.sequence,
                           0, 1);
  const auto loss = static_cast<float>(network.loss());
  const auto gradients = network.gradients();

  tolerances allowed = tolerances_of(options.precision);
  allowed.relative = options.relative.value_or(allowed.relative);
  allowed.worst = options.worst.value_or(allowed.worst);
  std::printf("%s on %s\n", checkpoint.string().c_str(), machine->description().c_str());
  comparison_table table(allowed.relative, allowed.worst);
  table.add("logits", logits.data(), state.logits.data(),
            static_cast<std::int64_t>(state.logits.size()));
  table.add("loss", &loss, state.loss.data(), 1);
  for (const parameter_tensor& tensor : network.layout()) {
    table.add(tensor.name, gradients.data() + tensor.offset, state.gradients.data() + tensor.offset,
              tensor.count);
  }
  std::printf("loss %.6f, wanted %.6f; tolerance: relative %.1e, worst %.1e\n%s\n",
              static_cast<double>(loss), static_cast<double>(state.loss[0]), allowed.relative,
              allowed.worst, table.all_ok() ? "OK" : "NOT OK");
  return table.all_ok();
}

constexpr const char* summary =
    "Compares llmc with an llm.c debug state (version 2): runs forward and backward over the "
    "state's batch and prints, for the logits, the loss and the gradient of each parameter, two "
    "errors:\n"
    "  relative  norm of the difference / norm of what the state holds; at most 2e-4, tf32: 2e-2\n"
    "  worst     largest difference / largest element of the state; at most 1e-3, tf32: 5e-2\n"
    "Exit status: 0 if all are OK, 1 if one is not, 2 if they could not be compared.";

using opt = verify_options;

const option_table<verify_options> table{
    {"Options",
     {with_required(text("state", &opt::state, "STATE.bin",
                         "llm.c's debug state, such as gpt2_124M_debug_state.bin")),
      text("--checkpoint", &opt::checkpoint, "PATH",
           "the state's model, also a folder of Hugging Face's [the same name\n"
           "without _debug_state]"),
      choice("--backend", &opt::backend, backend_choices, "[auto: CUDA where there is a device]"),
      choice("--precision", &opt::precision, llmc::precisions,
             "of matrix products on CUDA; ieee uses tf32x3 in attention [ieee]"),
      number("--relative", &opt::relative, {0}, "another bound of the relative error"),
      number("--worst", &opt::worst, {0}, "another bound of the worst error")}}};

int run(int argc, char** argv) {
  verify_options options;
  CLI::App app(summary, "gpt2_verify");
  if (const auto help =
          parse_command_line(app, table, argc, argv, options, version_of("gpt2_verify"))) {
    std::printf("%s", help->c_str());
    return 0;
  }
  return verify(options) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  // A failure is no verdict.
  return run_program("gpt2_verify", argv, [&] { return run(argc, argv); }, {2, 2});
}
