// Tests of training_loss(): the same loss and gradients as from the logits at all positions.
#include "nn/lab.h"
#include "nn/lab/train/shards.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"
#include "tests/support/models.h"
#include "tests/support/tiny_model.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::nn::testing;
namespace nn = heed::nn;
using heed::autograd::testing::same_bits;

// Returns targets [3, kContext] of which only the given columns are not ignored. In the first
// sequence, the first of them is ignored, too.
Tensor targets_at(const std::vector<Index>& columns) {
  const Tensor targets = full({3, kContext}, double(kIgnored), int64);
  auto* data = targets.mutable_data<std::int64_t>();
  for (Index b = 0; b < 3; ++b)
    for (const Index t : columns)
      if (b > 0 || t != columns[0]) data[b * kContext + t] = (b + t) % kVocab;
  return targets;
}

TEST_CASE("the training loss and its gradients are those of the logits at all positions") {
  using P = NormPlacement;
  for (const P norm : {P::kPre, P::kPost, P::kNone})
    for (const bool mlp : {true, false})
      for (const std::vector<Index>& columns :
           {std::vector<Index>{kContext - 1}, {1, 4, 5}, {0, kContext - 1}})
        for (const Reduction reduction : {Reduction::kMean, Reduction::kSum}) {
          CAPTURE(int(norm), mlp, columns, int(reduction));
          Transformer::Options o = nn::testing::tiny(float64);
          o.norm = norm, o.mlp = mlp;
          const Transformer model = random_model(o);
          std::vector<Tensor> wrt;
          for (const NamedTensor& p : parameters(model)) wrt.push_back(p.tensor);
          const Tensor ids = random_ids(3), targets = targets_at(columns);
          const Tensor some = training_loss(model, ids, targets, {}, reduction);
          const Tensor all = cross_entropy(model.forward(ids), targets, {.reduction = reduction});
          CHECK(std::abs(some.item() - all.item()) <= 1e-14 * all.item());
          const auto got = grad(some, wrt), expected = grad(all, wrt);
          double largest = 0;
          for (const Tensor& g : expected) largest = std::max(largest, max(abs(g)).item());
          for (std::size_t i = 0; i < wrt.size(); ++i)
            CHECK(max(abs(got[i] - expected[i])).item() <= 1e-13 * largest);
        }
}

TEST_CASE("with targets at all positions, or at none, the loss is that of all logits") {
  const Transformer model = random_model(nn::testing::tiny(float32));
  const Tensor ids = random_ids(3);
  CHECK(same_bits(training_loss(model, ids, ids, {}), cross_entropy(model.forward(ids), ids)));
  const Tensor none = full({3, kContext}, double(kIgnored), int64);
  CHECK(same_bits(training_loss(model, ids, none, {}), cross_entropy(model.forward(ids), none)));
}

TEST_CASE("the MLP of the last block runs only at the positions of the logits") {
  const Transformer model = random_model(nn::testing::tiny(float64));
  const Tensor ids = random_ids(3), at = from_data(std::vector<Index>{2, 5}, {2});
  const std::string mid = block_site(model.options.layers - 1, "hook_resid_mid");
  Probe before, records, replaces;
  before.record("blocks.0.hook_resid_post");
  records.record(mid);
  replaces.replace(mid, [](const Tensor& x) {
    CHECK(x.size(1) == kContext);
    return x;
  });
  const Tensor expected = model.forward(ids, {.probe = &before, .logits_at = at});
  CHECK(before.value("blocks.0.hook_resid_post").size(1) == kContext);
  for (Probe* probe : {&records, &replaces})
    CHECK(same_bits(model.forward(ids, {.probe = probe, .logits_at = at}), expected));
  CHECK(records.value(mid).size(1) == kContext);
  Generator g(1);
  const Block& block = model.blocks.back();
  const Tensor x = randn({3, kContext, model.options.attention.d_model}, float64, g);
  CHECK(block(x, {.logits_at = at}).shape() == Shape{3, 2, x.size(2)});
  CHECK(same_bits(block(x, {.logits_at = at}), index_select(block(x), 1, at)));
}

}  // namespace
