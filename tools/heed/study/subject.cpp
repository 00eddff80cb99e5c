#include "tools/heed/study/subject.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/base/text.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/report.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

// Formats positions: "3" or "3 and 5".
std::string positions_text(const std::vector<std::int64_t>& positions) {
  std::vector<std::string> numbers;
  for (const std::int64_t p : positions) numbers.push_back(std::to_string(p));
  return heed::join(numbers);
}

// Returns the id of the token that --of gives as `symbol`. Throws UsageError if the model does not
// predict such a token.
std::int64_t token_of(const nn::TaskInfo& info, const std::string& symbol) {
  const auto token = info.vocabulary.find(symbol);
  if (token && *token < info.classes) return *token;
  const auto& symbols = info.vocabulary.symbols();
  const nn::Vocabulary predicted({symbols.begin(), symbols.begin() + info.classes},
                                 info.vocabulary.unit());
  usage_error("--of: '{}' is not one token that the model predicts; it predicts {}", symbol,
              predicted.summary());
}

// Parses the positions of --at, such as "3" or "3,5". Throws UsageError for a position outside of
// the sequence.
std::vector<std::int64_t> positions_of(const std::string& text, std::int64_t length) {
  std::vector<std::int64_t> positions;
  for (const std::string& item : heed::split(text, ',')) {
    const auto position = heed::parse_number<std::int64_t>(item);
    if (!position || *position < 0 || *position >= length)
      usage_error("--at: needs positions from 0 to {}, such as 0,1; got '{}'", length - 1, item);
    if (std::ranges::count(positions, *position) > 0)
      usage_error("--at: position {} is given twice", *position);
    positions.push_back(*position);
  }
  return positions;
}

// Returns the objective. A margin without tokens gets those of the model on this batch.
nn::Objective with_tokens(const nn::Objective& o, const nn::Transformer& model,
                          const nn::Batch& batch) {
  if (o.kind != nn::Objective::kMargin || o.right.defined()) return o;
  return nn::margin(model, batch, o.positions);
}

}  // namespace

std::shared_ptr<nn::LoadedRun> open_for_study(const std::filesystem::path& folder,
                                              const std::string& weights, bool& has_sequences) {
  try {
    auto run = std::make_shared<nn::LoadedRun>(open_run(folder, weights, nn::Use::kSequences));
    has_sequences = true;
    return run;
  } catch (const autograd::IoError&) {
    if (has_sequences) throw;
    return std::make_shared<nn::LoadedRun>(open_run(folder, weights, nn::Use::kPrompts));
  }
}

nn::Objective parse_objective(const std::string& of, const std::string& at,
                              const nn::TaskInfo& info, std::int64_t length) {
  nn::Objective o;
  if (!at.empty()) o.positions = positions_of(at, length);
  if (of == "loss") return o;
  if (of == "logprob") {
    o.kind = nn::Objective::kLogLikelihood;
    return o;
  }
  if (of == "margin") {
    o.kind = nn::Objective::kMargin;
    return o;
  }
  if (at.empty()) o.positions = {length - 1};
  constexpr std::pair<std::string_view, nn::Objective::Kind> kOfOneToken[] = {
      {"logit:", nn::Objective::kLogit}, {"logprob:", nn::Objective::kLogProbability}};
  for (const auto& [prefix, kind] : kOfOneToken) {
    if (!of.starts_with(prefix)) continue;
    o.kind = kind;
    o.a = token_of(info, of.substr(prefix.size()));
    return o;
  }
  const std::string pair = of.starts_with("diff:") ? of.substr(5) : "";
  const std::size_t dash = pair.size() > 1 ? pair.find('-', 1) : std::string::npos;
  if (dash == std::string::npos || dash + 1 >= pair.size())
    usage_error(
        "--of: '{}' is not margin, loss, logprob, logprob:C, logit:C or diff:A-B; try --of "
        "diff:a-b",
        of);
  o.kind = nn::Objective::kDifference;
  o.a = token_of(info, pair.substr(0, dash));
  o.b = token_of(info, pair.substr(dash + 1));
  if (o.a == o.b) usage_error("--of: {} is 0 for every model; give two different tokens", of);
  return o;
}

std::string objective_description(const nn::Objective& o, const nn::Vocabulary& vocabulary) {
  const std::string there = (o.positions.size() == 1 ? "at position " : "mean over positions ") +
                            positions_text(o.positions);
  if (o.is_of_targets()) {
    if (o.kind == nn::Objective::kLogOdds)
      return "log p - log(1 - p) of the targets, " +
             (o.positions.empty() ? "mean over those that count" : there);
    const std::string what =
        o.kind == nn::Objective::kLoss ? "the loss, " : "the log probability of the next tokens, ";
    return what + (o.positions.empty() ? "mean over the sequence" : there);
  }
  const auto token = [&](std::int64_t id) { return plot::token_text(vocabulary.label(id)); };
  if (o.kind == nn::Objective::kMargin) {
    const auto right = o.right.to_vector<std::int64_t>(), wrong = o.wrong.to_vector<std::int64_t>();
    const auto measured = [](std::int64_t id) { return id != nn::kIgnored; };
    const auto first = std::find_if(right.begin(), right.end(), measured);
    const std::int64_t count = std::count_if(right.begin(), right.end(), measured);
    if (count > 1)
      return fmt::format(
          "the margin, mean over {} positions: the logit of the right token minus that of its "
          "largest rival in the unchanged model",
          count);
    const auto at = first - right.begin();
    return fmt::format("the margin: the logit of {} minus that of {}, at position {}",
                       token(right[std::size_t(at)]), token(wrong[std::size_t(at)]), at);
  }
  if (o.kind == nn::Objective::kDifference)
    return fmt::format("the logit of {} minus that of {}, {}", token(o.a), token(o.b), there);
  return o.kind == nn::Objective::kLogit
             ? fmt::format("the logit of {} minus the mean logit, {}", token(o.a), there)
             : fmt::format("the log probability of {}, {}", token(o.a), there);
}

std::string objective_text(const nn::Objective& o, const nn::TaskInfo& info) {
  const std::string places = positions_text(o.positions);
  if (o.is_of_targets() || o.kind == nn::Objective::kMargin) {
    const std::string name = o.kind == nn::Objective::kLoss      ? "the loss"
                             : o.kind == nn::Objective::kMargin  ? "the margin"
                             : o.kind == nn::Objective::kLogOdds ? "the log odds"
                                                                 : "the log probability";
    return o.positions.empty() ? name : name + " at " + places;
  }
  const std::string a = info.vocabulary.label(o.a), b = info.vocabulary.label(o.b);
  const std::string what = o.kind == nn::Objective::kDifference ? "diff:" + a + "-" + b
                           : o.kind == nn::Objective::kLogit    ? "logit:" + a
                                                                : "logprob:" + a;
  return fmt::format("{} at {}", what, places);
}

std::map<std::string, std::string> StudyTexts::metadata() const {
  return {{"run", run},
          {"task", task},
          {"objective_words", objective},
          {"labels", nn::Json(tokens).dump()}};
}

Subject::Subject(const std::filesystem::path& folder, std::shared_ptr<const nn::LoadedRun> run_,
                 nn::Batch sequence_, const nn::Objective& objective_)
    : run(std::move(run_)),
      sequence(std::move(sequence_)),
      objective(with_tokens(objective_, run->model, sequence)),
      source(source_of(folder, run->model)),
      texts{plot::visible_text(source.run_name()), info().name,
            objective_description(objective, info().vocabulary),
            info().vocabulary.labels(sequence.inputs.to_vector<std::int64_t>())} {}

std::string Subject::objective_text() const { return heed::objective_text(objective, info()); }

std::int64_t Subject::measured_positions() const {
  if (objective.kind != nn::Objective::kMargin && !objective.positions.empty())
    return std::ssize(objective.positions);
  const nn::Tensor& tokens =
      objective.kind == nn::Objective::kMargin ? objective.right : sequence.targets;
  const auto ids = tokens.to_vector<std::int64_t>();
  return std::ssize(ids) - std::ranges::count(ids, nn::kIgnored);
}

std::string Subject::text() const {
  return info().vocabulary.decode(sequence.inputs.to_vector<std::int64_t>());
}

nn::Study Subject::study() const {
  nn::Study study = nn::study(model(), sequence, objective);
  if (!std::isfinite(study.value))
    throw autograd::NumericError("study: the objective is not finite");
  return study;
}

}  // namespace heed
