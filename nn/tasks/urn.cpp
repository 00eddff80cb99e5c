// The task `urn`: Polya's urn. Each drawn ball is put back into the urn, together with another ball
// of its color. This gives the distribution of independent draws whose probabilities are uniform on
// the simplex (de Finetti), but drawing needs only integers. The optimal predictor gives each color
// its share of the balls in the urn.
#include <cmath>

#include "nn/tasks/parameters.h"
#include "nn/tasks/tasks.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Returns the mean over t < T of E[-ln q], where q is the probability of the next color after t
// draws. With k colors, the count n of one color in t draws has the distribution beta-binomial(t,
// 1, k - 1). This color has probability q = (n + 1) / (t + k), and it adds -q ln q to the
// expectation.
double expected_loss(const UrnOptions& o) {
  const auto k = double(o.colors);
  double total = 0;
  for (std::int64_t step = 0; step < o.context; ++step) {
    const auto t = double(step);
    double probability = (k - 1) / (t + k - 1);  // P(n = 0)
    for (std::int64_t count = 0; count <= step; ++count) {
      const auto n = double(count);
      const double q = (n + 1) / (t + k);
      total -= k * probability * q * std::log(q);
      if (count < step) probability *= (t - n) / (t - n + k - 2);
    }
  }
  return total / double(o.context);
}

TaskInfo make_info(const UrnOptions& o) {
  check_options("urn", o);
  return {.name = "urn",
          .description = "tokens of unknown frequencies: predict from the counts so far",
          .accuracy = "tokens right",
          .prompt = "the start of a sequence, such as aabac; the leading ^ is added",
          .vocabulary = Vocabulary::letters(o.colors, "^"),
          .classes = o.colors,
          .context = o.context,
          .bos = o.colors,
          .random_targets = true,
          .optimal = expected_loss(o),
          .optimum =
              "mean over t < T of E[-ln (n + 1) / (t + k)], n the next color's count after t "
              "draws: beta-binomial(t, 1, k - 1)",
          .source = "Polya's urn (Eggenberger and Polya 1923)"};
}

class Urn : public Task {
 public:
  explicit Urn(const UrnOptions& options) : Task(make_info(options)), options_(options) {}

 private:
  Sequence draw(Generator& g) const override {
    std::vector<std::int64_t> balls(std::size_t(options_.colors), 1);
    Sequence s;
    for (std::int64_t t = 0; t < options_.context; ++t) {
      const std::int64_t all = t + options_.colors;
      std::int64_t ball = draw_below(all, g);
      std::size_t color = 0;
      while (ball >= balls[color]) ball -= balls[color++];
      s.position_optimal.push_back(-std::log(double(balls[color]) / double(all)));
      ++balls[color];
      s.inputs.push_back(t == 0 ? *info().bos : s.targets.back());
      s.targets.push_back(std::int64_t(color));
      s.counted.push_back(true);
    }
    return s;
  }

  UrnOptions options_;
};

}  // namespace

std::unique_ptr<Task> make_urn(const UrnOptions& options) { return std::make_unique<Urn>(options); }

}  // namespace heed::nn
