// Tests of the tasks `sort`, `adder` and `random`: optimal losses, which are computed without code
// of the tasks, held-out sequences, prompts and errors.

#include "nn/io/setting.h"
#include "tests/support/catch.h"
#include "tests/support/tasks.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;

// Returns the symbols of a whole sequence: its inputs and its last target.
std::string whole(const Task& task, const Row& row) {
  Ids ids = row.inputs;
  ids.push_back(row.targets.back());
  return text_of(task, ids);
}

// The distinct sequences among `draws` training sequences, and those of the evaluation set.
struct Seen {
  std::set<std::string> train, test;
};
Seen seen(const Task& task, int draws) {
  Seen s;
  Generator g(3);
  for (const Row& row : rows_of(task.sample(draws, g))) s.train.insert(whole(task, row));
  for (const Row& row : rows_of(task.evaluation(0, task.evaluation_size())))
    s.test.insert(whole(task, row));
  return s;
}

// Checks that only the last `answer` positions count, and that the tokens before each token of the
// answer determine it, so that the optimal loss is 0.
void check_determined(const Task& task, const std::set<std::string>& sequences,
                      std::size_t answer) {
  CHECK(task.info().optimal == 0);
  CHECK(task.info().whole_answers);
  std::map<std::string, std::set<char>> next;
  for (const std::string& s : sequences)
    for (std::size_t t = s.size() - answer; t < s.size(); ++t) next[s.substr(0, t)].insert(s[t]);
  for (const auto& [before, after] : next) {
    INFO(before);
    CHECK(after.size() == 1);
  }
  for (const Row& row : rows_of(task.evaluation(0, 4)))
    for (std::size_t t = 0; t < row.targets.size(); ++t) {
      CHECK(row.counted[t] == (t + answer >= row.targets.size()));
      CHECK(row.counted[t] == (row.targets[t] != kIgnored));
    }
  CHECK(task.evaluation(0, 2).optimal == std::vector<double>{0, 0});
}

}  // namespace

TEST_CASE("sort: all inputs occur, a quarter is held out, answers are sorted", "[tasks]") {
  const auto task = make_task("sort");
  const Seen s = seen(*task, 8000);
  CHECK(s.test.size() == 182);   // a quarter of 3^6
  CHECK(s.train.size() == 547);  // all others; 8000 draws miss one with probability 3e-4
  std::set<std::string> inputs;
  for (const auto* part : {&s.train, &s.test})
    for (const std::string& text : *part) {
      const std::string question = text.substr(0, 6);
      CHECK(inputs.insert(question).second);
      std::string sorted;  // built by counting each digit
      for (const char digit : {'0', '1', '2'})
        sorted +=
            std::string(std::size_t(std::count(question.begin(), question.end(), digit)), digit);
      CHECK(text.substr(6) == sorted);
    }
  CHECK(inputs.size() == 729);
  check_determined(*task, s.test, 6);
  CHECK(task->prompt("210120").inputs.numel() == 6);
  CHECK(error_of([&] { task->prompt("2101"); }) ==
        "sort: a prompt needs at least 6 tokens, the question, got 4");
  CHECK(make_task("sort", 7, {{"digits", "4"}})->evaluation_size() == 64);  // a quarter of 4^4
  CHECK(error_of([] {
          make_task("sort", 10);
        }).find("2 n - 1 for n digits and their sorted answer, such as 11") != std::string::npos);
  CHECK(error_of([] { make_task("sort", 41); }).find("more than 1e+06") != std::string::npos);
}

TEST_CASE("adder: sums with the last digit first, checked by columns with a carry", "[tasks]") {
  const auto task = make_task("adder");
  const Seen s = seen(*task, 2000);
  CHECK(s.test.size() == 500);
  for (const auto* part : {&s.train, &s.test})
    for (const std::string& text : *part) {
      int carry = 0;
      std::string sum;
      for (const std::size_t column : {1u, 0u}) {
        const int digits = text[column] - '0' + text[column + 2] - '0' + carry;
        sum += char('0' + digits % 10);
        carry = digits / 10;
      }
      INFO(text);
      CHECK(text.substr(4) == sum + char('0' + carry));
    }
  check_determined(*task, s.test, 3);
  CHECK(make_task("adder", 3)->evaluation_size() == 20);  // a fifth of 100
  const auto large = make_task("adder", 24);
  CHECK(large->evaluation_size() == 500);
  const Row row = rows_of(large->evaluation(0, 1))[0];
  const std::string text = whole(*large, row);
  std::string sum = text.substr(16);
  std::reverse(sum.begin(), sum.end());
  CHECK(std::stoll(text.substr(0, 8)) + std::stoll(text.substr(8, 8)) == std::stoll(sum));
  CHECK(error_of([] { make_task("adder", 10); }).find("needs 3 n") != std::string::npos);
  CHECK(error_of([] { make_task("adder", 27); }).find("needs 3 n") != std::string::npos);
}

TEST_CASE("random: all tokens are equally likely after every token, so the optimum is ln V",
          "[tasks]") {
  const auto task = make_task("random", 3, {{"vocabulary", "4"}});
  // Computes the Bayes-optimal loss from all 64 sequences, which have equal probabilities.
  Prefixes mass;
  for (std::int64_t a = 0; a < 4; ++a)
    for (std::int64_t b = 0; b < 4; ++b)
      for (std::int64_t c = 0; c < 4; ++c) add_sequence(mass, {a, b, c}, 1.0 / 64);
  CHECK(bayes_nats(mass, {3, 0, 0}) / 3 == Approx(std::log(4.0)).epsilon(1e-14));
  CHECK(task->info().optimal == Approx(bayes_nats(mass, {1, 2, 3}) / 3).epsilon(1e-14));
  Generator g(5);
  std::map<std::string, int> drawn;
  const int draws = 6400;
  const Batch batch = task->sample(draws, g);
  for (const Row& row : rows_of(batch)) {
    CHECK(row.inputs[0] == 4);
    CHECK(Ids(row.inputs.begin() + 1, row.inputs.end()) ==
          Ids(row.targets.begin(), row.targets.end() - 1));
    ++drawn[text_of(*task, row.targets)];
  }
  CHECK(chi_square(drawn, 64, draws) < chi_square_limit(64));
  for (const double optimal : batch.optimal) CHECK(optimal == Approx(std::log(4.0)));
}
