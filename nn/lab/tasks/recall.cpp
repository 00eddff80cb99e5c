// The task `recall`: multi-query associative recall. Only positions with a query have targets. The
// pairs determine the value of each key, so the optimal loss is 0.
#include <algorithm>
#include <cmath>

#include "autograd/base/error.h"
#include "nn/lab/tasks/parameters.h"
#include "nn/lab/tasks/tasks.h"

namespace heed::lab {

using namespace autograd;

namespace {

constexpr const char *kKeys = "abcdefghijklmnopqrstuvwxyz01234",
                     *kValues = "ABCDEFGHIJKLMNOPQRSTUVWXYZ56789*";
constexpr Index kBlank = 0, kFirstKey = 1, kFirstValue = 32, kTokens = 64;

bool is_key(Index token) { return token >= kFirstKey && token < kFirstValue; }

TaskInfo make_recall_info(const RecallOptions& o) {
  check_options("recall", o);
  check<ValueError>(o.context >= 3 * o.pairs, "recall", "context ", o.context, " is too short for ",
                    o.pairs, " pairs and a query for each: needs ", 3 * o.pairs, " or more");
  const std::string k = std::to_string(o.pairs);
  std::vector<std::string> corruptions{"value"};
  if (o.pairs > 1) corruptions.emplace_back("key");
  return {.name = "recall",
          .description = k + " pairs of key and value, then the keys again: predict their values",
          .accuracy = "values right",
          .prompt = k +
                    " pairs such as aXbY..., then dots and a key: its value comes next "
                    "(`tokens` 1)",
          .vocabulary = Vocabulary::of(std::string(".") + kKeys + kValues),
          .classes = kTokens,
          .context = o.context,
          .optimal = 0,
          .references = {{"values unbound", std::log(double(o.pairs))}},
          .accuracy_references = {{"values unbound", 1 / double(o.pairs)}},
          .optimum =
              "0: the pairs determine the value; values unbound: ln K, a guess among the K values "
              "of the sequence",
          .source = "Arora et al. 2023, Zoology, arXiv 2312.04927 (MQAR)",
          .corruptions = corruptions};
}

class Recall : public Task {
 public:
  explicit Recall(const RecallOptions& options)
      : Task(make_recall_info(options)), options_(options) {}

 private:
  // The prompt is the pairs and the key of the first pair. The corruption "value" gives the first
  // pair another value. The corruption "key" exchanges the keys of the first two pairs.
  PromptPair draw_pair(const std::string& corruption, Generator& g) const override {
    std::vector<Index> keys(std::size_t(kFirstValue - kFirstKey));
    std::vector<Index> values(std::size_t(kTokens - kFirstValue));
    g.randperm(keys);
    g.randperm(values);
    PromptPair pair;
    for (std::size_t i = 0; i < std::size_t(options_.pairs); ++i) {
      pair.clean.push_back(kFirstKey + keys[i]);
      pair.clean.push_back(kFirstValue + values[i]);
    }
    pair.clean.push_back(pair.clean[0]);
    pair.corrupt = pair.clean, pair.right = pair.clean[1];
    if (corruption == "key") {
      std::swap(pair.corrupt[0], pair.corrupt[2]);
      pair.wrong = pair.clean[3];
    } else {
      pair.corrupt[1] = pair.wrong = kFirstValue + values.back();
    }
    return pair;
  }

  // Keys and values are drawn without replacement. Each key is the query at one random position
  // after the pairs. The input after a query is blank or another query, not the answer.
  Sequence draw(Generator& g) const override {
    const auto pairs = std::size_t(options_.pairs), length = std::size_t(options_.context);
    std::vector<Index> keys(std::size_t(kFirstValue - kFirstKey));
    std::vector<Index> values(std::size_t(kTokens - kFirstValue));
    std::vector<Index> places(length - 2 * pairs);
    g.randperm(keys);
    g.randperm(values);
    g.randperm(places);
    Sequence s;
    s.inputs.assign(length, kBlank);
    s.targets.assign(length, kIgnored);
    s.counted.assign(length, false);
    for (std::size_t i = 0; i < pairs; ++i) {
      const Index key = kFirstKey + keys[i], value = kFirstValue + values[i];
      const std::size_t query = 2 * pairs + std::size_t(places[i]);
      s.inputs[2 * i] = s.inputs[query] = key;
      s.inputs[2 * i + 1] = s.targets[query] = value;
      s.counted[query] = true;
    }
    s.position_optimal.assign(length, 0.0);
    s.references = info().references;
    return s;
  }

  std::vector<Index> prompt_inputs(const std::string& text) const override {
    std::vector<Index> ids = info().vocabulary.encode(text, "prompt");
    bool pairs = std::ssize(ids) > 2 * options_.pairs;
    for (Index i = 0; pairs && i < 2 * options_.pairs; i += 2)
      pairs = is_key(ids[std::size_t(i)]) && ids[std::size_t(i) + 1] >= kFirstValue;
    check<ValueError>(
        pairs, info().name, "a prompt needs ", options_.pairs,
        " pairs of a key (a-z 0-4) and a value (A-Z 5-9 *), then at least a key, got '", text, "'");
    return ids;
  }

  // The target of a key after the pairs is its value, if the key is in one of the pairs.
  void mark_prompt(Sequence& s) const override {
    const auto first = s.inputs.begin(), queries = first + 2 * options_.pairs;
    s.targets.assign(s.inputs.size(), kIgnored);
    s.counted.assign(s.inputs.size(), false);
    for (auto query = queries; query != s.inputs.end(); ++query) {
      const auto pair = std::find(first, queries, *query);
      if (!is_key(*query) || pair == queries) continue;
      s.targets[std::size_t(query - first)] = pair[1];
      s.counted[std::size_t(query - first)] = true;
    }
  }

  RecallOptions options_;
};

}  // namespace

std::unique_ptr<Task> make_recall(const RecallOptions& options) {
  return std::make_unique<Recall>(options);
}

}  // namespace heed::lab
