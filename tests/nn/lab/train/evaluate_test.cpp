// Tests of evaluation: accuracy by position or by whole answer, detection of leaks, and scores of
// tokens.
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/models.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;

// Task with random bits. In about half of the sequences the first two targets are an answer that
// counts in the accuracy. In the other sequences no target counts.
class Bits : public Task {
 public:
  explicit Bits(bool whole_answers) : Task(info_of(whole_answers)) {}
  Index evaluation_size() const override { return 100; }

 private:
  static TaskInfo info_of(bool whole_answers) {
    TaskInfo f;
    f.name = "bits", f.vocabulary = Vocabulary::of("01"), f.classes = 2, f.context = 4;
    f.whole_answers = whole_answers;
    return f;
  }
  Sequence draw(Generator& g) const override {
    Sequence s;
    s.inputs.resize(4), s.targets.resize(4);
    g.randint(s.inputs, 0, 2), g.randint(s.targets, 0, 2);
    const bool asks = s.inputs[0] == 0;
    s.counted = {asks, asks, false, false};
    return s;
  }
};

TEST_CASE("accuracy counts positions, or whole answers if the task has whole_answers") {
  const Transformer model = heed::nn::testing::random_model(
      {.vocab = 2, .layers = 1, .context = 4, .attention = {.d_model = 8, .heads = 2}});
  const Bits by_position(false), by_answer(true);
  const Batch all = by_answer.evaluation(0, 100);
  const auto guesses = argmax(model(all.inputs), -1).to_vector<std::int64_t>();
  const auto targets = all.targets.to_vector<std::int64_t>();
  const auto counted = all.counted.to_vector<bool>();
  int answers = 0, right_answers = 0, right_positions = 0;
  for (std::size_t b = 0; b < 400; b += 4) {
    if (!counted[b]) continue;
    const bool first = guesses[b] == targets[b], second = guesses[b + 1] == targets[b + 1];
    ++answers;
    right_answers += first && second;
    right_positions += first + second;
  }
  CHECK(answers > 30);
  CHECK(answers < 70);
  CHECK(right_answers > 0);
  CHECK(2 * right_answers < right_positions);
  CHECK(evaluate(model, by_answer).accuracy.value() == right_answers / double(answers));
  CHECK(evaluate(model, by_position).accuracy.value() == right_positions / double(2 * answers));
}

TEST_CASE("the loss of a text is the mean over its tokens, also in overlapping windows") {
  // é has 2 bytes, € has 3.
  std::string content;
  for (int i = 0; i < 400; ++i)
    content += std::vector<std::string>{"a", "b", "é", "€", "\n"}[std::size_t(i * i / 7 % 5)];
  const heed::testing::File file(content);
  const Vocabulary v = Vocabulary::of("€\nabé");
  const std::vector<Index> ids = v.encode(content);
  const Transformer model =
      heed::nn::testing::random_model({.vocab = v.size(),
                                       .layers = 1,
                                       .context = 8,
                                       .attention = {.d_model = 8, .heads = 2, .dtype = float64}});
  TextSize size;
  for (std::size_t i = 1; i < ids.size(); ++i) size.add(v, ids[i]);
  const double tokens = double(ids.size()) - 1, bytes = double(content.size()) - 1;
  CHECK(size.characters == Index(tokens));
  CHECK(size.bytes == Index(bytes));
  CHECK(bytes > 1.2 * tokens);
  const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-12 * std::abs(b); };
  for (const Index stride : {0, 1, 3, 8}) {
    const auto task = make_whole_text({.path = file.path(), .context = 8, .stride = stride}, v);
    const Evaluation e = evaluate(model, *task);
    const Batch all = task->evaluation(0, task->evaluation_size());
    const NoGrad guard;
    const double nats =
        cross_entropy(model(all.inputs), all.targets, {.reduction = Reduction::kSum}).item();
    CHECK(e.tokens == Index(tokens));
    CHECK(near(e.loss, nats / tokens));
    CHECK(near(e.text.perplexity.value(), std::exp(nats / tokens)));
    CHECK(near(e.text.bits_per_character.value(), nats / std::log(2) / tokens));
    CHECK(near(e.text.bits_per_byte.value(), nats / std::log(2) / bytes));
  }
  // While a text counts its bigrams, progress is (0, 0).
  std::vector<std::pair<Index, Index>> seen;
  const auto task = make_text({.path = file.path(), .context = 1, .bigrams = true});
  evaluate(model, *task, 1, [&](auto done, auto total) { seen.emplace_back(done, total); });
  REQUIRE(seen.size() >= 2);
  CHECK(seen.front() == std::pair<Index, Index>(0, 0));
  CHECK(seen.back() == std::pair<Index, Index>(0, 1));
  // A task that is not on a text has none of these values.
  const Evaluation other = evaluate(
      heed::nn::testing::random_model({.vocab = 2, .layers = 1, .context = 4}), Bits(false));
  CHECK(!other.text.perplexity);
}

TEST_CASE("the training sequences of an evaluation are fixed, and all if the task has fewer") {
  RunConfig c = preset("modadd");
  c.task_parameters = {{"modulus", "19"}, {"train-share", "0.5"}};
  c.model.attention.dropout = 0.5;
  const auto task = make_task(c);
  REQUIRE(task->training_size() == 180);  // several forward passes
  const Transformer model = make_model(c, *task);
  const Evaluation all = evaluate_training(model, *task, 512);
  CHECK((all.sequences == 180 && all.tokens == 180));
  Generator g(3);
  const NoGrad guard;
  const Batch batch = task->sample(180, g);  // the whole training set
  const Tensor loss = cross_entropy(model.forward(batch.inputs), batch.targets);
  CHECK(std::abs(all.loss - loss.item()) <= 1e-6 * all.loss);
  const Evaluation some = evaluate_training(model, *task, 10);
  CHECK((some.sequences == 10 && some.loss != all.loss));
  CHECK(evaluate_training(model, *task, 10).loss == some.loss);
}

TEST_CASE("the whole evaluation set has at most 1,000,000 positions") {
  class Many : public Task {
   public:
    explicit Many(Index size) : Task(info_of()), size_(size) {}
    Index evaluation_size() const override { return size_; }

   private:
    static TaskInfo info_of() {
      TaskInfo info;
      info.context = 64;
      return info;
    }
    Sequence draw(Generator&) const override { return {}; }
    Index size_;
  };
  CHECK(final_evaluation_size(Many(15'625)) == 15'625);
  CHECK(final_evaluation_size(Many(15'626)) == 15'625);
  CHECK(final_evaluation_size(Many(3)) == 3);
}

TEST_CASE("a loss far below the optimal loss is a leak") {
  Evaluation e;
  e.loss = 1.0, e.optimal = 1.1, e.standard_error = 0.01;
  CHECK(leaks(e));
  e.standard_error = 0.03;  // a difference of 3.3 standard errors may be chance
  CHECK(!leaks(e));
  e.loss = 1.2, e.standard_error = 0.01;
  CHECK(!leaks(e));
  // If a model reads all targets, optimal - loss can be the same on every sequence. The standard
  // error is then 0.
  e.loss = 0, e.standard_error = 0;
  CHECK(leaks(e));
  e.loss = 1.0, e.optimal.reset();
  CHECK(!leaks(e));
}

TEST_CASE("scores of tokens are those of the softmax of the logits") {
  const Transformer model =
      heed::nn::testing::random_model({.vocab = 8,
                                       .classes = 7,
                                       .context = 12,
                                       .attention = {.d_model = 16, .heads = 2, .dtype = float64}});
  Generator g(4);
  const Tensor ids = randint(0, 8, {1, 12}, g);
  ids.mutable_data<std::int64_t>()[5] = 7;  // is not predicted
  const auto scores = score(model, ids);
  const NoGrad guard;
  const auto p = softmax(model(ids), -1).to_vector<double>();
  const auto tokens = ids.to_vector<std::int64_t>();
  REQUIRE(scores.size() == 12);
  CHECK((!scores[0] && !scores[5]));
  for (std::size_t t = 1; t < 12; ++t) {
    if (tokens[t] == 7) continue;
    const double* row = &p[(t - 1) * 7];
    const double own = row[tokens[t]];
    CHECK(scores[t].value().log_probability == Approx(std::log(own)).epsilon(1e-12));
    CHECK(scores[t]->rank == 1 + std::count_if(row, row + 7, [&](double x) { return x > own; }));
  }
  init::zeros(model.head->weight);  // equal logits have one rank
  CHECK(score(model, ids)[3].value().rank == 1);
  model.head->weight.detach().mutable_data<double>()[0] = std::nan("");
  CHECK(
      message_of<NumericError>([&] { score(model, ids); }) ==
      "score: a logit [sequence, position, class] is nan at [0, 0, 0]; the weights are damaged, or "
      "their training diverged: use other weights");
}

}  // namespace
