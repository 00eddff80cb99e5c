#include "nn/train/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "nn/io/safetensors.h"
#include "nn/io/toml.h"
#include "nn/optim/first_non_finite.h"
#include "nn/tasks/tasks.h"
#include "nn/train/build.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr const char* kConfig = "config.toml";
constexpr const char* kModel = "model.safetensors";
constexpr const char* kBest = "best.safetensors";
constexpr const char* kState = "state.safetensors";
constexpr auto kColumns = std::int64_t(1 + std::size(kMetricsColumns));  // of the history

std::string no_checksum(const std::string& path) {
  return path + " has no checksum, so damage to it would not be seen";
}

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

// How a run learns where its file is now.
std::string moved_advice(const std::filesystem::path& folder, const RunConfig& config) {
  return fmt::format("heed train `resume` {} `{}` NEW", folder.string(), config.task);
}

// What f() makes of a run's data, whose file may have been moved.
template <class F>
auto read_data(const std::filesystem::path& folder, const RunConfig& config, const F& f) {
  try {
    return f();
  } catch (const IoError& e) {
    if (!learns_file(config)) throw;
    fail<IoError>(config.task, e.what(), "; if it was moved: ", moved_advice(folder, config));
  }
}

// Sequences of another text would mean other characters, or be training data.
void check_same_text(const std::filesystem::path& folder, const RunConfig& config, const Task& task,
                     const SafeTensors& file, const std::string& path) {
  for (const auto& [key, now] : task.facts().data) {
    const std::string then = metadata_of(file, path, key);
    check<IoError>(now == then, "text", "'", text_options(config).path,
                   "' is not the text of this run: ", key, " was ", then.substr(0, 80), " (", path,
                   "), is ", now.substr(0, 80),
                   "; put the right one there, or name it: ", moved_advice(folder, config));
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

// What may not change when a run is resumed: all but its length (its schedule's may not), its
// rhythm, where it ends early, how it is watched and where its text lies (whose bytes are compared
// by themselves).
std::string recipe_of(RunConfig config) {
  const RunConfig same;
  config.schedule_steps =
      config.schedule == Decay::kConstant ? same.schedule_steps : schedule(config).total_steps;
  config.steps = same.steps, config.eval_every = same.eval_every;
  config.save_every = same.save_every, config.text = same.text, config.lines = same.lines;
  config.patience = same.patience, config.target_loss = same.target_loss;
  config.target_accuracy = same.target_accuracy, config.check_invariants = same.check_invariants;
  return to_toml(config);
}

// `recipe`, of the file `trained`, must be that of the folder's config. Before a model is made of
// it.
void check_recipe(const std::filesystem::path& folder, const RunConfig& config,
                  const std::string& trained, const std::string& recipe) {
  std::istringstream then(recipe), now(recipe_of(config));
  std::string old_line, line;
  while (std::getline(now, line))
    if (!std::getline(then, old_line) || old_line != line)
      fail<IoError>((folder / kConfig).string(), "says '", line, "', but ", trained,
                    " was trained with '", old_line.substr(0, 80),
                    "'; restore it, or train anew with it");
}

// A run's own config.toml. IoError with its path unless it is as it was written.
RunConfig read_config(const std::filesystem::path& folder) {
  const std::string path = (folder / kConfig).string(), text = read_toml_text(path);
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

void Trainer::save_weights(const std::filesystem::path& file,
                           const std::map<std::string, std::string>& more) const {
  std::map<std::string, std::string> facts = metadata(steps_done);
  facts.insert(more.begin(), more.end());
  save_safetensors(file.string(), parameters(model), facts);
}

std::vector<NamedTensor> Trainer::state() const {
  std::vector<NamedTensor> state;
  for (const NamedTensor& p : parameters(model)) state.push_back({"model." + p.name, p.tensor});
  for (const NamedTensor& s : optimizer_->state())
    state.push_back({"optimizer." + s.name, s.tensor});
  if (best_loss_)
    for (const NamedTensor& p : best_) state.push_back({"best." + p.name, p.tensor});
  std::vector<double> rows;
  for (const MetricsRow& r : history_) {
    rows.push_back(double(r.step));
    for (const MetricsColumn& column : kMetricsColumns) rows.push_back(r.*column.value);
  }
  state.push_back({"history", from_data(rows, {std::int64_t(history_.size()), kColumns})});
  return state;
}

std::map<std::string, std::string> Trainer::streams() const {
  return {{"best_loss", best_loss_ ? fmt::format("{:.17g}", *best_loss_) : ""},
          {"best_step", std::to_string(best_step_)},
          {"data_stream", data_.state()},
          {"dropout_stream", dropout_.state()}};
}

void Trainer::save(const std::filesystem::path& folder,
                   const std::vector<std::string>& notes) const {
  for (const NamedTensor& p : parameters(model))
    check<NumericError>(first_non_finite(p.tensor).empty(), "save", p.name,
                        " is not finite after step ", steps_done, "; lower lr (now ", config_.lr,
                        ") or weight-decay");
  write_file((folder / kConfig).string(), std::string_view(to_toml(config_, notes)));
  std::map<std::string, std::string> facts = metadata(steps_done);
  facts.merge(streams());
  facts["compiler"] = compiler_text();
  facts["simd_target"] = simd_target_text(config_);
  save_safetensors((folder / kState).string(), state(), facts);
  save_results(folder);
  save_weights(folder / kModel);
}

void Trainer::save_results(const std::filesystem::path& folder) const {
  write_file((folder / "metrics.csv").string(), std::string_view(metrics_csv(history_)));
  write_file((folder / "metrics.jsonl").string(), std::string_view(metrics_jsonl(history_)));
  if (best_loss_) save_safetensors((folder / kBest).string(), best_, metadata(best_step_));
}

// A row per step, one for an evaluation before the first: checked, as other numbers rest on it.
void Trainer::restore_history(const SafeTensors& state) {
  const Tensor rows = state.find("history");
  check<IoError>(
      rows.defined() && rows.rank() == 2 && rows.size(1) == kColumns && rows.dtype() == float64,
      state.path, "has no 'history' [rows, ", kColumns, "] float64");
  const auto v = rows.to_vector<double>();
  const double first = v.empty() ? 1 : v[0];
  for (std::size_t i = 0; i + kColumns <= v.size(); i += kColumns) {
    const double step = first + double(i / kColumns);
    check<IoError>((first == 0 || first == 1) && v[i] == step, state.path, "row ", i / kColumns,
                   " of its history is of step ", v[i], ", not ", step, "; the file is damaged");
    MetricsRow& row = history_.emplace_back(std::int64_t(v[i]));
    for (std::size_t c = 0; c < std::size(kMetricsColumns); ++c)
      row.*kMetricsColumns[c].value = v[i + 1 + c];
  }
  const std::int64_t rows_done = history_.empty() ? 0 : history_.back().step;
  steps_done = count_of(state, state.path, "step");
  check<IoError>(rows_done == steps_done, state.path, "says step ", steps_done,
                 ", its history ends with step ", rows_done, "; one of them was changed");
}

void Trainer::restore_best(const SafeTensors& state) {
  const std::string text = metadata_of(state, state.path, "best_loss");
  best_step_ = count_of(state, state.path, "best_step");
  if (text.empty()) return;
  best_loss_ = parse_number<double>(text);
  const auto row = std::find_if(history_.begin(), history_.end(),
                                [&](const MetricsRow& r) { return r.step == best_step_; });
  check<IoError>(best_loss_ && row != history_.end() && row->eval_loss == *best_loss_, state.path,
                 "says that its best loss is '", text, "', of step ", best_step_,
                 ", which its history does not have; one of them was changed");
  for (const NamedTensor& p : parameters(model))
    best_.push_back({p.name, empty_like(p.tensor.detach())});
}

void Trainer::restore(const SafeTensors& state) {
  restore_history(state);
  restore_best(state);
  SafeTensors weights = state;
  std::erase_if(weights.tensors, [](const NamedTensor& n) { return n.name == "history"; });
  std::vector<NamedTensor> targets = this->state();
  targets.pop_back();
  load_parameters(targets, weights);
  for (const NamedTensor& s : optimizer_->state()) {
    if (s.tensor.dtype() != int64) {
      const std::string bad = first_non_finite(s.tensor);
      check<IoError>(bad.empty(), state.path, "optimizer.", s.name, " is ", bad,
                     "; it was changed");
      continue;
    }
    const std::int64_t updates = *s.tensor.data<std::int64_t>();
    check<IoError>(updates >= 0 && updates <= steps_done, state.path, "optimizer.", s.name, " is ",
                   updates, ", needs 0 to ", steps_done, ", the steps done; one was changed");
  }
  set_stream(data_, state, state.path, "data_stream");
  set_stream(dropout_, state, state.path, "dropout_stream");
}

Trainer Trainer::resume(const std::filesystem::path& folder, std::unique_ptr<Task> own,
                        const std::string& moved) {
  RunConfig config = read_config(folder);
  if (!moved.empty()) {
    std::string& file = config.lines.empty() ? config.text : config.lines;
    check<ValueError>(!file.empty(), "`text`", "the run in ", folder.string(),
                      " learns no text; leave out `text`");
    file = moved;
  }
  const std::string path = (folder / kState).string();
  const SafeTensors file = load_safetensors(path);
  check_recipe(folder, config, path, metadata_of(file, path, "recipe"));
  Trainer t = read_data(folder, config, [&] { return Trainer(config, std::move(own)); });
  check_same_text(folder, t.config_, *t.task, file, path);
  t.restore(file);
  if (file.checksum.empty()) t.warnings.push_back(no_checksum(path));
  for (const auto& [key, now] :
       {std::pair{"compiler", compiler_text()}, std::pair{"simd_target", simd_target_text(config)}})
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
  if (recipe != file.metadata.end()) check_recipe(folder, config, path, recipe->second);
  std::unique_ptr<Task> task;
  if (learns_file(config) && use == Use::kPrompts) {
    metadata_of(file, path, "vocabulary");
    task = make_text_prompts(file.metadata, text_options(config));
  } else {
    task = read_data(folder, config, [&] { return make_task(config); });
    check_same_text(folder, config, *task, file, path);
  }
  Transformer model = make_model(config, *task);
  load_parameters(parameters(model), file);
  std::optional<std::int64_t> step;
  if (file.metadata.contains("step")) step = count_of(file, path, "step");
  const std::string note = file.checksum.empty() ? no_checksum(path) : "";
  return {config, std::move(task), std::move(model), step, note};
}

}  // namespace heed::nn
