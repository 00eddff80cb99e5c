#include "nn/study/over_time.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "autograd/base/text.h"
#include "nn/io/safetensors.h"
#include "nn/study/measured_heads.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Returns the value of a key in the file's metadata.
std::string metadata_of(const SafeTensors& file, const std::string& key) {
  const auto found = file.metadata.find(key);
  check<IoError>(found != file.metadata.end(), file.path, "has no '", key,
                 "' in its metadata, so it is not a checkpoint of heed train; remove it");
  return found->second;
}

// Loads the weights of a checkpoint. First checks that it belongs to the same run as `first`.
void load_checkpoint(Transformer& model, const SafeTensors& file, std::int64_t step,
                     const SafeTensors& first) {
  const std::string stored = metadata_of(file, "step");
  check<IoError>(parse_number<std::int64_t>(stored) == step, file.path, "contains step ", stored,
                 ", not the step in its name; it was renamed or belongs to another run");
  const auto difference =
      recipe_difference(metadata_of(first, "recipe"), metadata_of(file, "recipe"), file.path);
  if (difference)
    fail<IoError>(file.path, "belongs to another run than ", first.path, ": '", difference->b,
                  "', not '", difference->a, "'; remove one of the files");
  load_parameters(parameters(model), file);
}

// Sets the losses of a checkpoint. counted_loss is NaN if no position counts in the accuracy.
void set_losses(CheckpointStudy& checkpoint, const Transformer& model, const Batch& batch) {
  const NoGrad guard;
  const Tensor logits = model(batch.inputs);
  checkpoint.loss = mean(to(objective_values(logits, batch, {}), float64)).item();
  const auto losses =
      to_doubles(cross_entropy(logits, batch.targets, {.reduction = Reduction::kNone}));
  const auto counted = batch.counted.to_vector<bool>();
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < losses.size(); ++i)
    if (counted[i]) sum += losses[i], ++count;
  checkpoint.counted_loss = count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}

// Sets the measured and predicted effects of heads, which are replaced by their means over the
// evaluation sequences.
void set_effects(Study& s, const Transformer& model, const OverTimeSubject& subject) {
  const BaseRun run(model, subject.batch, subject.objective);
  const Replacement replaced = replacement(model, subject.evaluation, Ablation::kMean);
  for (HeadReport& h : s.heads) {
    h[kNeeded] = ablate(run, {Component(h)}, replaced).mean;
    h[kPredicted] = effect_of(gradient_prediction(s, h, replaced)).mean;
  }
}

double mean_optimal(const Batch& batch) {
  double sum = 0;
  for (const double x : batch.optimal) sum += x;
  return sum / double(batch.optimal.size());  // 0 / 0 is NaN: unknown
}

double falling_loss(const CheckpointStudy& c) {
  return std::isfinite(c.counted_loss) ? c.counted_loss : c.loss;
}

}  // namespace

OverTimeSubject evaluation_over_time(const Transformer& model, const Task& task,
                                     std::int64_t most) {
  const Batch batch = task.evaluation(
      0, std::min({most, task.evaluation_size(), sequences_at_once(model, task.info().context)}));
  return {batch, {Objective::kLogOdds}, batch, false};
}

OverTime over_time(Transformer& model, const std::vector<CheckpointFile>& checkpoints,
                   const OverTimeSubject& subject, const ProgressCallback& progress) {
  OverTime all;
  all.sequences = subject.batch.inputs.size(0);
  all.optimal = mean_optimal(subject.evaluation);
  SafeTensors first;  // path and metadata of the first checkpoint, without its tensors
  for (const CheckpointFile& c : checkpoints) {
    if (progress) progress(std::int64_t(all.checkpoints.size()), std::int64_t(checkpoints.size()));
    const SafeTensors file = load_safetensors(c.file.string());
    if (all.checkpoints.empty()) first.path = file.path, first.metadata = file.metadata;
    load_checkpoint(model, file, c.step, first);
    Study s = study(model, subject.batch, subject.objective);
    check<NumericError>(std::isfinite(s.value), file.path, "L of these weights is not finite");
    CheckpointStudy checkpoint;
    checkpoint.step = c.step, checkpoint.value = s.value;
    set_losses(checkpoint, model, subject.evaluation);
    if (subject.effects) set_effects(s, model, subject);
    checkpoint.heads = std::move(s.heads), checkpoint.flow = std::move(s.flow);
    all.checkpoints.push_back(std::move(checkpoint));
  }
  return all;
}

std::optional<SteepestFall> steepest_fall(const OverTime& study) {
  std::optional<SteepestFall> steepest;
  double fastest = 0;  // nats per step
  for (std::size_t i = 1; i < study.checkpoints.size(); ++i) {
    const CheckpointStudy &a = study.checkpoints[i - 1], &b = study.checkpoints[i];
    const double fall = (falling_loss(a) - falling_loss(b)) / double(b.step - a.step);
    if (!(fall > fastest)) continue;
    fastest = fall;
    steepest = SteepestFall{a.step, b.step};
  }
  return steepest;
}

std::vector<std::size_t> strongest_heads(const OverTime& study, Quantity score) {
  constexpr std::size_t kMost = 4;
  std::vector<std::pair<double, std::size_t>> by_score;
  for (std::size_t i = 0; i < study.checkpoints[0].heads.size(); ++i) {
    double best = -1;
    for (const double x : study.by_step(i, score))
      if (x > best) best = x;
    if (best >= 0) by_score.emplace_back(-best, i);
  }
  std::sort(by_score.begin(), by_score.end());
  std::vector<std::size_t> heads;
  for (const auto& [_, i] : by_score)
    if (heads.size() < kMost) heads.push_back(i);
  std::sort(heads.begin(), heads.end());
  return heads;
}

std::vector<CheckpointFile> select_checkpoints(const std::vector<CheckpointFile>& all,
                                               const OverTime& study, std::size_t most) {
  if (all.size() <= most) return all;
  most = std::max<std::size_t>(most, 4);
  std::set<std::int64_t> steps{all.front().step, all.back().step};
  if (const auto fall = steepest_fall(study)) steps.insert({fall->from, fall->to});
  for (std::size_t i = 0; i < most && steps.size() < most; ++i)
    steps.insert(all[i * (all.size() - 1) / (most - 1)].step);
  std::vector<CheckpointFile> chosen;
  for (const CheckpointFile& c : all)
    if (steps.contains(c.step)) chosen.push_back(c);
  return chosen;
}

std::optional<std::int64_t> first_reached(const OverTime& study, Quantity score, std::int64_t layer,
                                          double least) {
  for (const CheckpointStudy& c : study.checkpoints)
    for (const HeadReport& h : c.heads)
      if (h.layer == layer && h[score] >= least) return c.step;
  return {};
}

}  // namespace heed::nn
