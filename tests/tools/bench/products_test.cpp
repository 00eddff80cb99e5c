// Tests of the matrix products that `heed-bench` times: those that measure the peak speed, from
// which it computes the MFU (model FLOPs utilization), and the products of a model, which are a
// lower bound of the time of a step or a token.
#include "tools/bench/products.h"

#include <algorithm>

#include "autograd/base/parallel.h"
#include "tests/support/catch.h"
#include "tools/bench/workloads.h"

using namespace heed;

namespace {

double flop_of(const std::vector<ModelProduct>& list, bool attention) {
  double flop = 0;
  for (const ModelProduct& p : list)
    if (p.attention == attention) flop += double(p.count) * p.shape.flop();
  return flop;
}

// Returns how many products of this shape the list counts.
Index count_of(const std::vector<ModelProduct>& list, const ProductShape& shape) {
  Index count = 0;
  for (const ModelProduct& p : list)
    if (p.shape == shape) count += p.count;
  return count;
}

TEST_CASE("the products of a step have the FLOP that flops_per_token() counts") {
  for (const std::string& preset : bench_presets()) {
    CAPTURE(preset);
    const lab::RunConfig config = lab::preset(preset);
    const Index vocabulary = bench_vocabulary(preset);
    const auto step = training_products(config, vocabulary, config.batch),
               shard = training_products(config, vocabulary, config.batch / 2),
               token = forward_products(config, vocabulary, 1, 1);
    autograd::Generator g(1);
    const nn::Transformer model = lab::make_model(config, vocabulary, vocabulary, g);
    const double tokens = double(config.batch * config.model.context);
    // flops_per_token() counts the masked scores of attention, too.
    const double flop = flop_of(step, false) + 2 * flop_of(step, true);
    CHECK(flop == lab::flops_per_token(model) * tokens);
    for (const bool attention : {false, true}) {
      CHECK(2 * flop_of(shard, attention) == flop_of(step, attention));
      // The backward pass has twice the FLOP of the forward pass.
      CHECK(3 * tokens * flop_of(token, attention) == flop_of(step, attention));
    }
  }
}

TEST_CASE("the products of a step have the shapes and forms of linear layers and attention") {
  // The preset micro has 16 sequences of 16 tokens, one layer with d_model 32, and 2 heads of
  // width 16.
  const auto step = training_products(lab::preset("micro"), 32, 16);
  CHECK(count_of(step, {256, 96, 32, false, true}) == 1);   // qkv = x W^T
  CHECK(count_of(step, {256, 32, 96, false, false}) == 1);  // dx = dqkv W
  CHECK(count_of(step, {96, 32, 256, true, false}) == 1);   // dW = dqkv^T x
  // toy has 32 sequences of 64 tokens, 2 layers, 4 heads of width 16. Causality halves the counts.
  const auto toy = training_products(lab::preset("toy"), 64, 32);
  const Index both = 2 * 32 * 2 * 4 / 2;                     // of two kinds
  CHECK(count_of(toy, {64, 64, 16, false, true}) == both);   // S = q k^T and dP = dO v^T
  CHECK(count_of(toy, {64, 16, 64, false, false}) == both);  // O = P v and dq = dS k
  CHECK(count_of(toy, {64, 16, 64, true, false}) == both);   // dv = P^T dO and dk = dS^T q
}

TEST_CASE("threads compute the products of shards side by side") {
  const int before = autograd::num_threads();
  autograd::set_num_threads(2);
  const lab::RunConfig config = lab::preset("micro");
  const auto jobs = [&](Index shards) {
    const auto run = products_alone(training_products(config, 32, config.batch / shards), shards);
    const std::uint64_t first = autograd::pool_jobs();
    run();
    return autograd::pool_jobs() - first;
  };
  CHECK(jobs(2) == 1);
  CHECK(jobs(4) == 1);
  CHECK(jobs(1) > 6);  // one for each of the six kinds of attention's products, others for layers
  autograd::set_num_threads(before);
}

TEST_CASE("the traffic of a step counts weights, gradients, moments and activations") {
  const lab::RunConfig config = lab::preset("micro");
  autograd::Generator g(1);
  const nn::Transformer model = lab::make_model(config, 32, 32, g);
  const Index parameters = 13792 + 32 * 32 + 16 * 32;  // with both embeddings
  CHECK(nn::count_parameters(model) == parameters);
  CHECK(TrainingStep(config, 32).traffic_bytes() ==
        44.0 * parameters + 2 * 16 * lab::activation_bytes(model));
}

TEST_CASE("every library that measures the peak multiplies") {
  const ProductShape shape{64, 64, 64};
  const std::vector<float> a(64 * 64, 1 + 1.0f / 512), b(64 * 64, 0.5f);
  std::vector<float> c(64 * 64);
  for (const ProductLibrary& library : load_peak_libraries()) {
    c.back() = 0;
    library.multiply(shape, a.data(), b.data(), c.data());
    CHECK(c.back() == Approx(32 * (1 + 1.0 / 512)).epsilon(1e-6));
  }
}

}  // namespace
