#include "nn/run/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "nn/io/json.h"
#include "nn/io/limits.h"
#include "nn/io/toml.h"
#include "nn/optim/first_non_finite.h"
#include "nn/run/metrics_file.h"
#include "nn/run/snapshot_file.h"

namespace heed::nn {

namespace fs = std::filesystem;
using namespace autograd;

namespace {

constexpr std::string_view kWeights = ".safetensors";
// Metadata key in kModel of a finished run. The value is the hash_of_tensors() of the weights. Runs
// of older versions have the value "yes".
constexpr const char *kFinishedKey = "finished", *kOlderMark = "yes";

// Returns the name of the checkpoint of a step, such as "checkpoints/000200.safetensors".
std::string checkpoint_name(std::int64_t step) {
  return fmt::format("{}/{:06}{}", RunFolder::kCheckpoints, step, kWeights);
}

std::optional<std::int64_t> step_in(const std::map<std::string, std::string>& metadata) {
  const auto step = metadata.find("step");
  return step == metadata.end() ? std::nullopt : parse_number<std::int64_t>(step->second);
}

// Throws IoError unless `recipe`, read from the file `trained`, equals the recipe of `config`. Must
// be called before a model is constructed from `config`, because a user may have changed `config`
// to a very large model.
void check_recipe(const RunFolder& run, const RunConfig& config, const std::string& trained,
                  const std::string& recipe) {
  const auto difference = recipe_difference(recipe_text(config), recipe, trained);
  if (difference)
    fail<IoError>(run.file(RunFolder::kConfig).string(), "contains '", difference->a, "', but ",
                  trained, " was trained with '", difference->b.substr(0, 80),
                  "'; restore the line, or train a new run with this configuration");
}

// Throws IoError if the rows of kMetrics are not those of kState. The row of the last save may be
// missing, because it is written after the save. The evaluation after the last step may be in only
// one of the files.
void check_history(const std::vector<MetricsRow>& rows, const std::vector<MetricsRow>& saved,
                   const std::string& path) {
  check<IoError>(rows.size() + 1 >= saved.size(), path, "damaged, line ", rows.size() + 2, ": ",
                 RunFolder::kState, " has ", saved.size(), " rows, but this file has ",
                 rows.size());
  for (std::size_t i = 0; i < std::min(rows.size(), saved.size()); ++i)
    for (const MetricsColumn& column : kMetricsColumns) {
      const double a = rows[i].*column.value, b = saved[i].*column.value;
      const bool later = i + 1 == saved.size() && is_of_evaluation(column);
      const int missing = int(std::isnan(a)) + int(std::isnan(b));
      check<IoError>(a == b || missing == 2 || (missing == 1 && later), path, "damaged, line ",
                     i + 2, ": its ", column.name, " is not that of ", RunFolder::kState);
    }
}

// Reads kResult. Throws IoError if it cannot be read, and JsonError if it is damaged.
RunResult read_result(const std::string& path) {
  return parse_run_result(read_file(path, kMaxResultBytes));
}

// Reads kResult. Returns nothing if it is missing or damaged. Throws IoError if it cannot be read.
std::optional<RunResult> result_if_valid(const std::string& path) {
  if (!is_there(path)) return {};
  try {
    return read_result(path);
  } catch (const JsonError&) {
    return {};
  }
}

}  // namespace

bool RunFolder::is_checkpoint(std::string_view name) {
  if (!name.ends_with(kWeights) || name.size() == kWeights.size()) return false;
  name.remove_suffix(kWeights.size());
  return name.find_first_not_of("0123456789") == name.npos;
}

std::vector<RunFolder> RunFolder::list(const fs::path& runs) {
  std::vector<RunFolder> found;
  std::error_code error;
  for (fs::directory_iterator it(runs, error), end; !error && it != end; it.increment(error)) {
    const RunFolder run(it->path());
    std::error_code unknown;
    if (!it->is_directory(unknown) && !unknown) continue;
    try {
      finish_publication(run.path());
      if (!run.is_run() && !run.has_saved()) continue;
    } catch (const IoError&) {  // the directory is in use or not accessible; it may be a run
    }
    found.push_back(run);
  }
  check<IoError>(!error, "cannot read " + runs.string(), error.message());
  std::sort(found.begin(), found.end(),
            [](const RunFolder& a, const RunFolder& b) { return a.path() < b.path(); });
  return found;
}

std::optional<RunFolder> RunFolder::newest(const fs::path& runs) {
  std::optional<RunFolder> newest;
  std::optional<fs::file_time_type> newest_time;
  if (!is_there(runs)) return newest;
  const std::vector<RunFolder> all = list(runs);
  for (const RunFolder& run : all) {
    const auto time = run.last_saved();
    if (!time || (newest_time && *time <= *newest_time)) continue;
    newest = run;
    newest_time = time;
  }
  // Throws the reason if a directory is not accessible.
  for (const RunFolder& run : all)
    if (!newest) run.has_saved();
  return newest;
}

std::unique_ptr<StagedFolder> RunFolder::make_next(const std::string& task, const fs::path& runs) {
  for (int n = 1;; ++n) {
    const fs::path path = runs / fmt::format("{}-{}", task, n);
    if (fs::exists(fs::symlink_status(path))) continue;
    try {
      auto folder = std::make_unique<StagedFolder>(path, result_files());
      if (!folder->holds_result()) return folder;
    } catch (const FolderInUse&) {  // another process has taken this directory; try the next
    }
  }
}

ResultFiles RunFolder::result_files() {
  const auto contains = [](const std::string& name) {
    const fs::path path = name;
    if (path.has_parent_path()) {
      const auto step = parse_number<std::int64_t>(path.stem().string());
      return step && name == checkpoint_name(*step);
    }
    return std::find(std::begin(kFiles), std::end(kFiles), name) != std::end(kFiles);
  };
  return {{kConfig}, contains, kCheckpoints};
}

PathAt RunFolder::target(std::string_view name) const {
  return directory_ ? PathAt(directory_.get(), std::string(name)) : PathAt(file(name));
}

RunFolder RunFolder::opened() const {
  return directory_ ? *this : RunFolder(std::make_shared<Directory>(path_.string()));
}

bool RunFolder::is_run() const { return is_there(file(kConfig)); }

bool RunFolder::has_saved() const { return is_there(file(kModel)) || is_there(file(kState)); }

bool RunFolder::is_complete() const {
  return is_run() && is_there(file(kModel)) && is_there(file(kState)) && is_there(file(kMetrics));
}

RunFolder::State RunFolder::state() const {
  if (!is_run()) return State::kNew;
  if (!has_saved()) return State::kUnsaved;
  try {
    if (!finished_step()) return State::kSaved;
    verify(kModel);
    return State::kFinished;
  } catch (const IoError&) {  // damaged
    return State::kSaved;
  }
}

std::optional<fs::file_time_type> RunFolder::last_saved() const try {
  std::optional<fs::file_time_type> newest;
  if (!is_run() || !has_saved()) return newest;
  for (const char* name : {kConfig, kModel}) {
    std::error_code error;
    const auto time = fs::last_write_time(file(name), error);
    if (!error && (!newest || time > *newest)) newest = time;
  }
  return newest;
} catch (const IoError&) {  // the directory is not accessible
  return {};
}

std::optional<std::int64_t> RunFolder::saved_step() const {
  if (!is_there(file(kState))) return {};
  return step_in(load_metadata(file(kState).string()));
}

std::optional<std::int64_t> RunFolder::finished_step() const {
  if (!is_there(file(kModel))) return {};
  const auto metadata = load_metadata(file(kModel).string());
  return metadata.contains(kFinishedKey) ? step_in(metadata) : std::nullopt;
}

RunFolder::Proof RunFolder::verify(const std::string& name) const {
  const std::string path = file(name).string();
  if (name.ends_with(kWeights)) {
    const SafeTensors content = load_safetensors(path);
    const auto mark = content.metadata.find(kFinishedKey);
    if (mark != content.metadata.end() && mark->second != kOlderMark) {
      const std::string hash = hash_of_tensors(content.tensors);
      check<IoError>(mark->second == hash, path, "the checksum of its weights is ", hash,
                     ", but that of the finished run is ", mark->second,
                     "; resume the run, which writes its weights again");
    }
    if (name == kState) read_snapshot(content, {});
    return content.checksum.empty() ? Proof::kNone : Proof::kChecksum;
  }
  if (name == kResult) {
    try {
      read_result(path);
    } catch (const JsonError& e) {
      fail<IoError>(path, "damaged: ", e.what(), "; heed eval writes it again");
    }
    return Proof::kNone;
  }
  if (name != kConfig && name != kMetrics) {
    read_file(path, kMaxMetricsBytes);
    return Proof::kNone;
  }
  std::optional<Snapshot> state;
  try {
    state = read_snapshot(load_safetensors(file(kState).string()), {});
  } catch (const Error&) {  // kState is missing or damaged
  }
  // If kModel is damaged, that is not an error of kMetrics.
  const auto finished = [&]() -> std::optional<std::int64_t> {
    try {
      return finished_step();
    } catch (const IoError&) {
      return {};
    }
  };
  if (name == kMetrics)
    check_history(read_metrics(finished()), state ? state->history : std::vector<MetricsRow>(),
                  path);
  else if (state)
    load();  // compares the recipes
  else
    config();
  return state ? Proof::kState : Proof::kFormat;
}

RunConfig RunFolder::config() const {
  const std::string path = file(kConfig).string(), text = read_toml_text(path);
  try {
    check<ValueError>(text.find("task = ") != std::string::npos, path, "has no 'task'");
    RunConfig config = from_toml(text, path);
    validate(config);
    return config;
  } catch (const IoError&) {
    throw;
  } catch (const Error& e) {
    const std::string what = e.what();  // messages of validate() do not begin with the path
    throw IoError((what.starts_with(path) ? what : path + ": " + what) +
                  "; the file was changed after heed train wrote it: restore it");
  }
}

std::vector<MetricsRow> RunFolder::metrics() const { return read_metrics(finished_step()); }

std::vector<MetricsRow> RunFolder::read_metrics(std::optional<std::int64_t> finished) const {
  const std::string path = file(kMetrics).string(), text = read_file(path, kMaxMetricsBytes);
  std::vector<MetricsRow> rows = parse_metrics_csv(text, path);
  const std::int64_t last = rows.empty() ? 0 : rows.back().step;
  check<IoError>(!finished || (*finished == last && text.ends_with('\n')), path, "damaged, line ",
                 rows.size() + (text.ends_with('\n') ? 1 : 2), ": the run finished at step ",
                 finished.value_or(0), ", but the last complete line is of step ", last);
  return rows;
}

std::optional<RunResult> RunFolder::result() const {
  if (!is_there(file(kModel))) return {};
  const std::string model = file(kModel).string();
  const auto metadata = load_metadata(model);
  const auto mark = metadata.find(kFinishedKey);
  if (mark == metadata.end()) return {};
  const auto result = result_if_valid(file(kResult).string());
  if (!result || result->weights_checksum.empty() || result->steps != step_in(metadata)) return {};
  const std::string checksum =
      mark->second == kOlderMark ? hash_of_tensors(load_safetensors(model).tensors) : mark->second;
  return result->weights_checksum == checksum ? result : std::nullopt;
}

std::optional<double> RunFolder::seconds() const {
  const auto result = result_if_valid(file(kResult).string());
  return result && result->steps == finished_step() ? result->seconds : std::nullopt;
}

std::vector<CheckpointFile> RunFolder::checkpoints() const {
  std::vector<CheckpointFile> found;
  const fs::path inside = file(kCheckpoints);
  if (!is_there(inside)) return found;
  std::error_code error;
  for (fs::directory_iterator it(inside, error), end; !error && it != end; it.increment(error)) {
    const fs::path name = it->path().filename();
    if (!is_checkpoint(name.string())) continue;
    const auto step = parse_number<std::int64_t>(name.stem().string());
    if (step) found.push_back({*step, it->path()});
  }
  check<IoError>(!error, inside.string(), "cannot be listed: ", error.message());
  std::sort(found.begin(), found.end(),
            [](const CheckpointFile& a, const CheckpointFile& b) { return a.step < b.step; });
  const auto twice = std::adjacent_find(
      found.begin(), found.end(), [](const auto& a, const auto& b) { return a.step == b.step; });
  if (twice != found.end())
    fail<IoError>(kCheckpoints, twice->file.string(), " and ", std::next(twice)->file.string(),
                  " are both of step ", twice->step, "; remove one of them");
  return found;
}

std::optional<CheckpointFile> RunFolder::last_weights() const {
  if (!is_there(file(kModel))) return {};
  const auto step = step_in(load_metadata(file(kModel).string()));
  return step ? std::optional(CheckpointFile{*step, file(kModel)}) : std::nullopt;
}

std::vector<std::string> RunFolder::weights() const {
  std::vector<std::string> names;
  for (const char* name : {kModel, kBest})
    if (is_there(file(name))) names.emplace_back(name);
  if (const auto all = checkpoints(); !all.empty())
    names.push_back((fs::path(kCheckpoints) / all.back().file.filename()).string());
  return names;
}

LoadedRun RunFolder::open(const std::string& weights, Use use) const {
  const RunConfig config = this->config();
  const std::string path = file(weights).string();
  const SafeTensors tensors = load_safetensors(path);
  const auto recipe = tensors.metadata.find("recipe");  // missing if heed did not write the file
  if (recipe != tensors.metadata.end()) check_recipe(*this, config, path, recipe->second);
  std::unique_ptr<Task> task;
  if (learns_file(config) && use == Use::kPrompts) {
    metadata_of(tensors, "vocabulary");
    task = make_text_prompts(tensors.metadata, text_options(config));
  } else {
    task = saved_task(config, tensors.metadata, path);
  }
  Transformer model = make_model(config, *task);
  load_parameters(parameters(model), tensors);
  std::optional<std::int64_t> step;
  if (tensors.metadata.contains("step")) step = count_of(tensors, "step");
  return {config, std::move(task), std::move(model), step, checksum_note(tensors)};
}

Snapshot RunFolder::load(const std::string& moved, std::vector<std::string>* warnings,
                         const std::string& moved_val) const {
  RunConfig config = this->config();
  if (!moved.empty()) {
    check<ValueError>(learns_file(config), "`text`", "the run in ", text(),
                      " does not learn a text; omit `text`");
    (config.lines.empty() ? config.text : config.lines) = fs::absolute(moved).lexically_normal();
  }
  if (!moved_val.empty()) {
    std::string& file = config.val_text.empty() ? config.val_lines : config.val_text;
    check<ValueError>(!file.empty(), "`val-text`", "the run in ", text(),
                      " has no held-out file; omit `val-text` and `val-lines`");
    file = fs::absolute(moved_val).lexically_normal();
  }
  const SafeTensors tensors = load_safetensors(file(kState).string());
  check_recipe(*this, config, tensors.path, metadata_of(tensors, "recipe"));
  if (warnings) {
    const std::vector<std::string> news = snapshot_warnings(tensors);
    warnings->insert(warnings->end(), news.begin(), news.end());
  }
  return read_snapshot(tensors, config);
}

Trainer RunFolder::resume(std::unique_ptr<Task> own) const {
  return Trainer::from(load(), std::move(own));
}

void RunFolder::save(const Snapshot& s, const std::vector<std::string>& notes) const {
  for (const NamedTensor& p : s.part("model."))
    check<NumericError>(first_non_finite(p.tensor).empty(), "save", p.name,
                        " is not finite after step ", s.step, "; ", divergence_advice(s.config));
  save_config(s.config, notes);
  write_snapshot(s, target(kState));
  save_results(s);
  save_weights(kModel, s);
}

void RunFolder::save_config(const RunConfig& config, const std::vector<std::string>& notes) const {
  write_file(target(kConfig), std::string_view(to_toml(config, notes)));
}

void RunFolder::save_results(const Snapshot& s) const {
  write_file(target(kMetrics), std::string_view(metrics_csv(s.history)));
  if (s.best_loss)
    save_safetensors(target(kBest), s.part("best."), weights_metadata(s, s.best_step));
}

void RunFolder::save_weights(const std::string& name, const Snapshot& s,
                             const std::string& mark) const {
  auto metadata = weights_metadata(s, s.step);
  if (!mark.empty()) metadata[kFinishedKey] = mark;
  save_safetensors(target(name), s.part("model."), metadata);
}

void RunFolder::save_checkpoint(const Snapshot& s) const {
  make_directory(target(kCheckpoints));
  save_weights(checkpoint_name(s.step), s);
}

void RunFolder::finish(const Snapshot& s, RunResult result) const {
  result.steps = s.step;
  result.weights_checksum = hash_of_tensors(s.part("model."));
  save_result(result);
  save_weights(kModel, s, result.weights_checksum);
}

void RunFolder::save_result(const RunResult& result) const {
  write_file(target(kResult), std::string_view(to_json(result)));
}

}  // namespace heed::nn
