// Tests of evaluation: accuracy by position or by whole answer, and detection of leaks.
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/models.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;

// Task with random bits. In about half of the sequences the first two targets are an answer that
// counts in the accuracy. In the other sequences no target counts.
class Bits : public Task {
 public:
  explicit Bits(bool whole_answers) : Task(info_of(whole_answers)) {}
  std::int64_t evaluation_size() const override { return 100; }

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

TEST_CASE("the whole evaluation set has at most 1,000,000 positions") {
  class Many : public Task {
   public:
    explicit Many(std::int64_t size) : Task(info_of()), size_(size) {}
    std::int64_t evaluation_size() const override { return size_; }

   private:
    static TaskInfo info_of() {
      TaskInfo info;
      info.context = 64;
      return info;
    }
    Sequence draw(Generator&) const override { return {}; }
    std::int64_t size_;
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

}  // namespace
