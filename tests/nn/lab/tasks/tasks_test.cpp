// Tests that run on all built-in tasks: batches, prompts, parameters and error messages.
#include "tests/support/tasks.h"

#include <set>

#include "autograd/base/text.h"
#include "nn/lab/tasks/parameters.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;

TEST_CASE("every task: shapes, ranges, and a fixed evaluation set", "[tasks]") {
  for (const std::string& name : task_names()) {
    INFO(name);
    const auto task = make_task(name);
    const TaskInfo& f = task->info();
    REQUIRE(f.name == name);
    Generator g(1);
    const Batch batch = task->sample(7, g);
    REQUIRE(batch.inputs.shape() == heed::autograd::Shape{7, f.context});
    REQUIRE(batch.targets.shape() == batch.inputs.shape());
    REQUIRE(batch.counted.shape() == batch.inputs.shape());
    if (!std::isnan(f.optimal)) {
      REQUIRE(batch.optimal.size() == 7);
      REQUIRE(batch.position_optimal.size() == std::size_t(7 * f.context));
    }
    REQUIRE(!f.optimum.empty());
    REQUIRE(!f.source.empty());
    for (const auto& [line, expected] : f.references) {
      REQUIRE(!(expected <= f.optimal));  // holds also for NaN, which means unknown
      REQUIRE(batch.references.at(line).size() == 7);
    }
    for (const Row& row : rows_of(batch)) {
      bool any = false;
      for (std::size_t t = 0; t < row.inputs.size(); ++t) {
        REQUIRE((row.inputs[t] >= 0 && row.inputs[t] < f.vocabulary.size()));
        const Index y = row.targets[t];
        REQUIRE((y == kIgnored || (y >= 0 && y < f.classes)));
        REQUIRE((!row.counted[t] || y != kIgnored));
        any = any || row.counted[t];
        // The next input is this target, except in `recall`, where the input after a query is not
        // the answer.
        if (t + 1 < row.inputs.size() && y != kIgnored && name != "recall")
          REQUIRE(row.inputs[t + 1] == y);
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

TEST_CASE("tasks that hold out data never train on it", "[tasks]") {
  std::vector<std::string> holding;
  for (const std::string& name : task_names()) {
    INFO(name);
    const auto task = make_task(name);
    if (!task->holds_out()) continue;
    holding.push_back(name);
    std::set<Ids> held_out;
    for (const Row& row : rows_of(task->evaluation(0, task->evaluation_size())))
      held_out.insert(row.inputs);
    Generator g(1);
    for (const Row& row : rows_of(task->sample(2000, g))) CHECK(!held_out.contains(row.inputs));
  }
  CHECK(holding == std::vector<std::string>{"modadd"});
}

TEST_CASE("prompts have the same symbols as sequences", "[tasks][vocabulary]") {
  const auto task = make_task("induction");
  const Vocabulary& v = task->info().vocabulary;
  REQUIRE(v.summary() == "a-z A-F ^");
  REQUIRE(v.size() == 33);
  Generator g(41);
  for (const Row& row : rows_of(task->sample(20, g)))
    REQUIRE(v.encode(v.decode(row.inputs)) == row.inputs);

  const Row row = rows_of(task->prompt("abcabca"))[0];
  REQUIRE(row.inputs == Ids{32, 0, 1, 2, 0, 1, 2, 0});
  // The block that repeats determines the target of the last token.
  REQUIRE(row.targets == Ids{0, 1, 2, 0, 1, 2, 0, 1});
  REQUIRE(row.counted == std::vector<bool>{false, false, false, false, true, true, true, true});
  REQUIRE(rows_of(task->prompt("abcab"))[0].targets.back() == 2);
  REQUIRE(rows_of(task->prompt("abca"))[0].targets.back() == 1);
  REQUIRE(rows_of(task->prompt("abcabd"))[0].targets.back() == kIgnored);  // not a repeated block
  REQUIRE(rows_of(task->prompt("^abcabca"))[0].inputs == row.inputs);
  REQUIRE(rows_of(task->prompt(""))[0].inputs == Ids{32});
  REQUIRE(rows_of(task->prompt(""))[0].counted == std::vector<bool>{false});
  REQUIRE(rows_of(task->prompt("abc"))[0].counted == std::vector<bool>(4, false));
  REQUIRE(rows_of(task->prompt("a^b"))[0].targets == Ids{0, kIgnored, 1, kIgnored});

  REQUIRE(error_of([&] { task->prompt("abcé"); }) ==
          "prompt: 'é' (U+00E9, character 4) is not in the vocabulary: a-z A-F ^");
  REQUIRE(error_of([&] { task->prompt("ab\n"); }) ==
          "prompt: '\\n' (U+000A, character 3) is not in the vocabulary: a-z A-F ^");
  REQUIRE(error_of([&] { task->prompt("ab\xff"); }) ==
          "prompt: byte 2 is not UTF-8; convert the text");
  REQUIRE(
      error_of([&] { task->prompt(std::string(48, 'a')); }) ==
      "induction: the prompt has 49 tokens, including tokens that the task adds; at most 48 are "
      "possible: shorten it");
}

TEST_CASE("drawn sequences have the expected losses that the task states", "[tasks]") {
  std::set<std::string> unstated;
  for (const std::string& name : task_names()) {
    const auto task = make_task(name);
    const TaskInfo& f = task->info();
    Generator g(62);
    const Batch batch = task->sample(std::min<Index>(4000, task->training_size()), g);
    const auto check = [&](const std::string& what, const std::vector<double>& values,
                           double expected) {
      CAPTURE(name, what);
      if (std::isnan(expected))
        unstated.insert(name + " " + what);
      else
        REQUIRE(std::abs(mean(values) - expected) <= 4 * standard_error(values) + 1e-12);
    };
    check("optimal", batch.optimal, f.optimal);
    for (const auto& [line, expected] : f.references)
      check(line, batch.references.at(line), expected);
  }
  CHECK(unstated == std::set<std::string>{});
}

// A task that does not add a token to a prompt.
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

TEST_CASE("an empty prompt is rejected if the task does not add a token", "[tasks]") {
  REQUIRE(error_of([] { Bare().prompt(""); }) ==
          "bare: the prompt is empty, and the task adds no token to it: needs at least one of a b");
  REQUIRE(rows_of(Bare().prompt("b"))[0].inputs == Ids{1});
  for (const char* name : {"induction", "random"})
    REQUIRE(make_task(name)->prompt("").inputs.numel() == 1);
}

TEST_CASE("the error for an unknown task contains the nearest name", "[tasks]") {
  REQUIRE(error_of([] { make_task("indution"); }) ==
          "task: unknown task 'indution'; the nearest is 'induction'. All tasks: " +
              heed::join(task_names(), ", "));
  REQUIRE(error_of([] { make_task("text"); }) ==
          "task: 'text' needs the path of a file. Tasks without a file: " +
              heed::join(task_names(), ", "));
  REQUIRE_THROWS_AS(make_task(""), ValueError);
}

TEST_CASE("the parameters of a task are settings", "[tasks]") {
  TaskParameters given;
  const std::vector<Setting> settings = task_settings(given);
  const Setting* periods = find_setting(settings, "task-periods");
  REQUIRE(periods);
  periods->set("--task-periods", "5..9");
  REQUIRE(given == TaskParameters{{"periods", "5..9"}});
  REQUIRE(complete_parameters("induction", given) ==
          TaskParameters{{"periods", "5..9"}, {"vocabulary", "32"}});
  REQUIRE(complete_parameters("induction", {{"vocabulary", "007"}, {"periods", "3..4"}})
              .at("vocabulary") == "7");
  REQUIRE(make_task("markov", {}, {{"symbols", "5"}})->info().classes == 5);
  REQUIRE(make_task("copy", {}, {{"vocabulary", "5"}})->info().classes == 5);
  const std::string help = find_setting(settings, "task-vocabulary")->description();
  REQUIRE(help.find("induction: 2 to 52, default 32") != std::string::npos);
  REQUIRE(help.find("reverse and copy: 1 to 52, default 16") != std::string::npos);

  const auto refusal = [](const std::string& task, const TaskParameters& values) {
    return error_of([&] { complete_parameters(task, values); });
  };
  REQUIRE(refusal("text", {{"symbols", "3"}}) ==
          "`task-symbols`: the task text does not have this parameter; only markov has it");
  // If several tasks have a parameter of the same name, it has the same kind of value in all of
  // them.
  std::map<std::string, Setting::Kind> kinds;
  for (const std::string& name : task_names())
    for (const Setting& parameter : task_maker(name).parameters)
      REQUIRE(kinds.try_emplace(parameter.key, parameter.kind).first->second == parameter.kind);
}

TEST_CASE("the mean of the optimal losses by position is the optimal loss of the sequence",
          "[tasks]") {
  for (const std::string& name : task_names()) {
    INFO(name);
    const auto task = make_task(name);
    if (std::isnan(task->info().optimal)) continue;
    Generator g(2);
    const Batch batch = task->sample(50, g);
    const auto rows = rows_of(batch);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      double nats = 0, targets = 0;
      for (std::size_t t = 0; t < rows[i].targets.size(); ++t) {
        const double here = batch.position_optimal[i * rows[i].targets.size() + t];
        REQUIRE(here >= 0);
        if (rows[i].targets[t] == kIgnored) REQUIRE(here == 0);
        nats += here, targets += rows[i].targets[t] != kIgnored;
      }
      REQUIRE(batch.optimal[i] == Approx(nats / targets).epsilon(1e-12));
    }
  }
}

TEST_CASE("a batch needs sequences of equal length", "[tasks]") {
  REQUIRE_THROWS_AS(make_batch({}), ValueError);
  const Sequence a{.inputs = {1, 2}, .targets = {2, 3}, .counted = {true, false}};
  const Sequence b{.inputs = {1}, .targets = {2}, .counted = {true}};
  REQUIRE(make_batch({a, a}).optimal.empty());
  REQUIRE_THROWS_AS(make_batch({a, b}), ValueError);
}

TEST_CASE(
    "pairs of prompts have equal lengths and different answers, which their tokens determine") {
  std::set<std::string> found;
  for (const std::string& name : task_names()) {
    const auto task = make_task(name);
    Generator g(7);
    std::size_t length = 0;
    for (const std::string& corruption : task->info().corruptions) {
      found.insert(name + " " + corruption);
      for (int i = 0; i < 50; ++i) {
        CAPTURE(name, corruption, i);
        const PromptPair pair = task->pair(corruption, g);
        if (length == 0) length = pair.clean.size();
        REQUIRE(pair.clean.size() == length);
        REQUIRE(pair.corrupt.size() == length);
        REQUIRE(Index(length) <= task->info().context);
        REQUIRE(pair.clean != pair.corrupt);
        REQUIRE(pair.right != pair.wrong);
        for (const auto& [tokens, answer] :
             {std::pair{pair.clean, pair.right}, std::pair{pair.corrupt, pair.wrong}}) {
          const std::string text = task->info().vocabulary.decode(tokens);
          CAPTURE(text);
          const Row prompt = rows_of(task->prompt(text))[0];
          REQUIRE(prompt.inputs == tokens);
          if (name == "dyck") {
            // The bracket at position 1 is open, and the answer closes it.
            REQUIRE(answer == tokens[1] + 1);
            std::vector<Index> open;
            for (std::size_t t = 1; t < length; ++t)
              if (tokens[t] % 2 == 0)
                open.push_back(tokens[t]);
              else if (open.back() == tokens[t] - 1)
                open.pop_back();
            REQUIRE(open == std::vector<Index>{tokens[1]});
          } else if (name == "induction") {
            // The answer follows the only earlier copy of the last token.
            REQUIRE(std::count(tokens.begin(), tokens.end(), tokens.back()) == 2);
            const auto copy = std::find(tokens.begin(), tokens.end(), tokens.back());
            REQUIRE(copy[1] == answer);
          } else {
            REQUIRE(prompt.targets.back() == answer);
          }
        }
      }
    }
  }
  CHECK(found == std::set<std::string>{"induction value", "induction key", "induction query",
                                       "recall value", "recall key", "dyck opener", "modadd a",
                                       "modadd b"});
  Generator g(1);
  CHECK_THROWS_WITH(make_task("markov")->pair("value", g),
                    "markov: has no corruptions; give pairs of prompts");
  CHECK_THROWS_WITH(make_task("recall")->pair("query", g),
                    "recall: has no corruption 'query'; its corruptions are value, key");
  // Small tasks have pairs, too.
  for (const char* vocabulary : {"3", "4", "5"}) {
    const auto task = make_task("induction", 7, {{"vocabulary", vocabulary}, {"periods", "2..3"}});
    for (const std::string& corruption : task->info().corruptions) {
      const PromptPair pair = task->pair(corruption, g);
      CHECK(pair.right != pair.wrong);
    }
  }
  CHECK(make_task("dyck", 4, {{"depth", "1"}})->pair("opener", g).clean.size() == 2);
  CHECK(make_task("recall", 6, {{"pairs", "1"}})->info().corruptions.size() == 1);
}

}  // namespace
