#include <llmc/classifier.cuh>
#include <llmc/crossentropy.cuh>
#include <llmc/softmax.cuh>

#include "arrays.hpp"
#include "bench.hpp"
#include "llm_c.hpp"
#include "support/random.hpp"

namespace llm_c_bench {
namespace {

/// All padded columns take part, since dev/cuda knows of no padding.
constexpr llmc::classifier_shape unpadded_shape{rows, padded_vocabulary, padded_vocabulary};
constexpr double typical_probability = 1.0 / padded_vocabulary;

std::vector<std::int32_t> random_targets() {
  return llmc_test::random_integers(rows, vocabulary, 1);
}

void measure_softmax(peer_bench& bench) {
  const llm_c::dev_kernels* const dev = llm_c::find_dev_kernels();
  if (dev == nullptr) return;
  const normal_floats inp(logits_count);
  const floats out(logits_count), ours(logits_count);
  llmc::softmax_forward(ours, inp, {rows, padded_vocabulary}, bench.stream);
  for (const auto& way : dev->softmax_ways) {
    bench.measure(
        {"softmax_forward", way.name}, {{out, ours, logits_count, typical_probability}},
        [&](cudaStream_t) { way.forward(out, inp, rows, padded_vocabulary, way.block_size); });
  }
}

/// From logits in two steps, of which the second is shown as a part.
void measure_crossentropy_forward(peer_bench& bench) {
  const llm_c::dev_kernels* const dev = llm_c::find_dev_kernels();
  if (dev == nullptr) return;
  constexpr int block_size = 128;
  const integers targets(random_targets());
  const normal_floats logits(logits_count);
  const floats probabilities(logits_count), losses(rows), ours(rows);
  llmc::crossentropy_forward(ours, nullptr, logits, targets, unpadded_shape, bench.stream);
  const auto second = [&](cudaStream_t) {
    dev->crossentropy_forward(losses, probabilities, targets, batch, sequence, padded_vocabulary,
                              block_size);
  };
  for (const auto& way : dev->softmax_ways) {
    bench.measure({"crossentropy_forward", std::string(way.name) + " + crossentropy_forward1"},
                  {{losses, ours, rows}}, [&](cudaStream_t s) {
                    way.forward(probabilities, logits, rows, padded_vocabulary, way.block_size);
                    second(s);
                  });
  }
  bench.measure({"crossentropy_forward", "crossentropy_forward1", {}, true}, {{losses, ours, rows}},
                second);
}

void measure_crossentropy_backward(peer_bench& bench) {
  const llm_c::dev_kernels* const dev = llm_c::find_dev_kernels();
  if (dev == nullptr) return;
  constexpr int block_size = 256;
  const integers targets(random_targets());
  const normal_floats logits(logits_count), dlosses(rows, 0.1, 1);
  const floats probabilities(logits_count), dlogits(logits_count), ours(logits_count);
  llmc::crossentropy_backward(ours, dlosses, logits, targets, unpadded_shape, bench.stream);
  const std::vector<peer_output> outputs{{dlogits, ours, logits_count, typical_probability}};
  const auto prepare = [&](cudaStream_t s) { clear(dlogits, s); };
  const auto second = [&](cudaStream_t) {
    dev->crossentropy_softmax_backward(dlogits, dlosses, probabilities, targets, batch, sequence,
                                       padded_vocabulary, block_size);
  };
  for (const auto& way : dev->softmax_ways) {
    bench.measure(
        {"crossentropy_backward", std::string(way.name) + " + crossentropy_softmax_backward1"},
        outputs,
        [&](cudaStream_t s) {
          way.forward(probabilities, logits, rows, padded_vocabulary, way.block_size);
          second(s);
        },
        prepare);
  }
  bench.measure({"crossentropy_backward", "crossentropy_softmax_backward1", {}, true}, outputs,
                second, prepare);
}

/// llm.c leaves the padding as it is, llmc makes its gradient 0: so it is 0 before.
void measure_classifier(peer_bench& bench) {
  constexpr float dloss = 1.0f / rows;
  constexpr llmc::classifier_shape shape{rows, vocabulary, padded_vocabulary};
  const integers targets(random_targets());
  const normal_floats before(logits_count);
  const std::size_t stride = padded_vocabulary * sizeof(float);
  const std::size_t padding = (padded_vocabulary - vocabulary) * sizeof(float);
  check_cuda(cudaMemset2DAsync(before.get() + vocabulary, stride, 0, padding, rows, bench.stream));
  const floats logits(logits_count), losses(rows), ours(logits_count), our_losses(rows);
  copy(ours, before, bench.stream);
  llmc::classifier_forward_backward(ours, our_losses, nullptr, targets, shape, dloss, bench.stream);
  bench.measure(
      {"classifier_forward_backward", "fused_classifier"},
      {{logits, ours, logits_count, dloss * typical_probability}, {losses, our_losses, rows}},
      [&](cudaStream_t s) {
        llm_c::fused_classifier(logits, losses, dloss, targets, rows, vocabulary, padded_vocabulary,
                                s);
      },
      [&](cudaStream_t s) {
        copy(logits, before, s);
        clear(losses, s);
      });
}

}  // namespace

std::vector<measurement> loss_measurements() {
  return {measure_softmax, measure_crossentropy_forward, measure_crossentropy_backward,
          measure_classifier};
}

}  // namespace llm_c_bench
