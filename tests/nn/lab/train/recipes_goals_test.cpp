// Tests that the presets of `heed train TASK` reach their goals. Presets whose training or
// attention is checked in more detail have separate tests in this directory.
#include <cmath>
#include <functional>
#include <string>

#include "tests/support/recipes.h"

namespace {

using namespace heed::lab;
using namespace heed::lab::testing;

struct Recipe {
  const char* label;
  const char* preset;
  std::int64_t seeds;
  Goal reached;
  std::function<void(RunConfig&)> change = [](RunConfig&) {};
  /// True for a negative control, which must not learn the task. It always trains to the end,
  /// because the goal can already hold before the model has learned anything.
  bool control = false;
};

const Recipe kRecipes[] = {
    {"dyck: near the optimum, and 99 % of the brackets closed correctly", "dyck", 3,
     [](const Evaluation& e) { return gap(e) <= 0.03 && *e.accuracy >= 0.99; }},
    {"markov: near the optimum, far below the unigram rule", "markov", 3,
     [](const Evaluation& e) {
       return gap(e) <= 0.02 && e.loss < reference(e, "unigram rule") - 0.04;
     }},
    {"recall: two layers solve it", "recall", 5,
     [](const Evaluation& e) { return *e.accuracy >= 0.99; }},
    // On the plateau the model guesses one of K = 8 values: the accuracy is 1/K = 0.125, the loss
    // ln K = 2.0794.
    {"recall with one layer predicts a value of the sequence, but not that of the key", "recall", 3,
     [](const Evaluation& e) {
       return *e.accuracy >= 0.10 && *e.accuracy <= 0.16 && e.loss >= 2.05 &&
              (short_form() || e.loss <= 2.17);
     },
     [](RunConfig& c) { c.model.layers = 1, c.steps = short_form() ? 300 : 1000; }, true},
    {"induction with one layer stays at or below 0.25", "induction", 3,
     [](const Evaluation& e) { return *e.accuracy <= 0.25 && gap(e) > 1; },
     [](RunConfig& c) { c.model.layers = 1, c.steps = short_form() ? 200 : c.steps; }, true},
    {"random: no model gets below ln V", "random", 3,
     [](const Evaluation& e) { return std::abs(e.loss - std::log(32.0)) <= 4 * *e.standard_error; },
     [](RunConfig&) {}, true}};

}  // namespace

TEST_CASE("recipes reach their goals") {
  for (const Recipe& recipe : kRecipes)
    for (const std::int64_t seed : seeds_to(recipe.seeds)) {
      CAPTURE(recipe.label, seed);
      RunConfig config = seeded(recipe.preset, seed);
      recipe.change(config);
      const Evaluation e = trained(config, recipe.control ? Goal() : recipe.reached).result;
      CHECK(recipe.reached(e));
    }
}
