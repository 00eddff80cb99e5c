// Tests of the scores of tokens: values against a slow definition, and totals against evaluate().
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/models.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using heed::nn::testing::random_model;

Transformer model_of(const Vocabulary& v, DType dtype) {
  return random_model(
      {.vocab = v.size(), .context = 12, .attention = {.d_model = 16, .heads = 2, .dtype = dtype}});
}

Batch batch_of(const Tensor& inputs, const Tensor& targets) {
  Batch batch;
  batch.inputs = inputs, batch.targets = targets;
  return batch;
}

TEST_CASE("scores are those of the softmax of the logits") {
  const Vocabulary v = Vocabulary::of("abcdefg");
  const Transformer model = model_of(v, float64);
  Generator g(4);
  const Batch batch = batch_of(randint(0, 7, {3, 12}, g), randint(0, 7, {3, 12}, g));
  const BatchScores scores = score(model, batch);
  const NoGrad guard;
  const Tensor logits = model(batch.inputs);
  CHECK(allclose(scores.logits, logits, 0, 0));
  const auto p = softmax(logits, -1).to_vector<double>();
  const auto targets = batch.targets.to_vector<std::int64_t>();
  REQUIRE(scores.targets.size() == targets.size());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const TokenScore s = scores.targets[i].value();
    const auto p_of = [&](std::int64_t id) { return p[i * 7 + std::size_t(id)]; };
    double entropy = 0;
    std::int64_t rank = 1, best = -1;
    for (std::int64_t id = 0; id < 7; ++id) {
      entropy -= p_of(id) * std::log(p_of(id));
      rank += p_of(id) > p_of(targets[i]);
      if (id != targets[i] && (best < 0 || p_of(id) > p_of(best))) best = id;
    }
    CHECK(s.id == targets[i]);
    CHECK(s.log_probability == Approx(std::log(p_of(s.id))).epsilon(1e-12));
    CHECK(s.rank == rank);
    CHECK(s.entropy == Approx(entropy).epsilon(1e-12));
    CHECK(s.alternative == best);
    CHECK(s.alternative_log_probability == Approx(std::log(p_of(best))).epsilon(1e-12));
  }
}

TEST_CASE("ignored targets have no score, and equal logits have one rank") {
  const Vocabulary v = Vocabulary::of("abc");
  const Transformer model = model_of(v, float32);
  init::zeros(model.head->weight);
  const BatchScores scores =
      score(model, batch_of(from_data(std::vector<std::int64_t>{0, 1, 2}, {1, 3}),
                            from_data(std::vector<std::int64_t>{kIgnored, 2, 0}, {1, 3})));
  CHECK(!scores.targets[0]);
  CHECK(scores.targets[1]->rank == 1);
  CHECK(scores.targets[1]->alternative == 0);
  CHECK(scores.targets[2]->alternative == 1);
  CHECK(scores.targets[2]->entropy == Approx(std::log(3.0)).epsilon(1e-12));
}

TEST_CASE("a logit that is not finite has no score") {
  const Transformer model = model_of(Vocabulary::of("abc"), float64);
  const Batch batch = make_batch({{{0, 1, 2}, {1, 2, 0}, {true, true, true}}});
  Tensor weight = parameters(model).back().tensor.detach();
  weight.mutable_data<double>()[0] = std::nan("");
  CHECK(
      message_of<NumericError>([&] { score(model, batch); }) ==
      "score: a logit [sequence, position, class] is nan at [0, 0, 0]; the weights are damaged, or "
      "their training diverged: use other weights");
}

TEST_CASE("the scores of a text add up to the loss of evaluate()") {
  std::string content;
  for (int i = 0; i < 700; ++i) content += char('a' + i * i / 5 % 11);
  const heed::testing::File file(content);
  const Vocabulary v = Vocabulary::of("kjihgfedcba");
  for (const DType dtype : {float32, float64})
    for (const std::int64_t stride : {0, 1, 5, 12}) {
      const Transformer model = model_of(v, dtype);
      const auto task = make_whole_text({.path = file.path(), .context = 12, .stride = stride}, v);
      const Evaluation e = evaluate(model, *task, task->evaluation_size());
      double total = 0;
      std::int64_t tokens = 0;
      for (std::int64_t n = 0; n < task->evaluation_size(); ++n)
        for (const auto& s : score(model, task->evaluation(n, 1)).targets)
          if (s) total += s->log_probability, ++tokens;
      CHECK(tokens == e.tokens);
      CHECK(tokens == 699);
      CHECK(std::abs(total + e.loss * double(tokens)) <= 1e-12 * std::abs(total));
    }
}

}  // namespace
