#include "tools/heed/study/subject.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/base/text.h"
#include "nn/study/head_importance.h"
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

// Returns a description of L in words, for readers who do not know the option --of.
std::string objective_description(const nn::Objective& o, const nn::Vocabulary& vocabulary) {
  const std::string there =
      (o.positions.size() == 1 ? "at position " : "at positions ") + positions_text(o.positions);
  if (o.kind == nn::Objective::kLoss)
    return o.positions.empty() ? "the mean loss over the sequence" : "the mean loss " + there;
  const auto token = [&](std::int64_t id) { return plot::token_text(vocabulary.label(id)); };
  return o.kind == nn::Objective::kLogit
             ? fmt::format("the logit of {} {}", token(o.a), there)
             : fmt::format("the logit of {} minus that of {}, {}", token(o.a), token(o.b), there);
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

}  // namespace

nn::Objective parse_objective(const std::string& of, const std::string& at,
                              const nn::TaskInfo& info, std::int64_t length) {
  nn::Objective o;
  if (!at.empty()) o.positions = positions_of(at, length);
  if (of == "loss") return o;
  if (at.empty()) o.positions = {length - 1};
  if (of.starts_with("logit:")) {
    o.kind = nn::Objective::kLogit;
    o.a = token_of(info, of.substr(6));
    return o;
  }
  const std::string pair = of.starts_with("diff:") ? of.substr(5) : "";
  const std::size_t dash = pair.size() > 1 ? pair.find('-', 1) : std::string::npos;
  if (dash == std::string::npos || dash + 1 >= pair.size())
    usage_error("--of: '{}' is not loss, logit:C or diff:A-B; try --of diff:a-b", of);
  o.kind = nn::Objective::kDifference;
  o.a = token_of(info, pair.substr(0, dash));
  o.b = token_of(info, pair.substr(dash + 1));
  if (o.a == o.b) usage_error("--of: {} is 0 for every model; give two different tokens", of);
  return o;
}

std::string objective_text(const nn::Objective& o, const nn::TaskInfo& info) {
  const std::string places = positions_text(o.positions);
  if (o.kind == nn::Objective::kLoss)
    return o.positions.empty() ? "the loss" : "the loss at " + places;
  const std::string a = info.vocabulary.label(o.a), b = info.vocabulary.label(o.b);
  const std::string what = o.kind == nn::Objective::kLogit ? "logit:" + a : "diff:" + a + "-" + b;
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
      objective(objective_),
      source(source_of(folder, run->model)),
      texts{plot::visible_text(source.run_name()), info().name,
            objective_description(objective, info().vocabulary),
            info().vocabulary.labels(sequence.inputs.to_vector<std::int64_t>())} {}

std::string Subject::objective_text() const { return heed::objective_text(objective, info()); }

std::string Subject::text() const {
  return info().vocabulary.decode(sequence.inputs.to_vector<std::int64_t>());
}

nn::Study Subject::study() const {
  nn::Study study = nn::study(model(), sequence, objective);
  if (!std::isfinite(study.value))
    throw autograd::NumericError("study: the objective is not finite");
  constexpr double kMostFlops = 2e10;
  const double flops = 2 * double(nn::count_parameters(model())) * double(sequence.inputs.numel());
  if (double(study.heads.size()) * flops <= kMostFlops)
    nn::measure_cuts(study, model(), sequence, objective);
  return study;
}

}  // namespace heed
