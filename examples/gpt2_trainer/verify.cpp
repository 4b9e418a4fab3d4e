/// @file
/// gpt2_verify: runs a model over the batch of an llm.c debug state and compares logits, loss and
/// gradients with those of the state.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpt2/files/checkpoint.hpp"
#include "gpt2/files/file_header.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/machine/machine.hpp"
#include "gpt2/model/gpt2.hpp"
#include "gpt2/run/choice.hpp"

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

struct debug_state {
  std::int64_t batch;
  std::int64_t sequence;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  std::vector<float> logits;
  std::vector<float> loss;
  std::vector<float> gradients;
};

/// Reads arrays that follow each other in a file.
class array_reader {
 public:
  explicit array_reader(const input_file& input) : input_(input) {}

  template <class Number>
  std::vector<Number> next(std::int64_t count) {
    std::vector<Number> values(static_cast<std::size_t>(count));
    const std::size_t bytes = values.size() * sizeof(Number);
    input_.read(values.data(), bytes, offset_);
    offset_ += static_cast<std::int64_t>(bytes);
    return values;
  }

 private:
  const input_file& input_;
  std::int64_t offset_ = header_bytes;
};

void require_extent(const input_file& input, const char* name, std::int64_t value,
                    std::int64_t most) {
  if (value >= 1 && value <= most) return;
  throw input_error(input.path().string() + ": " + name + " must be between 1 and " +
                    std::to_string(most) + ", got " + std::to_string(value));
}

debug_state read_debug_state(const fs::path& path, const gpt2_config& config) {
  const input_file input(path);
  const file_header header = read_header(input, debug_state_kind);
  const std::int64_t B = header[2];
  const std::int64_t T = header[3];
  require_extent(input, "batch", B, 1 << 20);
  require_extent(input, "sequence", T, config.max_sequence);
  const std::int64_t parameters = parameter_layout(config).count();
  constexpr std::int64_t number_bytes = 4;
  require_size(input, header_bytes +
                          number_bytes * (2 * B * T + B * T * config.vocabulary + 1 + parameters));
  array_reader read(input);
  debug_state state{B, T, {}, {}, {}, {}, {}};
  state.tokens = read.next<std::int32_t>(B * T);
  state.targets = read.next<std::int32_t>(B * T);
  state.logits = read.next<float>(B * T * config.vocabulary);
  state.loss = read.next<float>(1);
  state.gradients = read.next<float>(parameters);
  return state;
}

/// llm.c's naming: gpt2_124M_debug_state.bin belongs to gpt2_124M.bin.
fs::path checkpoint_beside(const fs::path& state) {
  const std::string suffix = "_debug_state";
  std::string name = state.filename().string();
  const std::size_t place = name.rfind(suffix);
  if (place == std::string::npos) {
    throw input_error(state.string() + ": the name must end in " + suffix +
                      ".bin for its checkpoint to be known; otherwise give --checkpoint");
  }
  return state.parent_path() / name.erase(place, suffix.size());
}

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
  const model_file model = read_model(checkpoint);
  const debug_state state = read_debug_state(options.state, model.config);

  std::string note;
  const auto machine = choose_machine(options.backend, options.precision, note);
  gpt2<float> network(model.config, *machine, state.batch, state.sequence);
  network.set_parameters(model.parameters);
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

/// An option that takes one of a few words.
template <class Enum, std::size_t Count>
void add_choice(CLI::App& app, const char* name, Enum& value,
                const std::array<Enum, Count>& choices, const char* help) {
  const auto set = [&value, name, choices](const std::string& text) {
    try {
      value = parse_choice(choices, text);
    } catch (const input_error& error) {
      throw CLI::ValidationError(name, error.what());
    }
  };
  app.add_option_function<std::string>(name, set, help)->type_name(joined_words(choices, "|"));
}

constexpr const char* summary =
    "Compares llmc with an llm.c debug state (version 2): runs forward and backward over the "
    "state's batch and prints, for the logits, the loss and the gradient of each parameter, two "
    "errors:\n"
    "  relative  norm of the difference / norm of what the state holds; at most 2e-4, tf32: 2e-2\n"
    "  worst     largest difference / largest element of the state; at most 1e-3, tf32: 5e-2\n"
    "Exit status: 0 if all are OK, 1 if one is not, 2 if they could not be compared.";

}  // namespace

int main(int argc, char** argv) {
  verify_options options;
  CLI::App app(summary, "gpt2_verify");
  app.add_option("state", options.state, "llm.c's debug state, such as gpt2_124M_debug_state.bin")
      ->required()
      ->type_name("STATE.bin");
  app.add_option("--checkpoint", options.checkpoint,
                 "the state's model [the same name without _debug_state]")
      ->type_name("FILE");
  add_choice(app, "--backend", options.backend, backend_choices,
             "[auto: CUDA where there is a device]");
  add_choice(app, "--precision", options.precision, llmc::precisions,
             "of matrix products on CUDA; ieee uses tf32x3 in attention [ieee]");
  app.add_option("--relative", options.relative, "another bound of the relative error")
      ->type_name("X")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--worst", options.worst, "another bound of the worst error")
      ->type_name("X")
      ->check(CLI::NonNegativeNumber);
  try {
    app.parse(argc, argv);
    return verify(options) ? 0 : 1;
  } catch (const CLI::CallForHelp&) {
    std::printf("%s", app.help().c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpt2_verify: %s\n", error.what());
    return 2;
  }
}
