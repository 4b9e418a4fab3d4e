/// @file
/// gpt2_generate: continues texts with a GPT-2. See --help.
#include <cstdint>
#include <cstdio>

#include "generate.hpp"
#include "gpt2/run/program.hpp"
#include "prompts.hpp"

namespace {

using namespace gpt2_trainer;

int run(int argc, char** argv) {
  const parsed_generate_options parsed = parse_generate_options(argc, argv);
  if (parsed.help) {
    std::fputs(parsed.help->c_str(), stdout);
    return 0;
  }
  const generate_options& options = parsed.options;
  const std::vector<std::string> prompts = read_prompts(options);
  const auto texts = static_cast<std::int64_t>(prompts.size()) * options.samples;
  const loaded_model model = load(options, texts);
  if (options.interactive) {
    converse(options, model, prompts.front());
  } else {
    print_texts(options, model, prompts);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program("gpt2_generate", argv, [&] { return run(argc, argv); });
}
