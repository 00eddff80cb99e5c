// heed_parity: the program that tools/peers/parity.py compares with PyTorch. Reads a model from a
// safetensors file, trains it and writes it back.
//   heed_parity FOLDER
//   reads   state.safetensors (a state_dict) and inputs.safetensors (the inputs of each AdamW step,
//           and metadata that describes the model)
//   writes  loaded.safetensors and trained.safetensors (the state_dict before and after the steps)
//           and results.safetensors (outputs, losses and gradients that parity.py compares)
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "autograd/engine/engine.h"
#include "nn/io/safetensors.h"
#include "nn/layers/transformer.h"
#include "nn/optim/optimizer.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;

// Hyperparameters. They must be equal to the values in presets.py.
constexpr double kLearningRate = 1e-3, kWeightDecay = 0.1, kMaxNorm = 1;
constexpr AdamWOptions kAdamW{.beta1 = 0.9, .beta2 = 0.95};

// Contents of inputs.safetensors: the description of the model and the inputs of each step.
struct Case {
  SafeTensors file;

  Index number(const std::string& option) const { return std::stoll(file.metadata.at(option)); }
  bool flag(const std::string& option) const { return file.metadata.at(option) == "True"; }
  Index steps() const { return file.find("target").size(0); }
  DType dtype() const { return file.metadata.at("dtype") == "float64" ? float64 : float32; }
  // Returns the input `name` of one step, or an undefined tensor if the file does not contain it.
  Tensor at(const std::string& name, Index step) const {
    const Tensor all = file.find(name);
    return all.defined() ? contiguous(select(all, 0, step)) : all;
  }
};

struct Forward {
  Tensor loss;
  std::vector<NamedTensor> values;  // parity.py compares these tensors
  std::vector<NamedTensor> inputs;  // parity.py compares the gradients of these inputs, too
};

struct Attention {
  MultiHeadAttention model;

  explicit Attention(const Case& in)
      : model({.d_model = in.file.find("query").size(-1),
               .heads = in.number("heads"),
               .bias = in.flag("bias"),
               .causal = in.flag("causal"),
               .dtype = in.dtype()}) {}

  // The loss is the mean squared difference from a target. Without a memory, the layer
  // computes self-attention.
  Forward run(const Case& in, Index step) const {
    const Tensor query = in.at("query", step).requires_grad_();
    std::vector<NamedTensor> leaves{{"query", query}};
    Tensor memory = in.at("memory", step);
    if (memory.defined())
      leaves.push_back({"memory", memory.requires_grad_()});
    else
      memory = query;
    KeepMask keep;
    if (const Tensor lengths = in.at("lengths", step); lengths.defined())
      keep = KeepMask::padding(lengths.to_vector<std::int64_t>(), memory.size(1));
    Probe probe;
    probe.record("hook_pattern");
    const Tensor output = model.forward(query, memory, memory, {.probe = &probe, .keep = keep});
    const Tensor difference = output - in.at("target", step);
    return {mean(difference * difference),
            {{"output", output.detach()}, {"pattern", probe.value("hook_pattern")}},
            leaves};
  }
};

struct GPT {
  Transformer model;

  explicit GPT(const Case& in)
      : model({.vocab = in.number("vocab"),
               .layers = in.number("layers"),
               .context = in.file.find("ids").size(-1),
               .attention = {.d_model = in.number("d_model"),
                             .heads = in.number("heads"),
                             .dtype = in.dtype()}}) {}

  Forward run(const Case& in, Index step) const {
    const Tensor logits = model.forward(in.at("ids", step));
    return {cross_entropy(logits, in.at("target", step)), {{"output", logits.detach()}}, {}};
  }
};

template <class Subject>
void run(const std::string& folder, const Case& in) {
  const Subject subject(in);
  const std::vector<NamedTensor> all = parameters(subject.model);
  load_parameters(all, load_safetensors(folder + "/state.safetensors"));
  save_safetensors(folder + "/loaded.safetensors", all);

  AdamW optimizer({{all, kWeightDecay}}, kAdamW);
  std::vector<NamedTensor> results;
  std::vector<double> losses, norms;
  for (Index step = 0; step < in.steps(); ++step) {
    const Forward now = subject.run(in, step);
    optimizer.zero_grad();
    backward(now.loss);
    if (step == 0) {
      results = now.values;
      for (const auto* list : {&all, &now.inputs})
        for (const auto& [name, x] : *list) results.push_back({"grad." + name, x.grad()});
    }
    losses.push_back(now.loss.item());
    norms.push_back(optimizer.step({.lr = kLearningRate, .clip_norm = kMaxNorm}));
  }
  save_safetensors(folder + "/trained.safetensors", all);
  for (const auto& [name, x] : subject.run(in, 0).values) results.push_back({"trained." + name, x});
  results.push_back({"losses", from_data(losses, {in.steps()})});
  results.push_back({"norms", from_data(norms, {in.steps()})});
  save_safetensors(folder + "/results.safetensors", results);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "heed_parity: needs a folder; run tools/peers/parity.py\n");
    return 2;
  }
  try {
    const std::string folder = argv[1];
    const Case in{load_safetensors(folder + "/inputs.safetensors")};
    if (in.file.find("ids").defined())
      run<GPT>(folder, in);
    else
      run<Attention>(folder, in);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "heed_parity: %s\n", e.what());
    return 1;
  }
}
