#include "nn/lab/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "autograd/graph/first_non_finite.h"
#include "autograd/tensor/copy.h"
#include "nn/io/safetensors.h"
#include "nn/lab/tasks/tasks.h"
#include "nn/lab/train/cost/memory.h"
#include "nn/lab/train/rank_session.h"
#include "nn/lab/train/source.h"
#include "nn/lab/train/streams.h"

namespace heed::lab {

using namespace autograd;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Stream : std::uint64_t { kInit, kData, kDropout };
Generator stream(std::int64_t seed, Stream which) {
  return stream_of(std::uint64_t(seed) * 4 + std::uint64_t(which));
}

// Reduces config.batch to the size of the task's training set if it is larger. Task::sample() never
// returns more sequences than the training set has, and config.toml and tokens/s must state the
// true number.
void fit_batch(RunConfig& config, const Task& task) {
  const Index all = task.training_size();
  if (config.batch <= all) return;
  config.batch = all;
  const Index parts = std::max({Index(1), config.shards, config.accumulate});
  check<ValueError>(all % parts == 0, config.shards == parts ? "`shards`" : "`accumulate`", parts,
                    " does not divide ", all, ", the size of a batch of all training sequences of ",
                    task.info().name, "; give a smaller power of two");
}

// Creates the model of a run. If `is_new` is set and config.from is not empty, copies the weights
// of that file into the model, and sets config.from_weights.
Transformer model_to_train(RunConfig& config, const Task& task, bool is_new) {
  if (!config.removed.empty()) throw RemovedError(config.removed);
  fit_batch(config, task);
  check<IoError>(is_new || config.accumulate <= config.shards, "`accumulate`", "is ",
                 config.accumulate, " in the configuration of a run of ", config.shards,
                 " shards; restore a value of at most that number");
  const auto vocab = Index(task.info().vocabulary.size()), classes = task.info().classes;
  resolve_shards(config, vocab, classes);
  check_run_memory(config, vocab, classes);
  Transformer model = make_model(config, task);
  if (is_new && !config.from.empty()) {
    const Source source = read_source(config.from);
    config.from_weights = source.text();
    copy_source(source, config, task.info().vocabulary, model);
  }
  return model;
}

}  // namespace

RunConfig effective(RunConfig config, const Task* own) {
  if (own) {
    config.task = own->info().name;
  } else if (std::string& file = config.lines.empty() ? config.text : config.lines; !file.empty()) {
    config.task = config.lines.empty() ? "text" : "lines";
    file = std::filesystem::absolute(file).lexically_normal().string();
  }
  if (!config.from.empty())
    config.from = std::filesystem::absolute(config.from).lexically_normal().string();
  validate(config);
  return config;
}

std::unique_ptr<Task> make_task(const RunConfig& c) {
  if (!learns_file(c)) return make_task(c.task, c.model.context, c.task_parameters);
  const TextOptions options = text_options(c);
  check<ValueError>(!options.path.empty(), c.task, "the task ", c.task,
                    " needs the path of a file");
  return make_text(options);
}

std::unique_ptr<Task> make_prompts(const RunConfig& c,
                                   const std::map<std::string, std::string>& data) {
  if (learns_file(c)) return make_text_prompts(data, text_options(c));
  const auto own = data.find(kOwnTaskKey);
  return own == data.end() ? make_task(c) : make_own_prompts(c.task, c.model.context, own->second);
}

Transformer make_model(const RunConfig& config, const Task& task) {
  Generator g = stream(config.seed, Stream::kInit);
  const TaskInfo& info = task.info();
  check<ValueError>(info.context == config.model.context, "`context`", "needs ", info.context,
                    ", that of the task ", info.name, ", got ", config.model.context);
  return make_model(config, Index(info.vocabulary.size()), info.classes, g);
}

std::unique_ptr<Optimizer> make_optimizer(const RunConfig& c, const Transformer& model) {
  const std::vector<ParameterGroup> groups = decay_groups(parameters(model), c.weight_decay);
  if (c.optimizer == OptimizerKind::kSGD)
    return std::make_unique<SGD>(groups, SGDOptions{.momentum = c.momentum});
  return std::make_unique<AdamW>(groups,
                                 AdamWOptions{.beta1 = c.beta1, .beta2 = c.beta2, .eps = c.eps});
}

Trainer::Trainer(const RunConfig& c, std::unique_ptr<Task> own)
    : Trainer(c, std::move(own), true) {}

Trainer::Trainer(const RunConfig& c, std::unique_ptr<Task> own, bool is_new)
    : config_(effective(c, own.get())),
      task(own ? std::move(own) : make_task(config_)),
      model(model_to_train(config_, *task, is_new)),
      shards_(available_memory()),
      data_(stream(config_.seed, Stream::kData)),
      dropout_(stream(config_.seed, Stream::kDropout)),
      optimizer_(make_optimizer(config_, model)) {}

void Trainer::set(const RunConfig& config) {
  RunConfig changed = config;
  // The paths do not change here. If a text was moved, RunFolder::load() has already set its new
  // path.
  changed.text = config_.text, changed.lines = config_.lines;
  RunConfig before = config_;
  if (before.steps == 0) before.steps = changed.steps;  // its schedule has not begun
  if (changed.steps != before.steps && changed.schedule_steps == 0 &&
      changed.schedule != Decay::kConstant)
    changed.schedule_steps = before.steps;
  validate(changed);
  check<ValueError>(changed.steps > 0 || config_.steps == 0, "`steps`",
                    "needs at least 1 to continue a run, got 0");
  check<ValueError>(changed.accumulate <= changed.shards, "`accumulate`", "needs at most the ",
                    changed.shards, " shards of this run, got ", changed.accumulate);
  const auto difference = recipe_difference(recipe_text(changed), recipe_text(before), "");
  if (difference)
    fail<ValueError>("set", "cannot change '", difference->b, "' of a run to '", difference->a,
                     "'; only its length, its intervals and the rules of an early end may change");
  config_ = changed;
}

Snapshot Trainer::snapshot() const {
  Snapshot s{.config = config_, .step = steps_done};
  for (const NamedTensor& p : parameters(model)) s.tensors.push_back({"model." + p.name, p.tensor});
  for (const NamedTensor& x : optimizer_->state())
    s.tensors.push_back({"optimizer." + x.name, x.tensor});
  for (const NamedTensor& p : best_) s.tensors.push_back({"best." + p.name, p.tensor});
  s.history = history_;
  s.best_loss = best_loss_, s.best_step = best_step_;
  s.data_stream = data_.state(), s.dropout_stream = dropout_.state();
  s.data = saved_data(task->info());
  return s;
}

Trainer Trainer::from(const Snapshot& s, std::unique_ptr<Task> own) {
  const RunConfig config = own ? s.config : effective(s.config);
  Trainer t(config, saved_task(config, s.data, s.origin, std::move(own)), false);
  t.steps_done = s.step;
  t.history_ = s.history;
  t.best_loss_ = s.best_loss, t.best_step_ = s.best_step;
  if (s.best_loss)
    for (const NamedTensor& p : parameters(t.model))
      t.best_.push_back({p.name, empty_like(p.tensor.detach())});
  load_parameters(t.snapshot().tensors, {.path = s.origin, .tensors = s.tensors});
  for (const NamedTensor& x : t.optimizer_->state()) {
    if (x.tensor.dtype() != int64) continue;
    const std::int64_t updates = *x.tensor.data<std::int64_t>();
    check<IoError>(updates >= 0 && updates <= s.step, s.origin, "optimizer.", x.name, " is ",
                   updates, ", needs 0 to ", s.step, ", the steps done", kDamaged);
  }
  for (auto [name, generator, state] :
       {std::tuple("data_stream", &t.data_, &s.data_stream),
        std::tuple("dropout_stream", &t.dropout_, &s.dropout_stream)})
    try {
      generator->set_state(*state);
    } catch (const ValueError& e) {
      fail<IoError>(s.origin, "'", name, "' is damaged: ", e.what());
    }
  return t;
}

void Trainer::join(RankSession& ranks) {
  RankSession::check_size(ranks.size(), config_.shards);
  ranks.join(parameters(model));
  ranks_ = &ranks;
}

MetricsRow Trainer::step() {
  Generator data = data_, dropout = dropout_;  // copies, which replace the streams at the end
  const Batch batch = task->sample(config_.batch, data);
  const double lr = schedule(config_).lr_at(steps_done);
  MetricsRow done{.step = steps_done + 1, .lr = lr};
  try {
    const auto loss = shards_.set_gradients(model, batch, config_, steps_done, dropout, ranks_);
    if (!loss) return {};
    check<NumericError>(std::isfinite(*loss), "train", "the loss of step ", done.step, " is ",
                        *loss, "; ", divergence_advice(config_));
    done.loss = *loss;
    done.grad_norm =
        optimizer_->step({.lr = lr, .clip_norm = config_.clip > 0 ? config_.clip : kInfinity});
    done.clipped_norm = optimizer_->clipped_norm();
  } catch (const NumericError& e) {
    throw NumericError(e.what() + find_non_finite(batch));
  }
  data_ = data, dropout_ = dropout;
  steps_done = done.step;
  history_.push_back(done);
  return done;
}

// Computes the gradients of a step that threw NumericError again, and returns the end of its
// message: the op that made the first NaN or infinity. Each rank ends the session and computes all
// shards, so that every rank finds what one process would find.
std::string Trainer::find_non_finite(const Batch& batch) {
  if (ranks_) ranks_->end();
  ranks_ = nullptr;
  Generator dropout = dropout_;
  const FirstNonFinite finder;
  shards_.set_gradients(model, batch, config_, steps_done, dropout);
  return finder.text().empty() ? "" : "; the first result that is not finite: " + finder.text();
}

std::vector<std::string> Trainer::parameters_without_gradient() const {
  std::vector<std::string> names;
  for (const NamedTensor& p : parameters(model))
    if (const Tensor g = p.tensor.grad(); !g.defined() || all(eq(g, 0.0)).item() != 0)
      names.push_back(p.name);
  return names;
}

bool Trainer::evaluated() const {
  return !history_.empty() && history_.back().step == steps_done &&
         !std::isnan(history_.back().eval_loss);
}

Evaluation Trainer::evaluate(bool all, const ProgressCallback& progress) {
  Evaluation e = lab::evaluate(model, *task, all ? 0 : config_.eval_batch, progress);
  // `progress` may throw, so the row is changed after both evaluations.
  std::optional<Evaluation> train;
  if (config_.eval_train > 0 && task->holds_out())
    train = evaluate_training(model, *task, config_.eval_train, progress);
  if (history_.empty() || history_.back().step != steps_done) history_.emplace_back(steps_done);
  MetricsRow& row = history_.back();
  row.eval_loss = e.loss;
  row.eval_optimal = e.optimal.value_or(kNan);
  row.eval_accuracy = e.accuracy.value_or(kNan);
  if (train) row.train_loss = train->loss, row.train_accuracy = train->accuracy.value_or(kNan);
  if (!(e.loss < best_loss_.value_or(kInfinity))) return e;
  best_loss_ = e.loss;
  best_step_ = steps_done;
  best_.clear();
  for (const NamedTensor& p : parameters(model)) best_.push_back({p.name, detached_copy(p.tensor)});
  return e;
}

std::string Trainer::stop_reason() const {
  if (history_.empty() || std::isnan(history_.back().eval_loss)) return "";
  const MetricsRow& last = history_.back();
  if (config_.target_loss > 0 && last.eval_loss <= config_.target_loss)
    return fmt::format("target-loss: the eval_loss {:.6f} is at most {:g}", last.eval_loss,
                       config_.target_loss);
  if (config_.patience == 0 || !best_loss_) return "";
  const auto since = std::count_if(history_.begin(), history_.end(), [&](const MetricsRow& row) {
    return row.step > best_step_ && std::isfinite(row.eval_loss);
  });
  if (since < config_.patience) return "";
  return fmt::format("patience: {} evaluation{} without a loss below {:.6f}, that of step {}",
                     since, since == 1 ? "" : "s", *best_loss_, best_step_);
}

}  // namespace heed::lab
