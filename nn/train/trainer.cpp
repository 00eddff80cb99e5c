#include "nn/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "autograd/base/files.h"
#include "autograd/engine/engine.h"
#include "nn/io/safetensors.h"
#include "nn/tasks/tasks.h"
#include "nn/train/build.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Independent streams from one seed (splitmix64's finalizer, Steele et al. 2014).
enum class Stream : std::uint64_t { kInit, kData, kDropout };
Generator stream(std::int64_t seed, Stream which) {
  std::uint64_t z = std::uint64_t(seed) * 4 + std::uint64_t(which) + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return Generator((z ^ (z >> 31)) & 0xffffffffu);
}

RunConfig validated(RunConfig config, const Task* own = nullptr) {
  if (own) {
    config.task = own->facts().name;
  } else if (!config.text.empty()) {
    config.task = "text";
    config.text = std::filesystem::absolute(config.text).lexically_normal().string();
  }
  validate(config);  // the whole path goes into config.toml
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

std::string metadata_of(const SafeTensors& file, const std::string& path, const std::string& key) {
  const auto found = file.metadata.find(key);
  check<IoError>(found != file.metadata.end(), path, "has no '", key,
                 "'; it was not written by heed train, or is damaged");
  return found->second;
}

std::int64_t count_of(const SafeTensors& file, const std::string& path, const std::string& key) {
  const std::string text = metadata_of(file, path, key);
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check<IoError>(error == std::errc() && stop == text.data() + text.size() && value >= 0, path, "'",
                 key, "' is '", text, "', no count; the file is damaged");
  return value;
}

// Sequences of another text would mean other characters, or be training data.
void check_same_text(const RunConfig& config, const Task& task, const SafeTensors& file,
                     const std::string& path) {
  for (const auto& [key, now] : task.facts().data) {
    const std::string then = metadata_of(file, path, key);
    check<IoError>(now == then, "text", "'", config.text,
                   "' is no longer the text of this run: ", key, " was ", then.substr(0, 80),
                   ", is ", now.substr(0, 80), "; put the old one back (", path, ")");
  }
}

void set_stream(Generator& g, const SafeTensors& file, const std::string& path,
                const std::string& key) {
  try {
    g.set_state(metadata_of(file, path, key));
  } catch (const ValueError& e) {
    fail<IoError>(path, "'", key, "' is damaged: ", e.what());
  }
}

// What may not change when a run is resumed: all but its length, its rhythm and where its text lies
// (whose bytes are compared by themselves).
std::string recipe_of(RunConfig config) {
  const RunConfig same;
  config.steps = same.steps, config.eval_every = same.eval_every;
  config.save_every = same.save_every, config.text = same.text;
  return to_toml(config);
}

// A run's own config.toml. IoError with its path unless it is as it was written.
RunConfig config_of(const std::filesystem::path& folder) {
  const std::string path = (folder / "config.toml").string(), text = read_file(path);
  try {
    const RunConfig config = from_toml(text);
    validate(config);
    return config;
  } catch (const Error& e) {
    fail<IoError>(path, e.what(), "; heed train wrote it otherwise: restore it");
  }
}

}  // namespace

Trainer::Trainer(const RunConfig& c, std::unique_ptr<Task> own)
    : config(validated(c, own.get())),
      task(own ? std::move(own) : task_of(config)),
      model(model_of(config, *task)),
      schedule(schedule_of(config)),
      data_(stream(config.seed, Stream::kData)),
      dropout_(stream(config.seed, Stream::kDropout)),
      optimizer_(decay_groups(parameters(model), config.weight_decay),
                 {.beta1 = config.beta1, .beta2 = config.beta2, .eps = config.eps}) {}

StepReport Trainer::step(const Batch* fixed) {
  const Generator data = data_, dropout = dropout_;
  try {
    return try_step(fixed);
  } catch (...) {
    data_ = data, dropout_ = dropout;
    throw;
  }
}

StepReport Trainer::try_step(const Batch* fixed) {
  const Batch drawn = fixed ? Batch{} : task->sample(config.batch, data_);
  const Batch& batch = fixed ? *fixed : drawn;
  optimizer_.zero_grad();
  const Tensor logits = model.forward(batch.inputs, {.training = true, .generator = &dropout_});
  const Tensor loss = cross_entropy(logits, batch.targets);
  StepReport report;
  report.loss = loss.item();
  check<NumericError>(std::isfinite(report.loss), "train", "the loss of step ", steps_done + 1,
                      " is ", report.loss, "; lower lr (now ", config.lr, ") or set clip");
  backward(loss);
  report.lr = schedule.lr_at(steps_done);
  report.grad_norm = optimizer_.step(
      report.lr, config.clip > 0 ? config.clip : std::numeric_limits<double>::infinity());
  report.step = ++steps_done;
  Row& row = row_of(report.step);
  row.loss = report.loss, row.lr = report.lr, row.grad_norm = report.grad_norm;
  return report;
}

std::vector<std::string> Trainer::severed() const {
  std::vector<std::string> names;
  for (const NamedTensor& p : parameters(model))
    if (!p.tensor.grad().defined() || all_zero(p.tensor.grad())) names.push_back(p.name);
  return names;
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
  if (!(e.loss < best_loss_.value_or(std::numeric_limits<double>::infinity()))) return e;
  best_loss_ = e.loss;
  best_step_ = steps_done;
  best_.clear();
  for (const NamedTensor& p : parameters(model)) {
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
    for (const double x : {r.loss, r.lr, r.grad_norm, r.eval_loss, r.eval_optimal, r.eval_accuracy})
      text += "," + csv_number(x);
    text += "\n";
  }
  return text;
}

std::map<std::string, std::string> Trainer::metadata(std::int64_t step) const {
  std::map<std::string, std::string> facts = task->facts().data;
  facts["format"] = "pt";
  facts["step"] = std::to_string(step);
  facts["recipe"] = recipe_of(config);
  return facts;
}

void Trainer::save_weights(const std::filesystem::path& file) const {
  save_safetensors(file.string(), parameters(model), metadata(steps_done));
}

void Trainer::save(const std::filesystem::path& folder,
                   const std::vector<std::string>& notes) const {
  write_file((folder / "config.toml").string(), std::string_view(to_toml(config, notes)));
  write_file((folder / "metrics.csv").string(), std::string_view(metrics_csv()));
  if (best_loss_) save_safetensors((folder / kBest).string(), best_, metadata(best_step_));
  std::vector<NamedTensor> state;
  for (const NamedTensor& s : optimizer_.state())
    state.push_back({"optimizer." + s.name, s.tensor});
  for (const NamedTensor& p : parameters(model)) state.push_back({"model." + p.name, p.tensor});
  std::vector<double> rows;
  for (const Row& r : history_)
    for (const double x :
         {double(r.step), r.loss, r.lr, r.grad_norm, r.eval_loss, r.eval_optimal, r.eval_accuracy})
      rows.push_back(x);
  state.push_back({"history", from_data(rows, {std::int64_t(history_.size()), 7})});
  std::map<std::string, std::string> facts = metadata(steps_done);
  facts["best_loss"] = best_loss_ ? fmt::format("{:.17g}", *best_loss_) : "";
  facts["data_stream"] = data_.state();
  facts["dropout_stream"] = dropout_.state();
  facts["compiler"] = compiler_text();
  facts["simd_target"] = simd_target_text();
  save_safetensors((folder / kState).string(), state, facts);
  save_weights(folder / kModel);
}

Trainer Trainer::resume(const std::filesystem::path& folder, std::unique_ptr<Task> own) {
  Trainer t(config_of(folder), std::move(own));
  const std::string path = (folder / kState).string();
  const SafeTensors file = load_safetensors(path);
  check_same_text(t.config, *t.task, file, path);
  check<IoError>(metadata_of(file, path, "recipe") == recipe_of(t.config),
                 (folder / "config.toml").string(),
                 "is not what this run was trained with (a value was changed or is missing), so it "
                 "cannot go on as if never stopped; restore it, or train anew with --config");
  std::vector<NamedTensor> targets;
  for (const NamedTensor& s : t.optimizer_.state())
    targets.push_back({"optimizer." + s.name, s.tensor});
  for (const NamedTensor& p : parameters(t.model)) targets.push_back({"model." + p.name, p.tensor});
  SafeTensors weights = file;
  std::erase_if(weights.tensors, [](const NamedTensor& n) { return n.name == "history"; });
  load_parameters(targets, weights);
  for (const NamedTensor& n : file.tensors) {
    if (n.name != "history") continue;
    check<IoError>(n.tensor.rank() == 2 && n.tensor.size(1) == 7 && n.tensor.dtype() == float64,
                   path, "'history' is ", n.tensor.shape(), " ", n.tensor.dtype(),
                   ", needs [rows, 7] float64");
    const auto v = n.tensor.to_vector<double>();
    for (std::size_t i = 0; i + 7 <= v.size(); i += 7)
      t.history_.push_back(
          {std::int64_t(v[i]), v[i + 1], v[i + 2], v[i + 3], v[i + 4], v[i + 5], v[i + 6]});
  }
  t.steps_done = count_of(file, path, "step");
  const std::string best = metadata_of(file, path, "best_loss");
  if (!best.empty()) {
    double loss = 0;
    const auto [stop, error] = std::from_chars(best.data(), best.data() + best.size(), loss);
    check<IoError>(error == std::errc() && stop == best.data() + best.size(), path,
                   "its best loss is '", best, "', no number; the file is damaged");
    t.best_loss_ = loss;
    const std::string best_path = (folder / kBest).string();
    const SafeTensors best_file = load_safetensors(best_path);
    t.best_ = best_file.tensors;
    t.best_step_ = count_of(best_file, best_path, "step");
  }
  set_stream(t.data_, file, path, "data_stream");
  set_stream(t.dropout_, file, path, "dropout_stream");
  for (const auto& [key, now] :
       {std::pair{"compiler", compiler_text()}, std::pair{"simd_target", simd_target_text()}})
    if (const std::string then = metadata_of(file, path, key); then != now)
      t.warnings.push_back(
          fmt::format("{} was {} in {}, is {} now: the run goes on, but not with the same bits",
                      key, then, path, now));
  return t;
}

LoadedRun load_run(const std::filesystem::path& folder, const std::string& weights, Use use) {
  const RunConfig config = config_of(folder);
  const std::string path = (folder / weights).string();
  const SafeTensors file = load_safetensors(path);
  const auto recipe = file.metadata.find("recipe");  // weights from elsewhere have none
  check<IoError>(recipe == file.metadata.end() || recipe->second == recipe_of(config),
                 (folder / "config.toml").string(), "is not what ", path,
                 " was trained with (a value was changed); restore it");
  std::unique_ptr<Task> task;
  if (config.task == "text" && use == Use::kPrompts) {
    metadata_of(file, path, "vocabulary");
    task = make_text_prompts(file.metadata, config.context);
  } else {
    task = task_of(config);
    check_same_text(config, *task, file, path);
  }
  Transformer model = model_of(config, *task);
  load_parameters(parameters(model), file);
  std::optional<std::int64_t> step;
  if (file.metadata.contains("step")) step = count_of(file, path, "step");
  return {config, std::move(task), std::move(model), step};
}

}  // namespace heed::nn
