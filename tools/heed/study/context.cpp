#include "tools/heed/study/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "autograd/base/text.h"
#include "nn/lab/train/evaluate.h"
#include "tools/heed/find_run.h"

namespace heed {
namespace {

constexpr double kMostWork = 3e12;  // of the components, unless --ablate all is given: about 30 s

// Estimates the operations of study_components(). A pass with a replacement starts at its layer, on
// average in the middle of the model.
double components_work(const StudySample& s) {
  const nn::Transformer& model = s.run.model();
  const auto components = double(lab::all_components(model.options).size());
  const auto donors = double(s.donors.rows.size());
  const double heads = double(model.options.layers * model.options.attention.heads);
  const double pairs =
      heads <= double(lab::kMostPairedHeads) ? heads * (heads - 1) / 2 * donors : 0;
  const double passes = (components * (donors + 2) + pairs) / 2 + 2 * donors;
  return passes * double(s.run.values.size()) * lab::pass_work(model, s.run.batch.inputs.size(1)) +
         std::min(lab::attribution_work(s.run, s.donors, {}), lab::kStudyWork);
}

// Returns the number of sequences of a study: 32, or more until 4,096 positions count in the
// accuracy, at most 512. With fewer positions, the components that count depend on the sequences.
Index default_samples(const lab::Task& task) {
  constexpr Index kLeast = 32, kMost = 512, kCounted = 4096;
  const nn::Tensor counted = task.evaluation(0, std::min(kLeast, task.evaluation_size())).counted;
  const double by_sequence =
      std::max(1.0, sum(to(counted, autograd::float64)).item()) / double(counted.size(0));
  return std::clamp(Index(std::ceil(kCounted / by_sequence)), kLeast, kMost);
}

// Returns L on sequences of the task. Without --samples, given tokens and positions belong to the
// sequence shown alone, so they are not used here.
lab::Objective task_objective(const StudyOptions& o, const Subject& s, const lab::Batch& batch) {
  lab::Objective objective = s.objective;
  const bool chosen = o.samples > 0;
  if (!chosen || o.at.empty()) objective.positions.clear();
  if (o.of.empty() || (!chosen && !objective.is_of_targets()))
    return {lab::Objective::kLogLikelihood, 0, 0, objective.positions};
  if (!objective.is_of_targets() && objective.positions.empty()) {
    if (s.info().stop)
      usage_error(
          "--samples: sequences of {} end at different positions; give --at, --of logprob or --of "
          "loss",
          s.info().name);
    objective.positions = {batch.inputs.size(1) - 1};
  }
  return objective;
}

}  // namespace

StudySample sample_of(const StudyOptions& o, const Subject& s) {
  const lab::Task& task = *s.run->task;
  const Index available = task.evaluation_size(),
              most = 8 * lab::evaluation_chunk(s.model(), s.info());
  if (available < lab::kLeastSequences && !o.chooses_sequence())
    usage_error("{} has {}, and a study needs at least {}; use a longer text, or --prompt",
                s.info().name, counted(available, "sequence"), lab::kLeastSequences);
  if (o.samples > available)
    usage_error("--samples: needs {} to {}, got {}", lab::kLeastSequences, available, o.samples);
  if (o.samples > most)
    usage_error("--samples: needs at most {} for the memory of this model and context, got {}",
                most, o.samples);
  if (o.samples > 0 && o.samples < lab::kLeastSequences)
    usage_error("--samples: needs at least {}, because each sequence has {} donors; got {}",
                lab::kLeastSequences, lab::kDonors, o.samples);
  const Index wanted = o.samples > 0 ? o.samples : default_samples(task),
              count = std::min({wanted, most, available});
  const lab::DonorSample drawn = lab::with_donors(task.evaluation(0, count));
  std::string why;
  if (drawn.donors.rows.empty())
    why =
        fmt::format("of the {} sequences, fewer than {} have one length, and each needs {} donors",
                    count, lab::kLeastSequences, lab::kDonors);
  if (!why.empty() && (o.samples > 0 || !o.chooses_sequence()))
    usage_error("{}; use {}", why, o.samples > 0 ? "more --samples" : "a longer text, or --prompt");
  const lab::Objective objective = task_objective(o, s, drawn.batch);
  std::string text =
      fmt::format("{} of {}", counted(drawn.batch.inputs.size(0), "sequence"), s.info().name);
  if (drawn.left_out > 0)
    text += fmt::format(" ({} of lengths with fewer than {} are left out)", drawn.left_out,
                        lab::kLeastSequences);
  return {lab::BaseRun(s.model(), drawn.batch, objective), drawn.donors, text,
          objective_description(objective, s.info().vocabulary),
          why.empty() ? "" : "Effects were not measured: " + why + "."};
}

lab::ProgressCallback StudyContext::counting(std::string what) const {
  return [what = std::move(what), this](Index done, Index total) {
    progress.at_work(fmt::format("{}: {} of {}", what, done, total));
  };
}

const StudySample* StudyContext::task_sample() {
  if (!subject.has_sequences) return nullptr;
  if (!task_sample_) task_sample_ = sample_of(options, subject);
  return task_sample_->donors.rows.empty() ? nullptr : &*task_sample_;
}

const StudySample& StudyContext::shown() {
  if (shown_) return *shown_;
  lab::DonorSample drawn{subject.sequence, {}, 0};
  if (subject.has_sequences) drawn = lab::with_donors(subject.sequence, *subject.run->task);
  std::string why;
  if (drawn.donors.rows.empty())
    why = subject.has_sequences
              ? fmt::format(
                    "Effects on the sequence shown were not measured, because fewer than {} "
                    "sequences of the task have {} tokens or more.",
                    lab::kLeastSequences, subject.texts.tokens.size())
              : "Effects were not measured, because the sequences of the run are not available.";
  shown_ = StudySample{lab::BaseRun(model(), drawn.batch, subject.objective), drawn.donors,
                       "the sequence shown", subject.texts.objective, why};
  return *shown_;
}

const StudySample& StudyContext::sample() {
  const bool here = options.chooses_sequence() && options.samples == 0;
  const StudySample* of_task = here ? nullptr : task_sample();
  const StudySample& chosen = of_task ? *of_task : shown();
  if (options.ablation != lab::Ablation::kZero && chosen.donors.rows.empty())
    usage_error("--ablation {} needs other sequences: {} Use --ablation zero.",
                nn::enum_name(options.ablation), chosen.without_donors);
  return chosen;
}

std::string StudyContext::not_measured() {
  if (!subject.has_sequences)
    return "The effects of heads and MLPs were not measured, because the sequences of the run are "
           "not available.";
  predicts();
  std::string text = *no_better_;
  for (const std::string& more :
       {task_sample() ? std::string() : task_sample_->without_donors, too_long_})
    if (!more.empty()) text += (text.empty() ? "" : " ") + more;
  return text;
}

bool StudyContext::predicts() {
  if (!subject.has_sequences) return true;
  if (no_better_) return no_better_->empty();
  const lab::Task& task = *subject.run->task;
  const Index count = std::min({default_samples(task), task.evaluation_size(),
                                8 * lab::evaluation_chunk(model(), subject.info())});
  const auto gains = lab::gains_over_frequencies(model(), task.evaluation(0, count));
  no_better_ = "";
  if (gains.empty()) return true;
  const lab::Effect gain = lab::effect_of(gains);
  // If the model does not predict better, replacements change L by chance.
  if (!(gain.mean >= 0.01) || gain.mean < 2 * gain.standard_error)
    no_better_ = fmt::format(
        "This model predicts no better than token frequencies, so nothing can be said about its "
        "heads and MLPs: on {} its log probability of the right tokens, minus that of the "
        "frequencies, is {} nats. Train it further (heed train --{} {} --steps N), and study it "
        "again.",
        counted(gain.sequences, "sequence"), effect_text(gain),
        lab::RunFolder(subject.source.run).has_state() ? "resume" : "from", subject.folder());
  return no_better_->empty();
}

const lab::ComponentStudy* StudyContext::components() {
  if (components_) return &*components_;
  if (!task_sample() || !too_long_.empty()) return nullptr;
  const double work = components_work(*task_sample()), seconds = work / kMostWork * 30;
  if (options.ablate != "all" && work > kMostWork) {
    too_long_ = fmt::format(
        "The effects of the {} heads were not measured, because this would take about {:.0f} "
        "seconds. To measure them, add --ablate all to the command.",
        model().options.layers * model().options.attention.heads, seconds);
    progress.clear();
    print_error("warning: " + too_long_);
    return nullptr;
  }
  components_ = lab::study_components(
      task_sample()->run, task_sample()->donors, smallest(), true,
      counting(fmt::format("Measuring heads and MLPs, about {:.0f} seconds", seconds)));
  return &*components_;
}

const std::vector<lab::HeadRole>& StudyContext::roles() {
  if (!roles_) {
    roles_.emplace();
    if (components())
      roles_ = lab::roles_of_heads(task_sample()->run, *components(), subject.run->task.get());
  }
  return *roles_;
}

const lab::Study& StudyContext::study() {
  if (!study_) study_ = subject.study();
  return *study_;
}

std::string effect_text(const lab::Effect& e) {
  if (e.mean == 0) return "0";
  const std::string error =
      std::isnan(e.standard_error) ? "" : fmt::format(" +- {:.2g}", e.standard_error);
  return fmt::format("{:+.3g}", e.mean) + error;
}

std::string accuracy_text(const lab::Effect& e) {
  return std::isnan(e.accuracy) ? "" : fmt::format(", accuracy {:.3g} %", 100 * e.accuracy);
}

std::string distances_text(const lab::HeadRole& role) {
  std::vector<std::string> parts;
  for (const auto& [distance, mean] : role.by_distance)
    parts.push_back(distance == 0 ? fmt::format("itself {:.2f}", mean)
                                  : fmt::format("{} back {:.2f}", distance, mean));
  return heed::join(parts, ", ");
}

std::vector<std::size_t> affordable(StudyContext& c, const char* key,
                                    const std::vector<lab::Evidence>& predicted,
                                    const std::function<double(std::size_t)>& work) {
  std::vector<std::size_t> order(predicted.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t i) { return std::abs(predicted[i].path); });
  const bool all = std::ranges::count(c.options.show, key) > 0;
  double total = 0;
  for (std::size_t n = 0; n < order.size(); ++n) {
    const double next = work(order[n]);
    if (!all && total + next > c.work_left) {
      order.resize(n);
      break;
    }
    total += next;
  }
  if (total > lab::kStudyWork && all)
    print_error(fmt::format("{}: about {:.0f} seconds", key, total / lab::kStudyWork * 3));
  c.work_left = std::max(0.0, c.work_left - total);
  return order;
}

}  // namespace heed
