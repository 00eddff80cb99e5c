// The presets of `heed train TASK` reach their goals. Recipes with more to say of their training or
// their attention have tests of their own beside this one.
#include <cmath>
#include <functional>
#include <string>

#include "tests/support/recipes.h"

namespace {

using namespace heed::nn;
using namespace heed::nn::testing;

struct Recipe {
  const char* label;
  const char* preset;
  std::int64_t seeds;
  Goal reached;
  std::function<void(RunConfig&)> change = [](RunConfig&) {};
  /// A negative control: it trains to its end, as the goal may hold only there.
  bool control = false;
};

const Recipe kRecipes[] = {
    {"dyck: near Bayes, and 99 % of the brackets closed rightly", "dyck", 3,
     [](const Evaluation& e) { return gap(e) <= 0.03 && *e.accuracy >= 0.99; }},
    {"markov: near Bayes, far below the unigram rule", "markov", 3,
     [](const Evaluation& e) {
       return gap(e) <= 0.02 && e.loss < reference(e, "unigram rule") - 0.04;
     }},
    {"urn: near the Bayes predictor on the same sequences", "urn", 3,
     [](const Evaluation& e) { return gap(e) <= 0.003; }},
    {"recall: two layers solve it", "recall", 5,
     [](const Evaluation& e) { return *e.accuracy >= 0.99; }},
    {"recall with random filler", "recall", 3,
     [](const Evaluation& e) { return *e.accuracy >= 0.99; },
     [](RunConfig& c) {
       c.task_parameters = {{"filler", "random"}};
     }},
    // The plateau is exact: accuracy 1/K = 0.125, loss ln K = 2.0794.
    {"recall with one layer knows the values but not whose, at twice the steps", "recall", 3,
     [](const Evaluation& e) {
       return *e.accuracy >= 0.10 && *e.accuracy <= 0.16 && e.loss >= 2.05 &&
              (short_form() || e.loss <= 2.17);
     },
     [](RunConfig& c) { c.model.layers = 1, c.steps = short_form() ? 300 : 1000; }, true},
    {"induction with one layer stays at or below 0.25", "induction", 3,
     [](const Evaluation& e) { return *e.accuracy <= 0.25 && gap(e) > 1; },
     [](RunConfig& c) { c.model.layers = 1; }, true},
    {"sort: all of the quarter held out is right", "sort", 3,
     [](const Evaluation& e) { return *e.accuracy == 1 && e.loss < 0.01 && e.sequences == 182; }},
    {"adder: 97 % of the sums held out", "adder", 3,
     [](const Evaluation& e) { return *e.accuracy >= 0.97; }},
    {"majority is learned", "majority", 3, [](const Evaluation& e) { return *e.accuracy >= 0.99; }},
    {"parity is not learned: a coin", "parity", 3,
     [](const Evaluation& e) {
       return e.loss >= 0.68 && e.loss <= 0.70 &&
              std::abs(*e.accuracy - 0.5) < 4 * 0.5 / std::sqrt(1024.0);
     },
     [](RunConfig& c) {
       if (short_form()) c.steps = 200;
     },
     true},
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
