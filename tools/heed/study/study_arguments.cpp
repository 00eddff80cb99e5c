#include "tools/heed/study/study_arguments.h"

#include <algorithm>
#include <sstream>

#include "autograd/base/text.h"
#include "tools/heed/report/output.h"
#include "tools/heed/study/study_pictures.h"

namespace heed {
namespace {

std::int64_t token_of(const nn::TaskFacts& facts, const std::string& symbol) {
  const auto& all = facts.vocabulary.symbols();
  const std::vector<std::string> predicted(all.begin(), all.begin() + facts.classes);
  const auto found = std::find(predicted.begin(), predicted.end(), symbol);
  if (found == predicted.end())
    usage_error("--of: '{}' is not one token that the model predicts; it predicts {}", symbol,
                nn::Vocabulary(predicted, facts.vocabulary.unit()).summary());
  return found - predicted.begin();
}

// Of "3" or "3,5".
std::vector<std::int64_t> positions_of(const std::string& text, std::int64_t length) {
  std::vector<std::int64_t> positions;
  std::istringstream list(text);
  for (std::string one; std::getline(list, one, ',');) {
    const auto position = heed::parse_number<std::int64_t>(one);
    if (!position || *position < 0 || *position >= length)
      usage_error("--at: needs 0 to {}, or several as 0,1; got '{}'", length - 1, one);
    if (std::find(positions.begin(), positions.end(), *position) != positions.end())
      usage_error("--at: names {} twice", *position);
    positions.push_back(*position);
  }
  return positions;
}

}  // namespace

// loss, logit:C or diff:A-B; a token may be '-' itself.
nn::Objective chosen_objective(const StudyArguments& a, const nn::TaskFacts& facts,
                               std::int64_t length) {
  nn::Objective o;
  if (!a.at.empty()) o.positions = positions_of(a.at, length);
  if (a.of == "loss") return o;
  if (a.at.empty()) o.positions = {length - 1};
  if (a.of.starts_with("logit:")) {
    o.kind = nn::Objective::kLogit;
    o.a = token_of(facts, a.of.substr(6));
    return o;
  }
  const std::string pair = a.of.starts_with("diff:") ? a.of.substr(5) : "";
  const std::size_t dash = pair.size() > 1 ? pair.find('-', 1) : std::string::npos;
  if (dash == std::string::npos || dash + 1 >= pair.size())
    usage_error("--of: '{}' is not loss, logit:C or diff:A-B; try --of diff:a-b", a.of);
  o.kind = nn::Objective::kDifference;
  o.a = token_of(facts, pair.substr(0, dash));
  o.b = token_of(facts, pair.substr(dash + 1));
  if (o.a == o.b)
    usage_error("--of: {} is 0 whatever the model does; name two different tokens", a.of);
  return o;
}

std::string objective_text(const nn::Objective& o, const nn::TaskFacts& facts) {
  const std::string places = places_text(o.positions);
  if (o.kind == nn::Objective::kLoss)
    return o.positions.empty() ? "the loss" : "the loss at " + places;
  const std::string a = facts.vocabulary.label(o.a), b = facts.vocabulary.label(o.b);
  const std::string what = o.kind == nn::Objective::kLogit ? "logit:" + a : "diff:" + a + "-" + b;
  return fmt::format("{} at {}", what, places);
}

// The sequence that was asked for, checked.
nn::Batch chosen_sequence(const StudyArguments& a, const Command& c, const nn::Task& task) {
  if (c.given("sample") && a.sample >= task.evaluation_size())
    usage_error("--sample: needs 0 to {}, got {}", task.evaluation_size() - 1, a.sample);
  nn::Generator generator(1);
  nn::Batch one = c.given("prompt")   ? task.prompt(a.prompt)
                  : c.given("sample") ? without_padding(task.evaluation(a.sample, 1))
                                      : task.example(generator);
  const std::int64_t length = one.inputs.numel();
  if (length > task.facts().context)
    usage_error("--prompt: {} tokens, the model reads {}", length, task.facts().context);
  return one;
}

// The head that --head names, if any.
std::optional<nn::HeadIndex> chosen_head(const StudyArguments& a, const Command& c,
                                         const nn::Transformer& model) {
  if (!c.given("head")) return {};
  if (a.head == "all" || a.head.find(',') != std::string::npos)
    usage_error("--head: draws one head, as L1H0, got '{}'", a.head);
  return nn::parse_heads("--head", a.head, model.options.layers, model.options.heads)[0];
}

}  // namespace heed
