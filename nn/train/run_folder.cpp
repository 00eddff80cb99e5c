#include "nn/train/run_folder.h"

#include <fmt/format.h>

#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "nn/io/safetensors.h"
#include "nn/tasks/tasks.h"
#include "nn/train/build.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr const char* kConfig = "config.toml";
constexpr const char* kModel = "model.safetensors";
constexpr const char* kBest = "best.safetensors";
constexpr const char* kState = "state.safetensors";

std::string metadata_of(const SafeTensors& file, const std::string& path, const std::string& key) {
  const auto found = file.metadata.find(key);
  check<IoError>(found != file.metadata.end(), path, "has no '", key,
                 "'; it was not written by heed train, or is damaged");
  return found->second;
}

std::int64_t count_of(const SafeTensors& file, const std::string& path, const std::string& key) {
  const std::string text = metadata_of(file, path, key);
  const auto value = parse_number<std::int64_t>(text);
  check<IoError>(value && *value >= 0, path, "'", key, "' is '", text,
                 "', no count; the file is damaged");
  return *value;
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

// What may not change when a run is resumed: all but its length and rhythm, where it ends early, and where its text lies
// (whose bytes are compared by themselves).
std::string recipe_of(RunConfig config) {
  const RunConfig same;
  config.steps = same.steps, config.eval_every = same.eval_every;
  config.save_every = same.save_every, config.text = same.text;
  config.patience = same.patience, config.target_loss = same.target_loss;
  config.target_accuracy = same.target_accuracy;
  return to_toml(config);
}

// A run's own config.toml. IoError with its path unless it is as it was written.
RunConfig read_config(const std::filesystem::path& folder) {
  const std::string path = (folder / kConfig).string(), text = read_file(path);
  try {
    RunConfig config = from_toml(text, path);
    validate(config);
    return config;
  } catch (const Error& e) {
    const std::string what = e.what();  // names the path already, unless it is validate's
    fail<IoError>(what.starts_with(path) ? "config" : path, what,
                  "; heed train wrote it otherwise: restore it");
  }
}

}  // namespace

std::map<std::string, std::string> Trainer::metadata(std::int64_t step) const {
  std::map<std::string, std::string> facts = task->facts().data;
  facts["format"] = "pt";
  facts["step"] = std::to_string(step);
  facts["recipe"] = recipe_of(config_);
  return facts;
}

void Trainer::save_weights(const std::filesystem::path& file) const {
  save_safetensors(file.string(), parameters(model), metadata(steps_done));
}

void Trainer::save(const std::filesystem::path& folder,
                   const std::vector<std::string>& notes) const {
  write_file((folder / kConfig).string(), std::string_view(to_toml(config_, notes)));
  write_file((folder / "metrics.csv").string(), std::string_view(metrics_csv(history_)));
  write_file((folder / "metrics.jsonl").string(), std::string_view(metrics_jsonl(history_)));
  if (best_loss_) save_safetensors((folder / kBest).string(), best_, metadata(best_step_));
  std::vector<NamedTensor> state;
  for (const NamedTensor& s : optimizer_->state())
    state.push_back({"optimizer." + s.name, s.tensor});
  for (const NamedTensor& p : parameters(model)) state.push_back({"model." + p.name, p.tensor});
  std::vector<double> rows;
  constexpr auto kWidth = std::int64_t(1 + std::size(kMetricsColumns));
  for (const MetricsRow& r : history_) {
    rows.push_back(double(r.step));
    for (const MetricsColumn& column : kMetricsColumns) rows.push_back(r.*column.value);
  }
  state.push_back({"history", from_data(rows, {std::int64_t(history_.size()), kWidth})});
  std::map<std::string, std::string> facts = metadata(steps_done);
  facts["best_loss"] = best_loss_ ? fmt::format("{:.17g}", *best_loss_) : "";
  facts["data_stream"] = data_.state();
  facts["dropout_stream"] = dropout_.state();
  facts["compiler"] = compiler_text();
  facts["simd_target"] = simd_target_text();
  save_safetensors((folder / kState).string(), state, facts);
  save_weights(folder / kModel);
}

void Trainer::restore_history(const SafeTensors& state) {
  const Tensor rows = state.find("history");
  if (!rows.defined()) return;
  constexpr std::size_t kWidth = 1 + std::size(kMetricsColumns);
  check<IoError>(
      rows.rank() == 2 && rows.size(1) == std::int64_t(kWidth) && rows.dtype() == float64,
      state.path, "'history' is ", rows.shape(), " ", rows.dtype(), ", needs [rows, ", kWidth,
      "] float64");
  const auto v = rows.to_vector<double>();
  for (std::size_t i = 0; i + kWidth <= v.size(); i += kWidth) {
    MetricsRow& row = history_.emplace_back(std::int64_t(v[i]));
    for (std::size_t c = 0; c + 1 < kWidth; ++c) row.*kMetricsColumns[c].value = v[i + 1 + c];
  }
}

void Trainer::restore_best(const std::filesystem::path& folder, const SafeTensors& state) {
  const std::string text = metadata_of(state, state.path, "best_loss");
  if (text.empty()) return;
  best_loss_ = parse_number<double>(text);
  check<IoError>(best_loss_.has_value(), state.path, "its best loss is '", text,
                 "', no number; the file is damaged");
  const SafeTensors best = load_safetensors((folder / kBest).string());
  best_ = best.tensors;
  best_step_ = count_of(best, best.path, "step");
}

Trainer Trainer::resume(const std::filesystem::path& folder, std::unique_ptr<Task> own) {
  Trainer t(read_config(folder), std::move(own));
  const std::string path = (folder / kState).string();
  const SafeTensors file = load_safetensors(path);
  check_same_text(t.config_, *t.task, file, path);
  check<IoError>(metadata_of(file, path, "recipe") == recipe_of(t.config_),
                 (folder / kConfig).string(),
                 "is not what this run was trained with (a value was changed or is missing), so it "
                 "cannot go on as if never stopped; restore it, or train anew with it");
  std::vector<NamedTensor> targets;
  for (const NamedTensor& s : t.optimizer_->state())
    targets.push_back({"optimizer." + s.name, s.tensor});
  for (const NamedTensor& p : parameters(t.model)) targets.push_back({"model." + p.name, p.tensor});
  SafeTensors weights = file;
  std::erase_if(weights.tensors, [](const NamedTensor& n) { return n.name == "history"; });
  load_parameters(targets, weights);
  t.restore_history(file);
  t.steps_done = count_of(file, path, "step");
  t.restore_best(folder, file);
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
  const RunConfig config = read_config(folder);
  const std::string path = (folder / weights).string();
  const SafeTensors file = load_safetensors(path);
  const auto recipe = file.metadata.find("recipe");  // weights from elsewhere have none
  check<IoError>(recipe == file.metadata.end() || recipe->second == recipe_of(config),
                 (folder / kConfig).string(), "is not what ", path,
                 " was trained with (a value was changed); restore it");
  std::unique_ptr<Task> task;
  if (config.task == "text" && use == Use::kPrompts) {
    metadata_of(file, path, "vocabulary");
    task = make_text_prompts(file.metadata, config.context);
  } else {
    task = make_task(config);
    check_same_text(config, *task, file, path);
  }
  Transformer model = make_model(config, *task);
  load_parameters(parameters(model), file);
  std::optional<std::int64_t> step;
  if (file.metadata.contains("step")) step = count_of(file, path, "step");
  return {config, std::move(task), std::move(model), step};
}

}  // namespace heed::nn
