#include "registry/registry.hpp"

#include <algorithm>
#include <stdexcept>

#include "registry/layers/layers.hpp"

namespace llmc_registry {

void run(const entry& e, problem& p, cudaStream_t stream) {
  if (e.arithmetic) p.use(*e.arithmetic);
  e.launch(p, stream);
}

std::string to_string(const entry& e) {
  const std::string name = e.variant + "<" + std::to_string(e.block_size) + ">";
  return e.arithmetic ? name + " " + to_string(*e.arithmetic) : name;
}

extents default_shape(const operation& o) {
  extents shape;
  for (const parameter& p : o.parameters) shape[p.name] = p.value;
  return shape;
}

extents checked_shape(const operation& o, const extents& shape) {
  extents smaller = shape;
  for (const parameter& p : o.parameters) {
    smaller[p.name] = std::min(smaller[p.name], p.most_checked);
  }
  return smaller;
}

const std::vector<operation>& operations() {
  static const std::vector<operation> all = [] {
    std::vector<operation> operations;
    for (const auto layer : {encoder, layernorm, residual_layernorm, residual, matmul, permute,
                             causal_product, causal_softmax, attention, gelu, softmax, split,
                             crossentropy, classifier, loss_sum, global_norm, adamw}) {
      for (operation& o : layer()) operations.push_back(std::move(o));
    }
    return operations;
  }();
  return all;
}

const operation& operation_named(std::string_view name) {
  for (const operation& o : operations()) {
    if (o.name == name) return o;
  }
  throw std::invalid_argument("there is no operation " + std::string(name) +
                              "; `kernel_bench list` names all");
}

std::string listing() {
  std::string text;
  for (const operation& o : operations()) {
    text += o.name + ", " + std::to_string(o.entries.size()) + " entries\n ";
    for (const parameter& p : o.parameters) {
      text += " --" + p.name + " " + std::to_string(p.value);
    }
    text += "\n ";
    std::string before;
    for (const entry& e : o.entries) {
      if (e.variant != before) text += " " + e.variant;
      before = e.variant;
    }
    text += "\n";
  }
  return text;
}

}  // namespace llmc_registry
