#include "tools/heed/study/subject.h"

#include <fmt/format.h>

#include <cmath>

#include "autograd/base/text.h"
#include "nn/study/head_importance.h"
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

}  // namespace

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
