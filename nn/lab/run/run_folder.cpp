#include "nn/lab/run/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <system_error>

#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "nn/io/json.h"
#include "nn/io/limits.h"
#include "nn/lab/run/snapshot_file.h"
#include "nn/lab/settings/toml.h"
#include "nn/optim/first_non_finite.h"

namespace heed::lab {

namespace fs = std::filesystem;
using namespace autograd;

namespace {

constexpr std::string_view kWeights = ".safetensors";

// Returns the name of the checkpoint of a step, such as "checkpoints/000200.safetensors".
std::string checkpoint_name(Index step) {
  return fmt::format("{}/{:06}{}", RunFolder::kCheckpoints, step, kWeights);
}

// Returns the paths in a directory, in alphabetical order.
std::vector<fs::path> paths_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    found.push_back(it->path());
  check<IoError>(!error, "cannot read " + folder.string(), error.message());
  std::ranges::sort(found);
  return found;
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Throws IoError unless `recipe`, read from the file `trained`, equals the recipe of `config`. Must
// be called before a model is constructed from `config`, because a user may have changed `config`
// to a very large model.
void check_recipe(const std::string& config_file, const RunConfig& config,
                  const std::string& trained, const std::string& recipe) {
  const auto difference = recipe_difference(recipe_text(config), recipe, trained);
  if (difference)
    fail<IoError>(config_file, "contains '", difference->a, "', but ", trained,
                  " was trained with '", difference->b.substr(0, 80), "'; ",
                  config_file == trained ? "restore the file"
                  : config_file.ends_with(RunFolder::kConfig)
                      ? "restore the line, or train a new run with this configuration"
                      : "one of the two belongs to another run: choose other weights");
}

}  // namespace

bool RunFolder::contains(const std::string& name) {
  const fs::path path = name;
  if (!path.has_parent_path())
    return std::find(std::begin(kFiles), std::end(kFiles), name) != std::end(kFiles);
  const auto step = parse_number<std::int64_t>(path.stem().string());
  return step && name == checkpoint_name(*step);
}

bool RunFolder::is_temporary(const std::string& name) {
  const std::size_t at = name.rfind(".tmp"), dot = name.rfind('.');
  return at != std::string::npos && dot > at && is_digits(std::string_view(name).substr(dot + 1)) &&
         is_digits(std::string_view(name).substr(at + 4, dot - at - 4)) &&
         contains(name.substr(0, at));
}

std::vector<RunFolder> RunFolder::list(const fs::path& runs) {
  std::vector<RunFolder> found;
  for (const fs::path& path : paths_in(runs)) {
    const RunFolder run(path);
    std::error_code unknown;
    if (!fs::is_directory(path, unknown) && !unknown) continue;
    try {
      if (!run.is_run()) continue;
    } catch (const IoError&) {  // the directory is not accessible; it may be a run
    }
    found.push_back(run);
  }
  return found;
}

std::optional<RunFolder> RunFolder::newest(const fs::path& runs) {
  if (!is_there(runs)) return {};
  const std::vector<RunFolder> all = list(runs);
  const auto last = std::ranges::max_element(all, {}, &RunFolder::last_saved);
  if (last != all.end() && last->last_saved()) return *last;
  for (const RunFolder& run : all) run.is_run();  // throws IoError if it is not accessible
  return {};
}

LockedFolder RunFolder::make_next(const std::string& task, const fs::path& runs) {
  for (int n = 1;; ++n) {
    const fs::path path = runs / fmt::format("{}-{}", task, n);
    if (fs::exists(fs::symlink_status(path))) continue;
    try {
      LockedFolder folder(path);
      if (!RunFolder(path).is_run()) return folder;
    } catch (const FolderInUse&) {  // another process has taken this directory; try the next
    }
  }
}

// Returns the names of all files directly inside the directory, and of those inside kCheckpoints
// unless it is a symbolic link.
std::vector<std::string> RunFolder::names() const {
  std::vector<std::string> all;
  for (const fs::path& path : paths_in(path_)) all.push_back(path.filename().string());
  if (const fs::path inside = file(kCheckpoints); fs::is_directory(fs::symlink_status(inside)))
    for (const fs::path& path : paths_in(inside))
      all.push_back((kCheckpoints / path.filename()).string());
  return all;
}

void RunFolder::remove_temporaries(const LockedFolder& locked) try {
  if (!locked.is_locked()) return;  // temporary files may belong to another process
  const RunFolder run(locked.path());
  std::error_code ignored;  // a temporary file does no harm
  for (const std::string& name : run.names())
    if (is_temporary(name) && fs::is_regular_file(fs::symlink_status(run.file(name))))
      fs::remove(run.file(name), ignored);
} catch (const IoError&) {  // the directory is not readable
}

bool RunFolder::has_state() const { return is_there(file(kState)); }

bool RunFolder::is_run() const {
  return has_state() || (is_there(file(kConfig)) && is_there(file(kModel)));
}

std::optional<fs::file_time_type> RunFolder::last_saved() const try {
  if (!is_run()) return {};
  std::error_code error;
  const auto time = fs::last_write_time(file(has_state() ? kState : kModel), error);
  return error ? std::nullopt : std::optional(time);
} catch (const IoError&) {  // the directory is not accessible
  return {};
}

RunConfig RunFolder::config_in(const Metadata& metadata) const {
  const auto saved = metadata.find(kConfigKey);
  const bool is_saved = saved != metadata.end();
  check<IoError>(is_saved || !has_state(), file(kState).string(), "has no '", kConfigKey, "'",
                 kDamaged);
  const std::string path = file(!is_saved ? kConfig : has_state() ? kState : kModel).string();
  const std::string text = is_saved ? saved->second : read_toml_text(path);
  try {
    RunConfig config = from_toml(text, path);
    const std::vector<TomlItem> items = read_toml(text, path);
    check<ValueError>(std::ranges::count(items, "task", &TomlItem::key) > 0, path, "has no 'task'");
    validate(config);
    return config;
  } catch (const IoError&) {
    throw;
  } catch (const RemovedError&) {
    throw;
  } catch (const Error& e) {
    if (is_saved) load_safetensors(path);  // throws if the checksum shows that the file was changed
    const std::string what = e.what();     // messages of validate() do not begin with the path
    throw IoError(what.starts_with(path) ? what : path + ": " + what);
  }
}

RunConfig RunFolder::config() const { return summary().config; }

RunSummary RunFolder::summary() const {
  const std::string path = file(has_state() ? kState : kModel).string();
  const Metadata metadata = load_metadata(path);
  const Snapshot header = read_header(metadata, path);
  RunSummary s{.config = config_in(metadata),
               .finished = header.finished,
               .last_evaluation = header.last_evaluation};
  if (metadata.contains("step")) s.step = header.step;
  if (header.finished && !header.result.empty()) try {
      s.result = parse_run_result(header.result);
    } catch (const JsonError& e) {
      s.note = path + ": its result " + e.what() + kDamaged;
    }
  return s;
}

std::vector<CheckpointFile> RunFolder::checkpoints() const {
  std::vector<CheckpointFile> found;
  const fs::path inside = file(kCheckpoints);
  if (!is_there(inside)) return found;
  // A checkpoint after the step of the state belongs to a save that is not complete, or to a run
  // that --overwrite has replaced.
  Index last = INT64_MAX;
  try {
    if (has_state()) last = read_header(load_metadata(file(kState).string()), kState).step;
  } catch (const IoError&) {  // load() and open() state the reason
  }
  for (const fs::path& path : paths_in(inside)) {
    if (!contains((kCheckpoints / path.filename()).string())) continue;
    const auto step = parse_number<std::int64_t>(path.stem().string());
    if (*step <= last) found.push_back({*step, path});
  }
  std::ranges::sort(found, {}, &CheckpointFile::step);
  return found;
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
  const std::string name = weights == kState && !has_state() ? kModel : weights;
  const std::string path = file(name).string();
  const SafeTensors tensors = load_weights(path);
  const auto recipe = tensors.metadata.find("recipe");  // missing if heed did not write the file
  if (recipe != tensors.metadata.end())
    check_recipe(file(has_state() ? kState : kConfig).string(), config, path, recipe->second);
  if (learns_file(config)) metadata_of(tensors, "vocabulary");
  std::unique_ptr<Task> task =
      use == Use::kPrompts ? make_prompts(config, tensors.metadata)
                           : saved_task(config, tensors.metadata, path, nullptr, has_state());
  Transformer model = make_model(config, *task);
  load_parameters(parameters(model), tensors);
  std::optional<Index> step;
  if (tensors.metadata.contains("step")) step = read_header(tensors.metadata, path).step;
  return {config, std::move(task), std::move(model), name, step, checksum_note(tensors)};
}

Snapshot RunFolder::load(const std::string& moved, std::vector<std::string>* warnings) const {
  check<IoError>(
      has_state() || !is_run(), text(),
      "holds only weights, without a history or a state; a new run can start from them (`from`)");
  SafeTensors tensors = load_safetensors(file(kState).string());
  RunConfig config = config_in(tensors.metadata);
  check_recipe(tensors.path, config, tensors.path, metadata_of(tensors, "recipe"));
  if (!moved.empty()) {
    check<ValueError>(learns_file(config), "`text`", "the run in ", text(),
                      " does not learn a text; omit `text`");
    (config.lines.empty() ? config.text : config.lines) = fs::absolute(moved).lexically_normal();
  }
  if (warnings) {
    const std::vector<std::string> news = snapshot_warnings(tensors);
    warnings->insert(warnings->end(), news.begin(), news.end());
    try {
      const std::string path = file(kConfig).string();
      check<IoError>(!is_there(path) || read_toml_text(path) == tensors.metadata[kConfigKey], path,
                     "differs from ", kState);
    } catch (const IoError& e) {
      warnings->push_back(std::string(e.what()) + "; it is ignored and written again");
    }
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
  const std::string config = to_toml(s.config, notes);
  write_snapshot(s, config, file(kState).string());
  write_file(file(kConfig).string(), std::string_view(config));
  write_file(file(kMetrics).string(), std::string_view(metrics_csv(s.whole_history())));
  const auto [best, best_step] = s.best();
  if (!s.part(best).empty()) save_weights(kBest, s, best, best_step);
  save_weights(kModel, s, "model.", s.step);
}

void RunFolder::save_weights(const std::string& name, const Snapshot& s, std::string_view part,
                             Index step) const {
  save_safetensors(file(name).string(), s.part(part), weights_metadata(s, step));
}

void RunFolder::save_checkpoint(const Snapshot& s) const {
  const fs::path inside = file(kCheckpoints);
  std::error_code error;
  fs::create_directory(inside, error);
  check<IoError>(!error && !fs::is_symlink(inside), "cannot make the directory " + inside.string(),
                 error ? error.message() : "it is a symbolic link");
  save_weights(checkpoint_name(s.step), s, "model.", s.step);
}

void RunFolder::remove_others(std::set<std::string> kept) const {
  const auto remove = [&](const std::string& name) {
    std::error_code error;
    fs::remove(file(name), error);
    check<IoError>(!error, "cannot remove " + file(name).string(), error.message());
  };
  const bool had_state = kept.insert(kState).second;
  for (const std::string& name : names())
    if (contains(name) && !kept.contains(name)) remove(name);
  if (fs::is_symlink(file(kCheckpoints))) remove(kCheckpoints);
  // The state is removed last: without it, the other files of an earlier run would count as those
  // of the new one.
  if (had_state) remove(kState);
}

void RunFolder::remove_earlier(const Snapshot& s) const {
  std::set<std::string> kept = {kState, kConfig, kMetrics, kModel};
  if (!s.part(s.best().first).empty()) kept.insert(kBest);
  remove_others(kept);
}

void RunFolder::save_as_weights(const Snapshot& s) const {
  const std::string config = to_toml(s.config);
  auto metadata = weights_metadata(s, {});
  metadata[kConfigKey] = config;
  // An earlier run is its kState, or else its kModel. So each moment has the earlier or the new
  // run.
  save_safetensors(file(kModel).string(), s.part("model."), metadata);
  write_file(file(kConfig).string(), std::string_view(config));
  remove_others({kConfig, kModel});
}

}  // namespace heed::lab
