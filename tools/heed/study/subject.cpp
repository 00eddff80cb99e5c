#include "tools/heed/study/subject.h"

#include <fmt/format.h>

#include <algorithm>

#include "autograd/base/text.h"
#include "nn/lab/study/forward_passes.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/out.h"
#include "tools/heed/report/output.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

// The texts of a kind of objective.
struct ObjectiveTexts {
  lab::Objective::Kind kind;
  std::string_view of;               // value of --of; the tokens follow a colon
  std::string_view name;             // short; tokens follow a colon
  std::string_view words;            // {0} and {1}: tokens; {2}: positions
  std::string_view everywhere = {};  // {2} if the positions are not given
};
using O = lab::Objective;
constexpr ObjectiveTexts kObjectives[] = {
    {O::kLoss, "loss", "the loss", "the loss of the right tokens, {2}",
     "mean over those that the accuracy counts"},
    {O::kLogLikelihood, "logprob", "the log probability",
     "the log probability of the right tokens, {2}", "mean over those that the accuracy counts"},
    {O::kPair, "", "the logit difference",
     "the logit of the right token minus that of the wrong token, at the last position"},
    {O::kLogit, "logit:", "logit:", "the logit of {0} minus the mean logit, {2}"},
    {O::kLogProbability, "logprob:", "logprob:", "the log probability of {0}, {2}"},
    {O::kDifference, "diff:", "diff:", "the logit of {0} minus that of {1}, {2}"}};
const ObjectiveTexts& texts_of(O::Kind kind) {
  return *std::ranges::find(kObjectives, kind, &ObjectiveTexts::kind);
}

// Formats positions: "3" or "3 and 5".
std::string positions_text(const std::vector<Index>& positions) {
  std::vector<std::string> numbers;
  for (const Index p : positions) numbers.push_back(std::to_string(p));
  return heed::join(numbers);
}

// Returns the id of the token that --of gives as `symbol`. Throws UsageError if the model does not
// predict such a token.
Index token_of(const lab::TaskInfo& info, const std::string& symbol) {
  const auto token = info.vocabulary.find(symbol);
  if (token && *token < info.classes) return *token;
  usage_error("--of: '{}' is not one token that the model predicts; it predicts {}", symbol,
              info.vocabulary.first(info.classes).summary());
}

// Parses the positions of --at, such as "3" or "3,5". Throws UsageError for a position outside of
// the sequence.
std::vector<Index> positions_of(const std::string& text, Index length) {
  std::vector<Index> positions;
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

std::shared_ptr<lab::LoadedRun> open_for_study(const std::filesystem::path& folder,
                                               const std::string& weights, bool& has_sequences) {
  try {
    auto run = std::make_shared<lab::LoadedRun>(open_run(folder, weights, lab::Use::kSequences));
    has_sequences = true;
    return run;
  } catch (const lab::TextError&) {
    if (has_sequences) throw;
    return std::make_shared<lab::LoadedRun>(open_run(folder, weights, lab::Use::kPrompts));
  }
}

lab::Objective parse_objective(const std::string& of, const std::string& at,
                               const lab::TaskInfo& info, Index length) {
  if (of == "margin")
    usage_error(
        "--of: margin was removed, because its rival is the model's own wrong answer; use logprob, "
        "or "
        "diff:A-B for two named tokens");
  lab::Objective o;
  if (!at.empty()) o.positions = positions_of(at, length);
  std::string first, second;  // tokens
  for (const ObjectiveTexts& t : kObjectives) {
    const bool has_tokens = t.of.ends_with(':');
    if (t.of.empty() || !(has_tokens ? of.starts_with(t.of) : of == t.of)) continue;
    o.kind = t.kind;
    if (!has_tokens) return o;
    first = of.substr(t.of.size());
  }
  if (o.kind == O::kDifference) {
    const std::size_t dash = first.find('-', 1);
    if (dash != std::string::npos) second = first.substr(dash + 1), first.resize(dash);
  }
  if (at.empty()) o.positions = {length - 1};
  if (!texts_of(o.kind).of.ends_with(':') || (o.kind == O::kDifference && second.empty()))
    usage_error(
        "--of: '{}' is not loss, logprob, logprob:C, logit:C or diff:A-B; try --of "
        "diff:a-b",
        of);
  o.a = token_of(info, first);
  if (o.kind == O::kDifference) o.b = token_of(info, second);
  if (o.kind == O::kDifference && o.a == o.b)
    usage_error("--of: {} is 0 for every model; give two different tokens", of);
  return o;
}

std::string objective_description(const lab::Objective& o, const lab::Vocabulary& vocabulary) {
  const ObjectiveTexts& texts = texts_of(o.kind);
  std::string where = (o.positions.size() == 1 ? "at position " : "mean over positions ") +
                      positions_text(o.positions);
  if (o.is_of_targets() && o.positions.empty()) where = texts.everywhere;
  const auto token = [&](Index id) { return plot::token_text(vocabulary.label(id)); };
  return fmt::format(fmt::runtime(texts.words), token(o.a), token(o.b), where);
}

std::string objective_text(const lab::Objective& o, const lab::TaskInfo& info) {
  std::string name(texts_of(o.kind).name);
  if (name.ends_with(':')) name += info.vocabulary.label(o.a);
  if (o.kind == O::kDifference) name += "-" + info.vocabulary.label(o.b);
  return o.positions.empty() ? name : name + " at " + positions_text(o.positions);
}

const char* effect_unit(const lab::Objective& o) { return o.is_linear() ? "logits" : "nats"; }

std::map<std::string, std::string> StudyTexts::metadata() const {
  return {{"run", run},
          {"task", task},
          {"objective_words", objective},
          {"labels", nn::Json(tokens).dump()}};
}

Subject::Subject(const std::filesystem::path& folder, std::shared_ptr<const lab::LoadedRun> run_,
                 lab::Batch sequence_, const lab::Objective& objective_)
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

lab::Study Subject::study() const {
  lab::Study study = lab::study(model(), sequence, objective);
  lab::check_finite(study.value, "study", "L");
  return study;
}

}  // namespace heed
