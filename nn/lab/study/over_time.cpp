#include "nn/lab/study/over_time.h"

#include <cmath>
#include <utility>

#include "autograd/base/text.h"
#include "autograd/ops/ops.h"
#include "nn/io/safetensors.h"
#include "nn/lab/run/snapshot_file.h"

namespace heed::lab {

using namespace autograd;

namespace {

// Loads the weights of a checkpoint. First checks that it belongs to the same run as `first`.
void load_checkpoint(Transformer& model, const SafeTensors& file, Index step,
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

// Returns the mean losses over all targets, and over those that count.
std::pair<double, double> losses_of(const Transformer& model, const Batch& batch) {
  const NoGrad guard;
  const auto losses = to_doubles(
      cross_entropy(model(batch.inputs), batch.targets, {.reduction = Reduction::kNone}));
  const auto counted = batch.counted.to_vector<bool>();
  const auto targets = batch.targets.to_vector<std::int64_t>();
  double sum = 0, number = 0, counted_sum = 0, counted_number = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (targets[i] == kIgnored) continue;
    sum += losses[i], ++number;
    if (counted[i]) counted_sum += losses[i], ++counted_number;
  }
  return {sum / number, counted_sum / counted_number};
}

// Adds the numbers of all components at one checkpoint.
void add_components(std::vector<ComponentCurves>& curves, const ComponentStudy& s,
                    const std::vector<HeadRole>& roles) {
  curves.resize(s.rows.size());
  for (std::size_t i = 0; i < s.rows.size(); ++i) {
    ComponentCurves& c = curves[i];
    const Evidence& row = s.rows[i];
    c.name = row.place, c.counts |= s.judgement.counts[i];
    c.effect.push_back(row.effect.mean), c.accuracy.push_back(row.effect.accuracy);
    c.path.push_back(row.path), c.gradient.push_back(row.gradient);
    const bool is_head = i < roles.size();
    const GradientFlow& flow = s.attribution.flow;
    c.values.push_back(is_head ? flow.values[i] : NAN);
    c.scores.push_back(is_head ? flow.scores[i] : NAN);
    c.passes.push_back(is_head ? flow.passes[i] : NAN);
    if (is_head) c.head = roles[i].head;
  }
}

// Sets the curves of the score with which each head ends.
void add_scores(std::vector<ComponentCurves>& curves,
                const std::vector<std::vector<HeadRole>>& by_step) {
  for (std::size_t i = 0; i < curves.size(); ++i) {
    if (!curves[i].head) {
      curves[i].score.assign(by_step.size(), NAN);
      continue;
    }
    curves[i].pattern = by_step.back()[i].scores[0].first.name();
    for (const std::vector<HeadRole>& roles : by_step) {
      double score = NAN;
      for (const auto& [pattern, value] : roles[i].scores)
        if (pattern.name() == curves[i].pattern) score = value;
      curves[i].score.push_back(score);
    }
  }
}

using C = ComponentCurves;
constexpr CurveQuantity kCurves[] = {
    {"effect", "effect: change of L with the output of a donor", &C::effect},
    {"accuracy", "accuracy with the output of a donor", &C::accuracy},
    {"score", "score: weight on the keys of the head's last pattern, where it matters", &C::score},
    {"path_gradient", "path gradient: prediction of the effect", &C::path},
    {"gradient", "gradient at the model: prediction of the effect", &C::gradient},
    {"v_dv", "v . dL/dv: slope of scaling the values", &C::values},
    {"q_dq", "q . dL/dq: slope of scaling the scores", &C::scores},
    {"softmax_passes", "sum of A (1 - A): what passes through the softmax", &C::passes}};

}  // namespace

std::span<const CurveQuantity> curve_quantities() { return kCurves; }

OverTime over_time(Transformer& model, const std::vector<CheckpointFile>& checkpoints,
                   const DonorSample& sample, const Objective& objective,
                   const ProgressCallback& progress) {
  OverTime all;
  std::vector<std::vector<HeadRole>> roles;
  SafeTensors first;  // path and metadata of the first checkpoint, without its tensors
  for (const CheckpointFile& c : checkpoints) {
    if (progress) progress(std::ssize(all.steps), std::ssize(checkpoints));
    const SafeTensors file = load_weights(c.file.string());
    if (all.steps.empty()) first.path = file.path, first.metadata = file.metadata;
    load_checkpoint(model, file, c.step, first);
    const BaseRun run(model, sample.batch, objective);
    check_finite(effect_of(run.values, run.counts).mean, file.path, "L");
    const ComponentStudy s = study_components(run, sample.donors.first(), kSmallestEffect, false);
    roles.push_back(roles_of_heads(run, s, nullptr, false));
    all.steps.push_back(c.step);
    const auto [loss, counted_loss] = losses_of(model, sample.batch);
    all.value.push_back(s.value.mean), all.accuracy.push_back(s.value.accuracy);
    all.loss.push_back(loss), all.counted_loss.push_back(counted_loss);
    all.resid.resize(s.attribution.flow.resid.size());
    for (std::size_t l = 0; l < all.resid.size(); ++l)
      all.resid[l].push_back(s.attribution.flow.resid[l]);
    add_components(all.components, s, roles.back());
  }
  if (!roles.empty()) add_scores(all.components, roles);
  return all;
}

std::optional<SteepestFall> steepest_fall(const OverTime& study) {
  std::optional<SteepestFall> steepest;
  const std::vector<double>& losses =
      std::isfinite(study.counted_loss[0]) ? study.counted_loss : study.loss;
  double fastest = 0;  // nats per step
  for (std::size_t i = 1; i < losses.size(); ++i) {
    const Index from = study.steps[i - 1], to = study.steps[i];
    const double fall = (losses[i - 1] - losses[i]) / double(to - from);
    if (fall > fastest) fastest = fall, steepest = SteepestFall{from, to};
  }
  return steepest;
}

}  // namespace heed::lab
