// Tests that examples/micro.cpp computes what heed computes.
#define MICRO_TEST  // leaves out main()
#include "examples/micro.cpp"

#include <filesystem>
#include <regex>

#include "autograd/base/files.h"
#include "nn/lab.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;

// Returns the weights of the model in the order of micro::Transformer::parameters, each changed by
// `f` before it is split into heads.
template <class F>
std::vector<Tensor> in_order_of_micro(const Transformer& model, F f) {
  std::vector<Tensor> list = {f(model.tok.weight), f(model.pos->weight)};
  for (const Block& block : model.blocks)
    for (Index head = 0; head < block.attn.options.heads; ++head) {
      AttentionWeights w = block.attn.weights;
      w.visit([&](std::string_view, Tensor& x) {
        if (x.defined()) x = f(x);
      });
      const HeadWeights heads = by_head(w, block.attn.options);
      for (const Tensor& of_heads : {heads.W_Q, heads.W_K, heads.W_V, heads.W_O})
        list.push_back(select(of_heads, 0, head));
    }
  list.push_back(f(model.head->weight));
  return list;
}

// heed train induction --norm none --no-mlp --dtype float64, with the sizes of micro.cpp, a
// constant learning rate and no clipping.
RunConfig config_of_micro() {
  RunConfig config = preset("induction");
  config.batch = 4, config.warmup = 0, config.clip = 0;
  config.lr = 1e-2, config.beta2 = 0.99, config.weight_decay = 0.1;
  config.model.context = micro::kContext, config.model.layers = micro::kLayers;
  config.model.norm = NormPlacement::kNone, config.model.positions = Positions::kLearned;
  MultiHeadAttention::Options& attention = config.model.attention;
  attention.d_model = micro::kModel, attention.heads = micro::kHeads;
  attention.dtype = float64;
  return config;
}

std::vector<micro::Sequence> to_micro(const Batch& batch) {
  std::vector<micro::Sequence> sequences;
  for (Index b = 0; b < batch.inputs.size(0); ++b) {
    const auto row = [b](const Tensor& x) {
      const auto ids = contiguous(select(x, 0, b)).to_vector<std::int64_t>();
      return std::vector<std::size_t>(ids.begin(), ids.end());
    };
    sequences.push_back({0, row(batch.inputs), row(batch.targets)});
  }
  return sequences;
}

}  // namespace

TEST_CASE("the losses and gradients of micro.cpp are those of heed, for 20 steps of AdamW") {
  const RunConfig config = config_of_micro();
  Trainer trainer(config);
  Generator data;
  data.set_state(trainer.snapshot().data_stream);  // draws the batches of trainer.step()
  micro::Random random(1);
  const micro::Transformer model(random);
  const auto weights = in_order_of_micro(trainer.model, [](const Tensor& w) { return w.detach(); });
  REQUIRE(weights.size() == model.parameters.size());
  for (std::size_t k = 0; k < weights.size(); ++k) {
    micro::Matrix& value = model.parameters[k]->value;
    REQUIRE(weights[k].shape() == Shape{Index(value.rows), Index(value.cols)});
    value.data = contiguous(weights[k]).to_vector<double>();
  }
  micro::AdamW optimizer(model.parameters);
  optimizer.lr = config.lr, optimizer.weight_decay = config.weight_decay;
  optimizer.beta1 = config.beta1, optimizer.beta2 = config.beta2, optimizer.eps = config.eps;
  for (int updates = 0; updates <= 20; ++updates) {
    INFO("after " << updates << " updates");
    const auto batch = to_micro(trainer.task->sample(config.batch, data));
    micro::zero_grad(model.parameters);
    const double loss = micro::loss_and_gradients(model, batch);
    CHECK(std::abs(loss - trainer.step().loss) <= 1e-9);
    const auto gradients =
        in_order_of_micro(trainer.model, [](const Tensor& w) { return w.grad(); });
    for (std::size_t k = 0; k < gradients.size(); ++k) {
      INFO("parameter " << k);
      const Tensor own = from_data(model.parameters[k]->grad.data, gradients[k].shape());
      CHECK(max(abs(own - gradients[k])).item() <= 1e-9);
      CHECK(max(abs(own)).item() > 1e-6);
    }
    optimizer.step();
  }
}

TEST_CASE("the files of heed that micro.cpp names exist") {
  const std::string text = read_file(HEED_SOURCE_DIR "/examples/micro.cpp");
  const std::regex path("(autograd|nn)/[a-z_/]+\\.(cpp|h)");
  const std::sregex_iterator begin(text.begin(), text.end(), path), end;
  CHECK(std::distance(begin, end) >= 20);
  for (auto it = begin; it != end; ++it) {
    INFO(it->str());
    CHECK(std::filesystem::exists(std::string(HEED_SOURCE_DIR "/") + it->str()));
  }
}
