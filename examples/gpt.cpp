// A GPT in 100 lines. It memorizes a nursery rhyme and continues a prompt.
#include <cstdio>

#include "autograd/engine/engine.h"
#include "nn/lab/tasks/vocabulary.h"
#include "nn/lab/train/generate.h"
#include "nn/layers/layers.h"
#include "nn/optim/optimizer.h"
#include "nn/optim/schedule.h"

using namespace heed::autograd;
using namespace heed::lab;

namespace {

constexpr Index kBatch = 16, kContext = 96, kWidth = 64, kHeads = 4, kLayers = 2;
const Vocabulary kLetters = Vocabulary::of("\n .JTabcdeghiklmnorstuvwy");

// Each verse contains the previous verse. Only earlier text determines the word after "that ".
std::string rhyme() {
  std::string text, verse;
  for (const char* start : {"house that Jack built.\n", "malt that lay in the ",
                            "rat that ate the ", "cat that killed the ", "dog that worried the "})
    text += "This is the " + (verse = start + verse);
  return text;
}

// Causal attention, then an MLP. The output of each is added to the residual stream [B, T, width].
struct Block : Module {
  LayerNorm ln1{{.normalized_shape = kWidth}}, ln2{{.normalized_shape = kWidth}};
  Linear qkv{{.in = kWidth, .out = 3 * kWidth}}, proj{{.in = kWidth, .out = kWidth}};
  Linear up{{.in = kWidth, .out = 4 * kWidth}}, down{{.in = 4 * kWidth, .out = kWidth}};

  Tensor operator()(Tensor x) const {
    const auto heads = [](const Tensor& part) {  // -> [B, heads, T, width / heads]
      return transpose(reshape(part, {part.size(0), -1, kHeads, kWidth / kHeads}), 1, 2);
    };
    const std::vector<Tensor> parts = chunk(qkv(ln1(x)), 3, -1);
    const Tensor q = rope(heads(parts[0])), k = rope(heads(parts[1])), v = heads(parts[2]);
    const Tensor z = transpose(attention(q, k, v, {.causal = true}), 1, 2);
    x = x + proj(reshape(z, x.shape()));
    return x + down(gelu(up(ln2(x))));
  }
  template <class F>
  void visit(F&& f) {
    f("ln1", ln1), f("ln2", ln2), f("qkv", qkv), f("proj", proj), f("up", up), f("down", down);
  }
};

struct GPT : Module {
  Embedding tok{{.count = kLetters.size(), .dim = kWidth}};
  Block blocks[kLayers];
  LayerNorm ln{{.normalized_shape = kWidth}};
  Linear head{{.in = kWidth, .out = kLetters.size(), .bias = false}};
  Tensor operator()(const Tensor& ids) const {  // [B, T] -> logits of the next token [B, T, vocab]
    Tensor x = tok(ids);
    for (const Block& block : blocks) x = block(x);
    return head(ln(x));
  }
  template <class F>
  void visit(F&& f) {
    f("tok", tok), f("ln", ln), f("head", head);
    for (Index i = 0; i < kLayers; ++i) f("blocks." + std::to_string(i), blocks[i]);
  }
};

}  // namespace

int main() {
  manual_seed(1);
  const std::vector<Index> text = kLetters.encode(rhyme());
  std::vector<Tensor> windows;  // each has kContext + 1 tokens: the inputs and one more
  for (auto at = text.begin(); at + kContext < text.end(); ++at)
    windows.push_back(from_data(std::span(at, kContext + 1), {kContext + 1}));
  const Tensor all = stack(windows, 0);
  const GPT model;
  AdamW optimizer(decay_groups(parameters(model), 0.1));
  const Schedule schedule{Decay::kCosine, 3e-3, 3e-4, 20, 120};
  double first = 0, last = 0;
  for (Index step = 0; step < schedule.total_steps; ++step) {
    const Tensor batch = index_select(all, 0, randint(0, all.size(0), {kBatch}));
    const Tensor targets = slice(batch, 1, 1, kContext + 1);
    const Tensor loss = cross_entropy(model(slice(batch, 1, 0, kContext)), targets);
    optimizer.zero_grad();
    backward(loss);
    optimizer.step({.lr = schedule.lr_at(step), .clip_norm = 1.0});
    (step == 0 ? first : last) = loss.item();
  }
  std::printf("%ld parameters, loss %.3f -> %.3f\n", long(count_parameters(model)), first, last);
  const NoGrad guard;
  std::string story = "This is the cat that";
  while (story.back() != '\n' && std::ssize(story) < kContext) {
    const auto seen = kLetters.encode(story);
    const Tensor logits = select(model(from_data(seen, {1, std::ssize(seen)})), 1, -1);
    const auto id = sample_token(logits, {.temperature = 0.5}, default_generator());
    story += kLetters.decode({&id, 1});
  }
  std::printf("%sNotice: five words can follow 'that'. Earlier text decides.\n", story.c_str());
  return last < 0.2 && rhyme().find(story) != std::string::npos ? 0 : 1;
}
