// Tests of the task `dyck`. They check its sequences, and compare its optimal loss with Bayes' rule
// over all possible sequences.
#include "tests/support/catch.h"
#include "tests/support/tasks.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;

// Adds every sequence that begins with `so_far` to `mass`, with its probability by the definition
// of the task. `open` has the types of the open brackets, `probability` is that of `so_far`.
void each_sequence(Prefixes& mass, const DyckOptions& o, const Ids& so_far, const Ids& open,
                   double probability) {
  if (std::ssize(so_far) == o.context) {
    add_sequence(mass, so_far, probability);
    return;
  }
  const bool may_open = std::ssize(open) < o.depth, may_close = !open.empty();
  const double half = may_open && may_close ? 0.5 : 1;
  if (may_open)
    for (Index type = 0; type < o.types; ++type) {
      Ids longer = so_far, deeper = open;
      longer.push_back(2 * type), deeper.push_back(type);
      each_sequence(mass, o, longer, deeper, probability * half / double(o.types));
    }
  if (may_close) {
    Ids longer = so_far, rest = open;
    longer.push_back(2 * open.back() + 1), rest.pop_back();
    each_sequence(mass, o, longer, rest, probability * half);
  }
}

TEST_CASE("dyck: the optimum equals Bayes' rule over all sequences", "[tasks][dyck]") {
  const DyckOptions o{.types = 3, .depth = 2, .context = 7};
  Prefixes mass;
  each_sequence(mass, o, {}, {}, 1);
  REQUIRE(mass.at({}) == Approx(1).epsilon(1e-12));
  double expected = 0, depth_only = 0;
  for (const auto& [y, probability] : mass)
    if (std::ssize(y) == o.context) {
      double closed = 0;
      for (const auto token : y) closed += double(token % 2);
      const double nats = bayes_nats(mass, y);
      expected += probability * nats / 7;
      depth_only += probability * (nats + closed * std::log(3.0)) / 7;
    }
  const auto task = make_dyck(o);
  REQUIRE(task->info().optimal == Approx(expected).epsilon(1e-12));
  REQUIRE(task->info().references.at("depth, not type") == Approx(depth_only).epsilon(1e-12));
  Generator g(71);
  const Batch batch = task->sample(500, g);
  const auto rows = rows_of(batch);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    REQUIRE(mass.contains(rows[i].targets));  // the brackets are balanced, and the depth is allowed
    REQUIRE(batch.optimal[i] == Approx(bayes_nats(mass, rows[i].targets) / 7).epsilon(1e-12));
    for (std::size_t t = 0; t < 7; ++t)
      REQUIRE(rows[i].counted[t] == (rows[i].targets[t] % 2 == 1));
  }
}

TEST_CASE("dyck: errors", "[tasks][dyck]") {
  REQUIRE_THROWS_AS(make_dyck({.types = 1}), ValueError);
  REQUIRE_THROWS_AS(make_dyck({.types = 9}), ValueError);
  REQUIRE_THROWS_AS(make_dyck({.depth = 0}), ValueError);
  REQUIRE_THROWS_AS(make_dyck({.context = 1}), ValueError);
}

TEST_CASE("dyck: closing brackets of a prompt are counted", "[tasks][dyck]") {
  const auto task = make_task("dyck");
  REQUIRE(task->info().vocabulary.size() == 9);
  const Row row = rows_of(task->prompt("([]{"))[0];
  REQUIRE(text_of(*task, row.inputs) == "^([]{");
  REQUIRE(row.counted == std::vector<bool>{false, false, true, false, false});
  REQUIRE(make_dyck({.types = 8})->info().vocabulary.size() == 17);
}

}  // namespace
