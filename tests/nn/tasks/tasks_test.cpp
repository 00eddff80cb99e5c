// Built-in tasks: their sequences, and every optimal loss against a slow independent way.
#include "nn/tasks/tasks.h"

#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "autograd/base/error.h"
#include "nn/tasks/task.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using heed::autograd::ValueError;
using Ids = std::vector<std::int64_t>;

struct Row {
  Ids inputs, targets;
  std::vector<bool> counted;
};

std::vector<Row> rows_of(const Batch& batch) {
  const std::int64_t T = batch.inputs.size(1);
  const auto cut = [&](const auto& all, std::int64_t i) {
    return std::vector(all.begin() + i * T, all.begin() + (i + 1) * T);
  };
  const auto x = batch.inputs.to_vector<std::int64_t>();
  const auto y = batch.targets.to_vector<std::int64_t>();
  const auto counted = batch.counted.to_vector<bool>();
  std::vector<Row> rows;
  for (std::int64_t i = 0; i < batch.inputs.size(0); ++i)
    rows.push_back({cut(x, i), cut(y, i), cut(counted, i)});
  return rows;
}

std::string text_of(const Task& task, const Ids& ids) {
  return task.facts().vocabulary.decode(ids);
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const ValueError& e) {
    return e.what();
  }
  return "no ValueError";
}

// Probability of each prefix of each sequence; the Bayes-optimal predictor is a ratio of two.
using Prefixes = std::map<Ids, double>;
double bayes_nats(const Prefixes& mass, const Ids& sequence) {
  double nats = 0;
  Ids prefix;
  for (const std::int64_t token : sequence) {
    const double before = mass.at(prefix);
    prefix.push_back(token);
    nats -= std::log(mass.at(prefix) / before);
  }
  return nats;
}
void add_sequence(Prefixes& mass, const Ids& sequence, double probability) {
  for (std::size_t n = 0; n <= sequence.size(); ++n)
    mass[Ids(sequence.begin(), sequence.begin() + std::ptrdiff_t(n))] += probability;
}

double chi_square(const std::map<std::string, int>& seen, std::size_t cells, int draws) {
  const double expected = double(draws) / double(cells);
  double sum = double(cells - seen.size()) * expected;
  for (const auto& [cell, n] : seen) sum += (n - expected) * (n - expected) / expected;
  return sum;
}
// Exceeded with probability about 1e-4 (Wilson and Hilferty 1931).
double chi_square_limit(std::size_t cells) {
  const double d = double(cells - 1), c = 2 / (9 * d);
  return d * std::pow(1 - c + 3.72 * std::sqrt(c), 3);
}

double mean(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / double(x.size());
}
double standard_error(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += (v - mean(x)) * (v - mean(x));
  return std::sqrt(sum / double(x.size() - 1) / double(x.size()));
}

std::size_t period_of(const Ids& y) {
  std::size_t p = 1;
  while (y[p] != y[0]) ++p;
  return p;
}

}  // namespace

TEST_CASE("every task: shapes, ranges, and a fixed evaluation set", "[tasks]") {
  for (const std::string& name : task_names()) {
    INFO(name);
    const auto task = make_task(name);
    const TaskFacts& f = task->facts();
    REQUIRE(f.name == name);
    Generator g(1);
    const Batch batch = task->sample(7, g);
    REQUIRE(batch.inputs.shape() == heed::autograd::Shape{7, f.context});
    REQUIRE(batch.targets.shape() == batch.inputs.shape());
    REQUIRE(batch.counted.shape() == batch.inputs.shape());
    REQUIRE(batch.optimal.size() == 7);
    for (const auto& [line, expected] : f.references) {
      REQUIRE(expected > f.optimal);
      REQUIRE(batch.references.at(line).size() == 7);
    }
    for (const Row& row : rows_of(batch)) {
      bool any = false;
      for (std::size_t t = 0; t < row.inputs.size(); ++t) {
        REQUIRE((row.inputs[t] >= 0 && row.inputs[t] < f.vocabulary.size()));
        const std::int64_t y = row.targets[t];
        REQUIRE((y == kIgnored || (y >= 0 && y < f.classes)));
        REQUIRE((!row.counted[t] || y != kIgnored));
        any = any || row.counted[t];
        // The next input is this target.
        if (t + 1 < row.inputs.size() && y != kIgnored) REQUIRE(row.inputs[t + 1] == y);
      }
      REQUIRE(any);
      if (f.bos) REQUIRE(row.inputs[0] == *f.bos);
    }

    const auto all = rows_of(task->evaluation(0, 20)), tail = rows_of(task->evaluation(13, 7));
    for (std::size_t i = 0; i < tail.size(); ++i) {
      REQUIRE(tail[i].inputs == all[13 + i].inputs);
      REQUIRE(tail[i].targets == all[13 + i].targets);
    }
    Generator a(5), b(5), c(6);
    const auto first = task->sample(3, a).inputs.to_vector<std::int64_t>();
    REQUIRE(first == task->sample(3, b).inputs.to_vector<std::int64_t>());
    REQUIRE(first != task->sample(3, c).inputs.to_vector<std::int64_t>());
    REQUIRE(first != task->sample(3, a).inputs.to_vector<std::int64_t>());

    REQUIRE_THROWS_AS(task->sample(0, g), ValueError);
    REQUIRE_THROWS_AS(task->evaluation(-1, 1), ValueError);
    REQUIRE_THROWS_AS(task->evaluation(0, 0), ValueError);
    REQUIRE_THROWS_AS(task->evaluation(task->evaluation_size(), 1), ValueError);
  }
}

TEST_CASE("induction: blocks of distinct tokens, periods uniform", "[tasks][induction]") {
  const auto task = make_task("induction");
  Generator g(11);
  const int draws = 13000;
  std::map<std::string, int> periods, firsts;
  for (const Row& row : rows_of(task->sample(draws, g))) {
    const std::size_t p = period_of(row.targets);
    REQUIRE((p >= 12 && p <= 24));
    REQUIRE(std::set(row.targets.begin(), row.targets.begin() + std::ptrdiff_t(p)).size() == p);
    for (std::size_t t = 0; t < 48; ++t) {
      REQUIRE(row.targets[t] == row.targets[t % p]);
      REQUIRE(row.counted[t] == (t > p));
    }
    ++periods[std::to_string(p)];
    ++firsts[std::to_string(row.targets[0])];
  }
  REQUIRE(chi_square(periods, 13, draws) < chi_square_limit(13));
  REQUIRE(chi_square(firsts, 32, draws) < chi_square_limit(32));
  for (const Row& row : rows_of(task->example(g))) REQUIRE(period_of(row.targets) == 16);
}

TEST_CASE("induction: the optimum is Bayes over all sequences", "[tasks][induction]") {
  const InductionOptions o{.vocabulary = 4, .min_period = 2, .max_period = 3, .context = 5};
  Prefixes mass;
  for (std::size_t p = 2; p <= 3; ++p) {
    std::vector<Ids> blocks;
    for (std::int64_t a = 0; a < 4; ++a)
      for (std::int64_t b = 0; b < 4; ++b)
        for (std::int64_t c = 0; c < 4; ++c)
          if (a != b && a != c && b != c && (p == 3 || c == (a + 1) % 4 || b == (a + 1) % 4))
            blocks.push_back(p == 3 ? Ids{a, b, c} : Ids{a, b});
    std::set<Ids> distinct(blocks.begin(), blocks.end());
    REQUIRE(distinct.size() == (p == 3 ? 24 : 12));
    for (const Ids& block : distinct) {
      Ids y;
      for (std::size_t t = 0; t < 5; ++t) y.push_back(block[t % p]);
      add_sequence(mass, y, 0.5 / double(distinct.size()));
    }
  }
  const auto task = make_induction(o);
  double expected = 0, total = 0;
  for (const auto& [y, probability] : mass)
    if (y.size() == 5) {
      expected += probability * bayes_nats(mass, y) / 5;
      total += probability;
    }
  REQUIRE(total == Approx(1));
  REQUIRE(task->facts().optimal == Approx(expected).epsilon(1e-12));

  Generator g(3);
  const Batch batch = task->sample(200, g);
  const auto rows = rows_of(batch);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Ids& y = rows[i].targets;
    REQUIRE(batch.optimal[i] == Approx(bayes_nats(mass, y) / 5).epsilon(1e-12));
    const double copy_only = double(period_of(y) + 1) * std::log(4.0) / 5;
    REQUIRE(batch.references.at("copy-only")[i] == Approx(copy_only).epsilon(1e-12));
    for (std::size_t t = 0; t < 5; ++t)  // what the accuracy counts is certain
      if (rows[i].counted[t])
        REQUIRE(mass.at(Ids(y.begin(), y.begin() + std::ptrdiff_t(t) + 1)) ==
                Approx(mass.at(Ids(y.begin(), y.begin() + std::ptrdiff_t(t)))));
  }
}

TEST_CASE("induction: expectations", "[tasks][induction]") {
  const auto task = make_task("induction");
  REQUIRE(task->facts().optimal == Approx(1.217479).margin(5e-7));
  REQUIRE(task->facts().references.at("copy-only") == Approx(1.371854).margin(5e-7));
  Generator g(4);
  const Batch batch = task->sample(4000, g);
  REQUIRE(std::abs(mean(batch.optimal) - task->facts().optimal) <
          4 * standard_error(batch.optimal));
  const auto& copy_only = batch.references.at("copy-only");
  REQUIRE(std::abs(mean(copy_only) - 1.371854) < 4 * standard_error(copy_only));

  REQUIRE(make_task("induction", 26)->facts().context == 26);
  REQUIRE(error_of([] { make_task("induction", 25); }) ==
          "induction: context 25 is too short for blocks of up to 24 tokens to repeat: needs 26 or "
          "more");
  REQUIRE_THROWS_AS(make_induction({.vocabulary = 20}), ValueError);
  REQUIRE_THROWS_AS(make_induction({.vocabulary = 53}), ValueError);
  REQUIRE_THROWS_AS(make_induction({.min_period = 5, .max_period = 4}), ValueError);
  REQUIRE_THROWS_AS(make_induction({.min_period = 0}), ValueError);
}

TEST_CASE("urn: sequences as from probabilities uniform on the simplex", "[tasks][urn]") {
  // Counts after T draws are uniform over all ways to write T as a sum of k counts.
  const auto task = make_urn({.colors = 3, .context = 5});
  Generator g(21);
  const int draws = 8400;
  std::map<std::string, int> seen, ordered;
  for (const Row& row : rows_of(task->sample(draws, g))) {
    Ids counts(3);
    for (const auto y : row.targets) ++counts[std::size_t(y)];
    ++seen[std::to_string(counts[0]) + "," + std::to_string(counts[1])];
    // Exchangeable: with one b among a's, every place is as likely.
    if (counts[0] == 4 && counts[1] == 1) ++ordered[text_of(*task, row.targets)];
  }
  REQUIRE(seen.size() == 21);
  REQUIRE(chi_square(seen, 21, draws) < chi_square_limit(21));
  REQUIRE(chi_square(ordered, 5, seen.at("4,1")) < chi_square_limit(5));
}

TEST_CASE("urn: the optimum is Bayes by integration over the simplex", "[tasks][urn]") {
  // Probability of each sequence of 4: the mean of p0^n0 p1^n1 p2^n2 over the simplex, by Simpson's
  // rule after p1 = (1 - p0) u; polynomials of low degree, so 64 steps are exact to 1e-7.
  constexpr int kSteps = 64;
  const auto simpson = [](const std::function<double(double)>& f) {
    double sum = 0;
    for (int i = 0; i <= kSteps; ++i)
      sum += (i == 0 || i == kSteps ? 1 : i % 2 ? 4 : 2) * f(double(i) / kSteps);
    return sum / (3 * kSteps);
  };
  Prefixes mass;
  for (int code = 0; code < 81; ++code) {
    const Ids y{code % 3, code / 3 % 3, code / 9 % 3, code / 27};
    add_sequence(mass, y, simpson([&](double p0) {
                   return simpson([&](double u) {
                     const double p[] = {p0, (1 - p0) * u, (1 - p0) * (1 - u)};
                     double product = 2 * (1 - p0);  // density 2, Jacobian 1 - p0
                     for (const auto token : y) product *= p[token];
                     return product;
                   });
                 }));
  }
  REQUIRE(mass.at({}) == Approx(1).epsilon(1e-7));
  const auto task = make_urn({.colors = 3, .context = 4});
  double expected = 0;
  for (const auto& [y, probability] : mass)
    if (y.size() == 4) expected += probability * bayes_nats(mass, y) / 4;
  REQUIRE(task->facts().optimal == Approx(expected).epsilon(1e-6));
  Generator g(22);
  const Batch batch = task->sample(300, g);
  const auto rows = rows_of(batch);
  for (std::size_t i = 0; i < rows.size(); ++i)
    REQUIRE(batch.optimal[i] == Approx(bayes_nats(mass, rows[i].targets) / 4).epsilon(1e-6));
}

TEST_CASE("urn: expectations", "[tasks][urn]") {
  const auto optimal = [](std::int64_t k, std::int64_t T) {
    return make_urn({.colors = k, .context = T})->facts().optimal;
  };
  REQUIRE(optimal(3, 64) == Approx(0.8794).margin(5e-5));
  REQUIRE(optimal(2, 100) == Approx(0.51900).margin(5e-6));
  REQUIRE(optimal(3, 100) == Approx(0.86707).margin(5e-6));
  REQUIRE(optimal(5, 100) == Approx(1.34055).margin(5e-6));
  REQUIRE(optimal(10, 100) == Approx(2.02846).margin(5e-6));
  REQUIRE(optimal(7, 1) == Approx(std::log(7.0)));

  const auto task = make_task("urn");
  Generator g(23);
  const Batch batch = task->sample(4000, g);
  REQUIRE(std::abs(mean(batch.optimal) - task->facts().optimal) <
          4 * standard_error(batch.optimal));
  // One sequence at once: (k-1)! n_1! ... n_k! / (T+k-1)!
  const auto rows = rows_of(batch);
  for (std::size_t i = 0; i < 100; ++i) {
    double counts[3] = {};
    for (const auto y : rows[i].targets) ++counts[y];
    double nats = std::lgamma(64 + 3.0) - std::lgamma(3.0);
    for (const double n : counts) nats -= std::lgamma(n + 1);
    REQUIRE(batch.optimal[i] == Approx(nats / 64).epsilon(1e-10));
  }
  REQUIRE_THROWS_AS(make_urn({.colors = 1}), ValueError);
  REQUIRE_THROWS_AS(make_task("urn", 0), ValueError);
}

TEST_CASE("reverse and copy", "[tasks][reverse]") {
  for (const bool copy : {false, true}) {
    const auto task = make_task(copy ? "copy" : "reverse");
    REQUIRE(task->facts().context == 32);
    REQUIRE(task->facts().optimal == 0);
    Generator g(31);
    std::map<std::string, int> seen;
    for (const Row& row : rows_of(task->sample(500, g))) {
      REQUIRE(row.inputs[16] == 16);
      for (std::size_t i = 0; i < 16; ++i) {
        REQUIRE(row.targets[i] == kIgnored);
        REQUIRE(!row.counted[i]);
        REQUIRE(row.targets[16 + i] == row.inputs[copy ? i : 15 - i]);
        REQUIRE(row.counted[16 + i]);
        ++seen[std::to_string(row.inputs[i])];
      }
    }
    REQUIRE(chi_square(seen, 16, 8000) < chi_square_limit(16));

    const std::string letters = "abcdefghijklmnop";
    const Row prompt = rows_of(task->prompt(letters))[0];
    REQUIRE(text_of(*task, prompt.inputs) == letters + "|");
    REQUIRE(prompt.targets == Ids(17, kIgnored));
    const Row answered = rows_of(task->prompt(letters + "|" + (copy ? "abc" : "pon")))[0];
    REQUIRE(answered.targets[15] == kIgnored);
    REQUIRE(answered.targets[16] == (copy ? 0 : 15));
    REQUIRE(answered.targets.back() == kIgnored);
    REQUIRE((answered.counted[16] && answered.counted[18] && !answered.counted[19]));
    REQUIRE(error_of([&] { task->prompt("abc"); }) ==
            task->facts().name + ": a prompt needs exactly 16 tokens before the |, got 3");
    REQUIRE_THROWS_AS(task->prompt(letters + "|" + letters), ValueError);  // 33 tokens
  }
  REQUIRE(make_task("copy", 8)->facts().context == 8);
  REQUIRE(error_of([] { make_task("reverse", 9); }) ==
          "reverse: context 9 is odd: needs an even one, half for the tokens and half for the "
          "answer");
  REQUIRE_THROWS_AS(make_task("reverse", 0), ValueError);
}

TEST_CASE("prompts are spelled like sequences", "[tasks][vocabulary]") {
  const auto task = make_task("induction");
  const Vocabulary& v = task->facts().vocabulary;
  REQUIRE(v.summary() == "a-z A-F ^");
  REQUIRE(v.size() == 33);
  Generator g(41);
  for (const Row& row : rows_of(task->sample(20, g)))
    REQUIRE(v.encode(v.decode(row.inputs)) == row.inputs);

  const Row row = rows_of(task->prompt("abcabca"))[0];
  REQUIRE(row.inputs == Ids{32, 0, 1, 2, 0, 1, 2, 0});
  REQUIRE(row.targets == Ids{0, 1, 2, 0, 1, 2, 0, kIgnored});
  REQUIRE(row.counted == std::vector<bool>{false, false, false, false, true, true, true, false});
  REQUIRE(rows_of(task->prompt("^abcabca"))[0].inputs == row.inputs);
  REQUIRE(rows_of(task->prompt(""))[0].inputs == Ids{32});
  REQUIRE(rows_of(task->prompt(""))[0].counted == std::vector<bool>{false});
  REQUIRE(rows_of(task->prompt("abc"))[0].counted == std::vector<bool>(4, false));
  REQUIRE(rows_of(task->prompt("a^b"))[0].targets == Ids{0, kIgnored, 1, kIgnored});

  REQUIRE(error_of([&] { task->prompt("abcé"); }) ==
          "encode: 'é' (U+00E9, character 4) is not in the vocabulary: a-z A-F ^");
  REQUIRE(error_of([&] { task->prompt("ab\n"); }) ==
          "encode: '\\n' (U+000A, character 3) is not in the vocabulary: a-z A-F ^");
  REQUIRE(error_of([&] { task->prompt("ab\xff"); }) == "encode: byte 2 is not UTF-8");
  REQUIRE(error_of([&] { task->prompt(std::string(48, 'a')); }) ==
          "induction: the prompt has 49 tokens with the ones added to it, a sequence has 48: "
          "shorten it");
}

// A task that puts nothing in front of a prompt.
class Bare : public Task {
 public:
  Bare()
      : Task({.name = "bare",
              .description = {},
              .accuracy = {},
              .prompt = {},
              .vocabulary = Vocabulary({"a", "b"}),
              .classes = 2,
              .context = 4}) {}

 private:
  Sequence draw(Generator&) const override { return {{0}, {1}, {true}}; }
};

TEST_CASE("an empty prompt is refused where the task adds no token to it", "[tasks]") {
  REQUIRE(error_of([] { Bare().prompt(""); }) ==
          "bare: the prompt is empty, and the task adds no token to it: give at least one of a b");
  REQUIRE(rows_of(Bare().prompt("b"))[0].inputs == Ids{1});
  for (const char* name : {"induction", "urn"})
    REQUIRE(make_task(name)->prompt("").inputs.numel() == 1);
}

TEST_CASE("an unknown task is told the nearest", "[tasks]") {
  REQUIRE(error_of([] { make_task("indution"); }) ==
          "task: there is no task 'indution', the nearest is 'induction'. All: induction, urn, "
          "reverse, copy");
  REQUIRE(error_of([] { make_task("text"); }) ==
          "task: 'text' needs the path of a file. Without one: induction, urn, reverse, copy");
  REQUIRE_THROWS_AS(make_task(""), ValueError);
}

TEST_CASE("a batch needs sequences of one length", "[tasks]") {
  REQUIRE_THROWS_AS(make_batch({}), ValueError);
  const Sequence a{.inputs = {1, 2}, .targets = {2, 3}, .counted = {true, false}};
  const Sequence b{.inputs = {1}, .targets = {2}, .counted = {true}};
  REQUIRE(make_batch({a, a}).optimal.empty());
  REQUIRE_THROWS_AS(make_batch({a, b}), ValueError);
}
