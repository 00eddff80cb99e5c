#include "nn/study/over_time.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "autograd/base/text.h"
#include "nn/io/safetensors.h"
#include "nn/run/snapshot_file.h"
#include "nn/study/forward_passes.h"
#include "nn/study/measured_heads.h"
#include "nn/train/statistics.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Loads the weights of a checkpoint. First checks that it belongs to the same run as `first`.
void load_checkpoint(Transformer& model, const SafeTensors& file, std::int64_t step,
                     const SafeTensors& first) {
  const std::string stored = metadata_of(file, "step");
  check<IoError>(parse_number<std::int64_t>(stored) == step, file.path, "contains step ", stored,
                 ", not the step in its name; it was renamed or belongs to another run: remove it");
  const auto difference =
      recipe_difference(metadata_of(first, "recipe"), metadata_of(file, "recipe"), file.path);
  if (difference)
    fail<IoError>(file.path, "belongs to another run than ", first.path, ": '", difference->b,
                  "', not '", difference->a, "'; remove one of the files");
  load_parameters(parameters(model), file);
}

// Returns the losses "loss" and "counted_loss".
std::pair<double, double> losses_of(const Transformer& model, const Batch& batch) {
  const NoGrad guard;
  const Tensor logits = model(batch.inputs);
  const auto losses =
      to_doubles(cross_entropy(logits, batch.targets, {.reduction = Reduction::kNone}));
  const auto counted = batch.counted.to_vector<bool>();
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < losses.size(); ++i)
    if (counted[i]) sum += losses[i], ++count;
  return {mean(to(objective_values(logits, batch, {}), float64)).item(), sum / count};
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

}  // namespace

Batch evaluation_over_time(const Transformer& model, const Task& task) {
  return task.evaluation(0, std::min({std::int64_t(32), task.evaluation_size(),
                                      sequences_at_once(model, task.info().context)}));
}

std::vector<OverTime::Curve> OverTime::curves(std::string_view quantity) const {
  std::map<HeadIndex, std::vector<double>> by_place;
  for (const TimedNumber& n : numbers)
    if (n.quantity == quantity) by_place[n.place].push_back(n.value);
  std::vector<Curve> all;
  for (auto& [place, values] : by_place) all.push_back({place, std::move(values)});
  return all;
}

std::vector<double> OverTime::of_model(std::string_view quantity) const {
  return curves(quantity).at(0).values;
}

OverTime over_time(Transformer& model, const std::vector<CheckpointFile>& checkpoints,
                   const OverTimeSubject& subject, const ProgressCallback& progress) {
  OverTime all;
  all.sequences = subject.batch.inputs.size(0);
  SafeTensors first;  // path and metadata of the first checkpoint, without its tensors
  for (const CheckpointFile& c : checkpoints) {
    if (progress) progress(std::ssize(all.steps), std::ssize(checkpoints));
    const SafeTensors file = load_weights(c.file.string());
    if (all.steps.empty()) first.path = file.path, first.metadata = file.metadata;
    load_checkpoint(model, file, c.step, first);
    Study s = study(model, subject.batch, subject.objective);
    check_finite(s.value, file.path, "L");
    set_effects(s, model, subject);
    all.steps.push_back(c.step);
    const auto add = [&](const HeadIndex& place, std::string_view quantity, double value) {
      all.numbers.push_back({c.step, place, std::string(quantity), value});
    };
    const auto [loss, counted_loss] = losses_of(model, subject.evaluation);
    add({-1, -1}, "value", s.value);
    add({-1, -1}, "loss", loss);
    add({-1, -1}, "counted_loss", counted_loss);
    add({-1, -1}, "optimal_loss", mean_error(subject.evaluation.optimal).mean);
    for (std::size_t l = 0; l < s.layers.size(); ++l) {
      add({std::int64_t(l), -1}, "resid_pre_grad", mean_norm(s.layers[l].resid_pre_grad));
      add({std::int64_t(l), -1}, "resid_post_grad", mean_norm(s.layers[l].resid_post_grad));
    }
    for (const HeadReport& h : s.heads)
      for (const HeadQuantity& q : head_quantities())
        if (q.is_over_time()) add(h, q.name, h[q.quantity]);
  }
  return all;
}

std::optional<SteepestFall> steepest_fall(const OverTime& study) {
  std::optional<SteepestFall> steepest;
  std::vector<double> losses = study.of_model("counted_loss");
  if (!std::isfinite(losses[0])) losses = study.of_model("loss");
  double fastest = 0;  // nats per step
  for (std::size_t i = 1; i < losses.size(); ++i) {
    const std::int64_t from = study.steps[i - 1], to = study.steps[i];
    const double fall = (losses[i - 1] - losses[i]) / double(to - from);
    if (fall > fastest) fastest = fall, steepest = SteepestFall{from, to};
  }
  return steepest;
}

}  // namespace heed::nn
