#include "nn/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/engine.h"
#include "nn/files.h"
#include "nn/safetensors.h"
#include "nn/tasks/tasks.h"

namespace heed::nn {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Independent streams from one seed (splitmix64's finaliser, Steele et al. 2014).
enum class Stream : std::uint64_t { kInit, kData, kDropout };
Generator stream(std::int64_t seed, Stream which) {
  std::uint64_t z = std::uint64_t(seed) * 4 + std::uint64_t(which) + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return Generator((z ^ (z >> 31)) & 0xffffffffu);
}

RunConfig validated(RunConfig config) {
  validate(config);
  if (!config.text.empty()) {
    config.task = "text";
    config.text = std::filesystem::absolute(config.text).lexically_normal().string();
  }
  return config;
}

std::unique_ptr<Task> task_of(const RunConfig& c) {
  if (c.task != "text") return make_task(c.task, c.context);
  check<ValueError>(!c.text.empty(), "task", "'text' needs a file: --text FILE");
  return make_text({.path = c.text, .context = c.context, .ngrams = 4});
}

Transformer model_of(const RunConfig& config, const Task& task) {
  Generator g = stream(config.seed, Stream::kInit);
  const TaskFacts& facts = task.facts();
  check<ValueError>(facts.context == config.context, "context", "the task ", facts.name,
                    " has sequences of ", facts.context, " tokens, not ", config.context);
  return make_model(config, std::int64_t(facts.vocabulary.size()), facts.classes, g);
}

Schedule schedule_of(const RunConfig& c) {
  return {.decay = c.schedule == "cosine"   ? Decay::kCosine
                   : c.schedule == "linear" ? Decay::kLinear
                                            : Decay::kConstant,
          .lr = c.lr,
          .min_lr = c.min_lr,
          .warmup_steps = c.warmup,
          .total_steps = c.steps};
}

bool all_zero(const Tensor& x) { return all(eq(x, 0.0)).item() != 0; }

constexpr const char* kModel = "model.safetensors";
constexpr const char* kBest = "best.safetensors";
constexpr const char* kState = "state.safetensors";

std::string csv_number(double x) { return std::isnan(x) ? "" : fmt::format("{:.17g}", x); }

const std::string& metadata_of(const SafeTensors& file, const std::string& path,
                               const std::string& key) {
  const auto found = file.metadata.find(key);
  check<IoError>(found != file.metadata.end(), path, "has no '", key,
                 "'; it was not written by heed train, or is damaged");
  return found->second;
}

}  // namespace

Trainer::Trainer(const RunConfig& c)
    : config(validated(c)),
      task(task_of(config)),
      model(model_of(config, *task)),
      schedule(schedule_of(config)),
      data_(stream(config.seed, Stream::kData)),
      dropout_(stream(config.seed, Stream::kDropout)),
      optimiser_(decay_groups(parameters(model), config.weight_decay),
                 {.beta1 = config.beta1, .beta2 = config.beta2, .eps = config.eps}) {}

StepReport Trainer::step(const Batch* fixed) {
  const Batch drawn = fixed ? Batch{} : task->sample(config.batch, data_);
  const Batch& batch = fixed ? *fixed : drawn;
  optimiser_.zero_grad();
  const Tensor logits = model.forward(batch.inputs, {.training = true, .generator = &dropout_});
  const Tensor loss = cross_entropy(logits, batch.targets);
  StepReport report;
  report.loss = loss.item();
  check<NumericError>(std::isfinite(report.loss), "train", "the loss of step ", steps_done + 1,
                      " is ", report.loss, "; lower lr (now ", config.lr, ") or set clip");
  backward(loss);
  const std::vector<NamedParameter> all_parameters = parameters(model);
  severed_.clear();
  for (const NamedParameter& p : all_parameters)
    if (!p.tensor.grad().defined() || all_zero(p.tensor.grad())) severed_.push_back(p.name);
  report.grad_norm = clip_grad_norm(
      all_parameters, config.clip > 0 ? config.clip : std::numeric_limits<double>::infinity());
  report.lr = schedule.lr_at(steps_done);
  optimiser_.step(report.lr);
  report.step = ++steps_done;
  Row& row = row_of(report.step);
  row.loss = report.loss, row.lr = report.lr, row.grad_norm = report.grad_norm;
  return report;
}

Trainer::Row& Trainer::row_of(std::int64_t step) {
  if (history_.empty() || history_.back().step != step)
    history_.push_back({step, kNan, kNan, kNan, kNan, kNan, kNan});
  return history_.back();
}

Evaluation Trainer::evaluate(bool all) {
  const Evaluation e = nn::evaluate(model, *task, all ? 0 : config.eval_batch);
  Row& row = row_of(steps_done);
  row.eval_loss = e.loss;
  row.eval_optimal = e.optimal.value_or(kNan);
  row.eval_accuracy = e.accuracy.value_or(kNan);
  if (best_loss_ && !(e.loss < *best_loss_)) return e;
  best_loss_ = e.loss;
  best_.clear();
  for (const NamedParameter& p : parameters(model)) {
    Tensor copy = empty_like(p.tensor);
    copy_(copy, p.tensor.detach());
    best_.push_back({p.name, copy});
  }
  return e;
}

std::string Trainer::metrics_csv() const {
  std::string text = "step,loss,lr,grad_norm,eval_loss,eval_optimal,eval_accuracy\n";
  for (const Row& r : history_) {
    text += std::to_string(r.step);
    for (const double x :
         {r.loss, r.lr, r.grad_norm, r.eval_loss, r.eval_optimal, r.eval_accuracy})
      text += "," + csv_number(x);
    text += "\n";
  }
  return text;
}

void Trainer::save_weights(const std::filesystem::path& file) const {
  save_safetensors(file.string(), parameters(model), {{"format", "pt"}});
}

void Trainer::save(const std::filesystem::path& folder,
                   const std::vector<std::string>& notes) const {
  write_file((folder / "config.toml").string(), std::string_view(to_toml(config, notes)));
  write_file((folder / "metrics.csv").string(), std::string_view(metrics_csv()));
  if (!best_.empty())
    save_safetensors((folder / kBest).string(), best_, {{"format", "pt"}});
  std::vector<NamedParameter> state;
  for (const NamedParameter& s : optimiser_.state()) state.push_back({"optimizer." + s.name, s.tensor});
  for (const NamedParameter& p : parameters(model)) state.push_back({"model." + p.name, p.tensor});
  std::vector<double> rows;
  for (const Row& r : history_)
    for (const double x : {double(r.step), r.loss, r.lr, r.grad_norm, r.eval_loss, r.eval_optimal,
                           r.eval_accuracy})
      rows.push_back(x);
  state.push_back({"history", from_data(rows, {std::int64_t(history_.size()), 7})});
  save_safetensors((folder / kState).string(), state,
                   {{"steps_done", std::to_string(steps_done)},
                    {"best_loss", best_loss_ ? fmt::format("{:.17g}", *best_loss_) : ""},
                    {"data_stream", data_.state()},
                    {"dropout_stream", dropout_.state()}});
  save_weights(folder / kModel);
}

Trainer Trainer::resume(const std::filesystem::path& folder) {
  Trainer t(from_toml(read_file((folder / "config.toml").string())));
  const std::string path = (folder / kState).string();
  const SafeTensors file = load_safetensors(path);
  std::vector<NamedParameter> targets;
  for (const NamedParameter& s : t.optimiser_.state())
    targets.push_back({"optimizer." + s.name, s.tensor});
  for (const NamedParameter& p : parameters(t.model)) targets.push_back({"model." + p.name, p.tensor});
  SafeTensors weights = file;
  std::erase_if(weights.tensors, [](const NamedParameter& n) { return n.name == "history"; });
  load_parameters(targets, weights);
  for (const NamedParameter& n : file.tensors) {
    if (n.name != "history") continue;
    check<IoError>(n.tensor.rank() == 2 && n.tensor.size(1) == 7 && n.tensor.dtype() == float64,
                   path, "'history' is ", n.tensor.shape(), " ", n.tensor.dtype(),
                   ", needs [rows, 7] float64");
    const auto v = n.tensor.to_vector<double>();
    for (std::size_t i = 0; i + 7 <= v.size(); i += 7)
      t.history_.push_back({std::int64_t(v[i]), v[i + 1], v[i + 2], v[i + 3], v[i + 4], v[i + 5],
                            v[i + 6]});
  }
  try {
    t.steps_done = std::stoll(metadata_of(file, path, "steps_done"));
    const std::string& best = metadata_of(file, path, "best_loss");
    if (!best.empty()) t.best_loss_ = std::stod(best);
  } catch (const std::logic_error&) {  // not a number
    fail<IoError>(path, "its step count or best loss is not a number; the file is damaged");
  }
  t.data_.set_state(metadata_of(file, path, "data_stream"));
  t.dropout_.set_state(metadata_of(file, path, "dropout_stream"));
  if (t.best_loss_) t.best_ = load_safetensors((folder / kBest).string()).tensors;
  return t;
}

LoadedRun load_run(const std::filesystem::path& folder, const std::string& weights) {
  const RunConfig config = validated(from_toml(read_file((folder / "config.toml").string())));
  std::unique_ptr<Task> task = task_of(config);
  Transformer model = model_of(config, *task);
  load_parameters(parameters(model), load_safetensors((folder / weights).string()));
  return {config, std::move(task), std::move(model)};
}

}  // namespace heed::nn
