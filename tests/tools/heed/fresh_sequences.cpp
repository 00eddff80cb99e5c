// Measures the heads of runs on the sequences of a study and on fresh sequences, and compares marks
// and claims. Usage: heed_fresh RUN... Each run must have checkpoints. Measures three of them: the
// first one, the end of the steepest fall of the loss, and the last one. Prints counts by task.
// Fails unless at most 2 % of the rows change their class and no row changes from no mark to
// `reversed`. On 256 fresh sequences, a claim about the last weights must keep its sign and have
// half to twice its value.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "nn/io/safetensors.h"
#include "nn/lab.h"
#include "nn/study/over_time.h"
#include "nn/study/run_effects.h"
#include "tools/heed/study/first_lines.h"

namespace {

using namespace heed;
using nn::Mark;

struct Counts {
  std::map<std::string, int> marks;            // of the gradient
  std::map<std::string, int> missed, effects;  // by estimate; rows with an effect
  int rows = 0, changed = 0, reversed = 0, claims = 0, wrong_claims = 0;
};

HeadStudy measured(const nn::LoadedRun& run, std::int64_t first, std::int64_t count,
                   nn::EffectParts parts) {
  count = std::min(count, run.task->evaluation_size() - first);
  const nn::Batch batch = run.task->evaluation(first, count);
  const nn::Objective o = nn::default_objective(run.model, run.task->info(), batch);
  HeadStudy study;
  study.sample.emplace(HeadSample{nn::BaseRun(run.model, batch, o),
                                  nn::replacement(run.model, batch, nn::Ablation::kMean), "", "",
                                  ""});
  const HeadSample& s = *study.sample;
  study.measured = std::make_unique<nn::MeasuredHeads>(nn::measure_heads(s.run, s.replaced, parts));
  nn::score_on_repeated_tokens(*study.measured, run, std::uint64_t(first + 1));
  const bool predicts = nn::predicts_better(nn::gain_over_frequencies(run, count));
  study.summary = nn::summarize_heads(s.run, s.replaced, *study.measured, predicts);
  return study;
}

// Compares the marks of the study with marks that are computed from the same predictions and from
// the effects on fresh sequences.
void compare_marks(Counts& counts, const HeadStudy& few, const HeadStudy& again,
                   const std::string& name) {
  std::vector<nn::Evidence> rows = again.measured->effects;
  const std::vector<nn::Evidence>& old = few.measured->effects;
  const std::size_t heads = few.measured->reports.size();
  for (std::size_t i = 0; i < heads; ++i) rows[i].predictions = old[i].predictions;
  const nn::Judgement& judged = few.summary.judgement;
  const nn::Judgement judged_again = nn::judge(rows, judged.smallest, heads);
  for (std::size_t i = 0; i < heads; ++i) {
    const nn::Judgement::Row &a = judged.rows[i], &b = judged_again.rows[i];
    ++counts.rows, ++counts.marks[a.mark == Mark::kNone ? "none" : nn::enum_name(a.mark)];
    counts.reversed +=
        b.mark == Mark::kReversed && (a.mark == Mark::kNone || a.mark == Mark::kFactor);
    // A factor is shown in the column of marks, but it is not a mark.
    const auto class_of = [](Mark m) { return m == Mark::kFactor ? Mark::kNone : m; };
    if (class_of(a.mark) != class_of(b.mark)) {
      ++counts.changed;
      fmt::print(
          "  {} {}: '{}' -> '{}'; needed {:+.3g} ({:.2g}) -> {:+.3g}, gradient {:+.3g}, "
          "suffices {:+.3g} -> {:+.3g}, floor {:.3g} -> {:.3g}\n",
          name, old[i].place, nn::enum_name(a.mark), nn::enum_name(b.mark), old[i].effect.mean,
          old[i].effect.standard_error, rows[i].effect.mean, rows[i].predicted(),
          old[i].suffices->mean, rows[i].suffices->mean, a.floor, b.floor);
    }
    const bool is_last = few.measured->components[i].layer == few.measured->reports.back().layer;
    for (const nn::Prediction& p : old[i].predictions) {
      nn::Evidence one = old[i];
      one.predictions = {p};
      const Mark mark = nn::judge({one}, a.floor, 0).rows[0].mark;
      for (const char* part : {"", ", not in the last layer"}) {
        if (*part && is_last) continue;
        const std::string of = std::string(p.name) + part;
        counts.effects[of] += a.counts;
        counts.missed[of] += mark == Mark::kMissed;
      }
    }
  }
}

// Returns the value of a claim on the sequences of `many`.
double measured_again(const nn::LoadedRun& run, const HeadStudy& many,
                      const std::vector<std::string>& names, std::string_view quantity) {
  const nn::MeasuredHeads& m = *many.measured;
  std::vector<nn::Component> named;
  std::size_t one = 0;  // row of the last component in `named`
  for (std::size_t i = 0; i < m.effects.size(); ++i)
    if (std::ranges::count(names, m.effects[i].place) > 0)
      named.push_back(m.components[i]), one = i;
  const HeadSample& s = *many.sample;
  const auto left = [&](const std::vector<nn::Component>& cut) {
    return nn::kept_share(s.run, cut, s.replaced).left;
  };
  if (quantity == "lost_without") return 1 - left(named);
  if (quantity == "left_alone") return left(nn::other_components(run.model, named));
  if (quantity == "needed") return nn::ablate(s.run, named, s.replaced).mean;
  for (const nn::HeadQuantity& q : nn::head_quantities())
    if (q.name == quantity) return m.reports[one][q.quantity];
  return NAN;
}

void compare_claims(Counts& counts, const nn::LoadedRun& run, const HeadStudy& few,
                    const HeadStudy& many, const std::string& name) {
  const bool predicts = !std::isinf(few.summary.judgement.smallest);
  for (const Claim& claim : first_lines(few, predicts))
    for (const auto& [quantity, value] : claim.numbers) {
      const double fresh = measured_again(run, many, claim.components, quantity);
      ++counts.claims;
      if (value * fresh > 0 && fresh / value <= 2 && fresh / value >= 0.5) continue;
      ++counts.wrong_claims;
      fmt::print("  {}: {} of {} is {:.4g}, on fresh sequences {:.4g}\n", name, quantity,
                 fmt::join(claim.components, ", "), value, fresh);
    }
}

// Returns the first checkpoint, the checkpoint at the end of the steepest fall, and the last one.
std::vector<nn::CheckpointFile> three_of(nn::LoadedRun& run, const std::filesystem::path& folder) {
  const auto all = nn::RunFolder(folder).checkpoints();
  const nn::OverTime study =
      nn::over_time(run.model, all, nn::evaluation_over_time(run.model, *run.task));
  const auto fall = nn::steepest_fall(study);
  std::vector<nn::CheckpointFile> chosen{all.front()};
  for (const nn::CheckpointFile& c : all)
    if (fall && c.step == fall->to && c.step != all.back().step) chosen.push_back(c);
  chosen.push_back(all.back());
  return chosen;
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, Counts> by_task;
  for (int i = 1; i < argc; ++i) {
    nn::LoadedRun run = nn::RunFolder(argv[i]).open(nn::RunFolder::kModel, nn::Use::kSequences);
    const auto files = three_of(run, argv[i]);
    Counts& counts = by_task[run.task->info().name];
    for (const nn::CheckpointFile& c : files) {
      load_parameters(parameters(run.model), nn::load_safetensors(c.file.string()));
      const std::string name = fmt::format("{} step {}", argv[i], c.step);
      const std::int64_t n =
          std::min(nn::default_samples(*run.task), run.task->evaluation_size() / 2);
      const HeadStudy few = measured(run, 0, n, nn::EffectParts::kAll);
      compare_marks(counts, few, measured(run, n, n, nn::EffectParts::kMeasured), name);
      if (c.step == files.back().step)
        compare_claims(counts, run, few, measured(run, n, 256, nn::EffectParts::kMeasured), name);
    }
  }
  bool good = argc > 1;
  Counts all;
  for (const auto& [task, c] : by_task) {
    fmt::print("{}: {} rows, {} in another class on fresh sequences; {} claims, {} not confirmed;",
               task, c.rows, c.changed, c.claims, c.wrong_claims);
    for (const auto& [mark, n] : c.marks) fmt::print(" {} {}", n, mark);
    fmt::print("\n");
    all.rows += c.rows, all.changed += c.changed, all.reversed += c.reversed;
    all.wrong_claims += c.wrong_claims;
    for (const auto& [e, n] : c.effects) all.effects[e] += n;
    for (const auto& [e, n] : c.missed) all.missed[e] += n;
  }
  for (const auto& [e, n] : all.effects)
    fmt::print("{}: {} of {} rows with an effect are missed\n", e, all.missed[e], n);
  fmt::print("{} of {} rows in another class, {} of them from no mark to reversed\n", all.changed,
             all.rows, all.reversed);
  good = good && all.changed <= 0.02 * all.rows && all.reversed == 0 && all.wrong_claims == 0;
  return good ? 0 : 1;
}
