// The task `dyck`: balanced brackets of several types and bounded depth. Opening and closing have
// probability 1/2 each, except at depth 0 and at the largest depth. The type of an opening bracket
// is uniform. The last open bracket determines the type of a closing bracket. So the expected
// optimal loss at a position depends only on the depth.
#include <cmath>

#include "nn/lab/tasks/parameters.h"
#include "nn/lab/tasks/tasks.h"

namespace heed::lab {

using namespace autograd;

namespace {

// The opening and the closing bracket of each type. DyckOptions::types is at most the size of this
// table.
constexpr const char* kBrackets[] = {"()", "[]", "{}", "<>", "«»", "⟨⟩", "⌈⌉", "⌊⌋"};

// Token 2 i is the opening bracket of type i, and token 2 i + 1 is the closing bracket of type i.
bool closes(Index token) { return token % 2 == 1; }

Vocabulary brackets(Index types) {
  std::string symbols;
  for (Index i = 0; i < types; ++i) symbols += kBrackets[i];
  return Vocabulary::of(symbols + "^");
}

struct DyckLosses {
  double optimal = 0, depth_only = 0;
};

// Returns the expected losses. They are computed from the distribution of the depth at each step.
// The depth is a random walk that is reflected at 0 and at the largest depth.
DyckLosses expected_losses(const DyckOptions& o) {
  const auto m = std::size_t(o.depth);
  const double types = std::log(double(o.types)), coin = std::log(2.0);
  std::vector<double> at(m + 1, 0.0);
  at[0] = 1;
  DyckLosses total;
  for (Index t = 0; t < o.context; ++t) {
    std::vector<double> next(m + 1, 0.0);
    for (std::size_t depth = 0; depth <= m; ++depth) {
      const double open = depth == 0 ? 1 : depth == m ? 0 : 0.5;
      const bool tossed = depth > 0 && depth < m;
      total.optimal += at[depth] * ((tossed ? coin : 0) + open * types);
      total.depth_only += at[depth] * (1 - open) * types;
      if (open > 0) next[depth + 1] += at[depth] * open;
      if (open < 1) next[depth - 1] += at[depth] * (1 - open);
    }
    at.swap(next);
  }
  const auto T = double(o.context);
  return {total.optimal / T, (total.optimal + total.depth_only) / T};
}

TaskInfo make_dyck_info(const DyckOptions& o) {
  check_options("dyck", o, 2);
  const DyckLosses expected = expected_losses(o);
  return {.name = "dyck",
          .description = "balanced brackets of " + std::to_string(o.types) + " types, at most " +
                         std::to_string(o.depth) + " deep: close the bracket opened last",
          .accuracy = "closing brackets right",
          .prompt = "the start of a sequence, such as ([]{; the leading ^ is added",
          .vocabulary = brackets(o.types),
          .classes = 2 * o.types,
          .context = o.context,
          .bos = 2 * o.types,
          .optimal = expected.optimal,
          .references = {{"depth, not type", expected.depth_only}},
          .optimum =
              "mean over t of P(depth 0) ln k + P(depth 1..m-1) (ln 2 + ln k / 2); in the "
              "long run (m-1)/m ln 2 + ln k / 2",
          .source = "Hewitt et al. 2020, arXiv 2010.07515; Yao et al. 2021, arXiv 2105.11115",
          .corruptions = {"opener"}};
}

class Dyck : public Task {
 public:
  explicit Dyck(const DyckOptions& options) : Task(make_dyck_info(options)), options_(options) {}

 private:
  // The prompt is an opening bracket and, if the depth allows it, closed pairs of brackets. The
  // first bracket has another type in the corrupt prompt, and the answer closes it.
  PromptPair draw_pair(const std::string& /*corruption*/, Generator& g) const override {
    constexpr Index kPairs = 3;
    const Index type = draw_below(options_.types, g);
    const Index other = (type + 1 + draw_below(options_.types - 1, g)) % options_.types;
    PromptPair pair{{*info().bos, 2 * type}, {}, 2 * type + 1, 2 * other + 1};
    for (Index i = 0; options_.depth > 1 && i < std::min(kPairs, info().context / 2 - 1); ++i) {
      const Index inner = draw_below(options_.types, g);
      pair.clean.insert(pair.clean.end(), {2 * inner, 2 * inner + 1});
    }
    pair.corrupt = pair.clean, pair.corrupt[1] = 2 * other;
    return pair;
  }

  Sequence draw(Generator& g) const override {
    const double types = std::log(double(options_.types)), coin = std::log(2.0);
    std::vector<Index> open;  // types of the open brackets
    Sequence s;
    Index closed = 0;
    for (Index t = 0; t < options_.context; ++t) {
      const bool empty = open.empty(), full = std::ssize(open) == options_.depth;
      const bool opens = empty || (!full && draw_below(2, g) == 1);
      const Index type = opens ? draw_below(options_.types, g) : open.back();
      s.position_optimal.push_back((empty || full ? 0 : coin) + (opens ? types : 0));
      s.inputs.push_back(t == 0 ? *info().bos : s.targets.back());
      s.targets.push_back(2 * type + (opens ? 0 : 1));
      s.counted.push_back(!opens);
      if (opens)
        open.push_back(type);
      else
        open.pop_back(), ++closed;
    }
    double nats = double(closed) * types;
    for (const double x : s.position_optimal) nats += x;
    s.references = {{"depth, not type", nats / double(options_.context)}};
    return s;
  }

  void mark_prompt(Sequence& s) const override {
    for (std::size_t t = 0; t < s.targets.size(); ++t)
      s.counted[t] = s.targets[t] != kIgnored && closes(s.targets[t]);
  }

  DyckOptions options_;
};

}  // namespace

std::unique_ptr<Task> make_dyck(const DyckOptions& options) {
  return std::make_unique<Dyck>(options);
}

}  // namespace heed::lab
