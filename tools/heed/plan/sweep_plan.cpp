#include "tools/heed/plan/sweep_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "nn/io/nearest.h"
#include "nn/run/own_files.h"
#include "tools/heed/pictures.h"
#include "tools/heed/plan/train_config.h"
#include "tools/heed/report/output.h"

namespace heed {

namespace fs = std::filesystem;

namespace {

constexpr const char *kSweepFile = "sweep.toml", *kRecipes = "recipes", *kPairs = "pairs";
constexpr std::size_t kLongestName = 200;  // bytes; file systems allow 255

// The settings of a run and the configuration that they refer to. One object is used for all runs
// of a sweep, because constructing the settings takes long.
struct Recipe {
  nn::RunConfig config;
  std::string preset;
  Command command;

  Recipe() { command.settings = recipe_settings(config, preset); }
  Recipe(const Recipe&) = delete;
};

[[noreturn]] void too_many(const std::string& where) {
  usage_error("{} describes more than {} runs; sweep fewer values, or split it into several sweeps",
              where, with_commas(std::int64_t(kMostSweepRuns)));
}

// Checks each value of a list. Replaces each value by the text that its setting writes for it, such
// as 1e-3 by 0.001.
void check_values(nn::TomlItem& item, const std::vector<nn::Setting>& settings) {
  if (item.values.empty())
    usage_error("{}: the list {} is empty; it needs at least one value", item.where, item.key);
  if (item.values.size() > kMostSweepRuns) too_many(item.where);
  std::set<std::string> seen;
  nn::TomlItem one = item;
  for (std::size_t i = 0; i < item.values.size(); ++i) {
    std::string& value = item.values[i];
    one.types = {item.types[i]}, one.values = {value};
    const nn::Setting& setting = nn::setting_named(one, settings);
    setting.set(item.where + ": " + item.key, value);
    value = setting.get();
    if (!seen.insert(value).second)
      usage_error("{}: the list {} contains {} twice", item.where, item.key, value);
  }
}

void check_section(const nn::TomlItem& item) {
  if (item.section == "train" || item.section == "sweep") return;
  if (item.section.empty())
    usage_error("{}: '{}' is outside a section; put it under [train] or [sweep]", item.where,
                item.key);
  usage_error("{}: unknown section [{}]; a sweep has the sections [train] and [sweep]", item.where,
              item.section);
}

// Parses a sweep file. Returns a plan whose `runs` are still empty.
SweepPlan read_sweep(const std::string& text, const std::string& file) {
  const Recipe recipe;
  const std::vector<nn::Setting>& settings = recipe.command.settings;
  SweepPlan sweep;
  for (nn::TomlItem& item : nn::read_toml(text, file)) {
    check_section(item);
    if (item.key.empty()) continue;
    if (item.section == "sweep" && item.key == kPairs) {
      sweep.pairs = item.values;
      continue;
    }
    const bool shared = item.section == "train";
    // An empty text means that the option is not given, as in an old config.toml.
    if (shared && nn::setting_named(item, settings).kind == nn::Setting::Kind::kText &&
        item.values[0].empty())
      continue;
    check_values(item, settings);
    (shared ? sweep.base : sweep.lists).push_back(std::move(item));
  }
  for (const nn::TomlItem& list : sweep.lists)
    for (const nn::TomlItem& item : sweep.base)
      if (item.key == list.key)
        usage_error("{}: {} is in [train], too; remove one of them", list.where, list.key);
  if (sweep.lists.empty())
    usage_error("{}: needs a section [sweep] of lists, such as seed = [1, 2, 3]", file);
  return sweep;
}

std::vector<std::string> swept_keys(const SweepPlan& sweep) {
  std::vector<std::string> keys;
  for (const nn::TomlItem& list : sweep.lists) keys.push_back(list.key);
  return keys;
}

// Returns the stride of each list. Run i has the value at index (i / stride) % (size of the list).
// Paired lists have equal strides.
std::vector<std::size_t> strides_of(const SweepPlan& sweep, const std::string& file) {
  const std::vector<std::string> keys = swept_keys(sweep);
  const std::vector<std::string>& pairs = sweep.pairs;
  for (const std::string& key : pairs)
    if (std::ranges::count(keys, key) == 0)
      usage_error("{}: pairs contains '{}', which is not in [sweep]; the nearest is '{}'", file,
                  key, nn::nearest(key, keys));
  if (pairs.size() == 1 || std::set(pairs.begin(), pairs.end()).size() < pairs.size())
    usage_error("{}: pairs needs at least two different options, got {}", file, heed::join(pairs));
  const auto is_paired = [&](const nn::TomlItem& list) {
    return std::ranges::count(pairs, list.key) > 0;
  };
  const auto first = std::find_if(sweep.lists.begin(), sweep.lists.end(), is_paired);
  for (const nn::TomlItem& list : sweep.lists)
    if (is_paired(list) && list.values.size() != first->values.size())
      usage_error("{}: pairs needs lists of equal length; {} has {} values, {} has {}", list.where,
                  first->key, first->values.size(), list.key, list.values.size());
  std::vector<std::size_t> strides(keys.size());
  std::size_t runs = 1;
  for (std::size_t i = keys.size(); i-- > 0;) {
    if (is_paired(sweep.lists[i]) && &sweep.lists[i] != &*first) continue;
    strides[i] = runs;
    runs *= sweep.lists[i].values.size();  // each factor is at most kMostSweepRuns
    if (runs > kMostSweepRuns) too_many(file);
  }
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (is_paired(sweep.lists[i])) strides[i] = strides[std::size_t(first - sweep.lists.begin())];
  return strides;
}

// Returns the value as a part of a directory name. Letters, digits, '+', '-' and '.' are kept. All
// other characters, such as the '/' of "1/sqrt-d-head", become '_'.
std::string name_of_value(std::string value) {
  constexpr std::string_view kSigns = "+-.";
  for (char& c : value)
    if (!std::isalnum(static_cast<unsigned char>(c)) && kSigns.find(c) == kSigns.npos) c = '_';
  return value;
}

PlannedRun plan_run(const SweepPlan& sweep, const std::vector<std::size_t>& strides,
                    std::size_t index, Recipe& recipe) {
  PlannedRun run;
  Command& c = recipe.command;
  c.values.clear();
  const auto give = [&c](const nn::TomlItem& item, const std::string& value) {
    c.values[item.key] = {{item.where + ": " + item.key, value, true}};
  };
  for (const nn::TomlItem& item : sweep.base) give(item, item.values[0]);
  for (std::size_t i = 0; i < strides.size(); ++i) {
    const nn::TomlItem& list = sweep.lists[i];
    const std::string& value = list.values[index / strides[i] % list.values.size()];
    give(list, value);
    run.name += (run.name.empty() ? "" : ",") + list.key + "=" + name_of_value(value);
  }
  if (run.name.size() > kLongestName)
    usage_error("{}: the run name {} has {} bytes; the limit is {}; sweep fewer options",
                sweep.lists[0].where, run.name, run.name.size(), kLongestName);
  try {
    recipe.config = chosen_preset(c);
    c.assign();
    check_config(recipe.config, c);
  } catch (const autograd::Error& e) {
    usage_error("{}: {}", run.name, e.what());
  }
  run.recipe = "[train]\n";
  for (const nn::Setting& s : c.settings)
    if (c.given(s.key)) run.recipe += nn::toml_line(s);
  run.config = recipe.config;
  return run;
}

// Returns the names of the options in alphabetical order: "scale,seed". Returns "none" if there are
// none.
std::string pairs_text(std::vector<std::string> pairs) {
  std::sort(pairs.begin(), pairs.end());
  return pairs.empty() ? "none" : fmt::format("{}", fmt::join(pairs, ","));
}

// Locks the directory of a sweep. Every process must hold this lock while it writes a file of the
// sweep, because save_sweep() removes temporary files. Waits up to 10 s for other processes, then
// throws FolderInUse.
std::unique_ptr<nn::FolderLock> lock_sweep(const fs::path& folder) {
  for (int tries = 0;; ++tries) {
    auto lock = std::make_unique<nn::FolderLock>(folder);  // waits for up to 0.1 s
    if (!lock->taken()) return lock;
    heed::check<nn::FolderInUse>(
        tries < 100, "cannot write into " + folder.string(),
        "it is locked by another process; wait for this process or stop it");
  }
}

}  // namespace

SweepPlan plan_sweep(const std::string& text, const std::string& file) {
  SweepPlan plan = read_sweep(text, file);
  const std::vector<std::size_t> strides = strides_of(plan, file);
  std::size_t runs = 1;  // largest product of a list's stride and size
  for (std::size_t i = 0; i < strides.size(); ++i)
    runs = std::max(runs, strides[i] * plan.lists[i].values.size());
  std::set<std::string> names;
  Recipe recipe;
  for (std::size_t i = 0; i < runs; ++i) {
    plan.runs.push_back(plan_run(plan, strides, i, recipe));
    const std::string& name = plan.runs.back().name;
    if (!names.insert(name).second)
      usage_error(
          "{}: two runs would have the name {}, because a name contains _ for special characters; "
          "use values that differ in letters or digits",
          file, name);
  }
  return plan;
}

std::string no_longer_planned(const SweepPlan& before, const SweepPlan& now) {
  const auto text = [](const SweepPlan& plan, const std::string& key) {
    for (const nn::TomlItem& item : plan.base)
      if (item.key == key) return item.values[0];
    return std::string("not given");
  };
  for (const SweepPlan* plan : {&before, &now})
    for (const nn::TomlItem& item : plan->base)
      if (const auto was = text(before, item.key), is = text(now, item.key); was != is)
        return fmt::format("{} was {} there and is {} now", item.key, was, is);
  if (const auto were = swept_keys(before), are = swept_keys(now); were != are)
    return fmt::format("its [sweep] has {}, not {}", heed::join(were), heed::join(are));
  for (std::size_t i = 0; i < now.lists.size(); ++i)
    for (const std::string& value : before.lists[i].values)
      if (std::ranges::count(now.lists[i].values, value) == 0)
        return fmt::format("{} = {} is missing now", now.lists[i].key, value);
  std::set<std::string> names;
  for (const PlannedRun& run : now.runs) names.insert(run.name);
  for (const PlannedRun& run : before.runs)
    if (!names.contains(run.name)) return "its run " + run.name + " is no longer in the grid";
  const std::string were = pairs_text(before.pairs), are = pairs_text(now.pairs);
  return were == are ? "" : fmt::format("its pairs were {} and are {} now", were, are);
}

bool is_sweep(const fs::path& folder) { return autograd::is_there(folder / kSweepFile); }

SweepPlan read_plan(const fs::path& folder) {
  const std::string file = (folder / kSweepFile).string();
  return plan_sweep(nn::read_toml_text(file), file);
}

void check_sweep_folder(const fs::path& folder, const SweepPlan& plan) {
  if (!autograd::is_there(folder)) return;
  if (autograd::is_file(folder))
    usage_error("--out {} is a file; a sweep needs a directory", folder.string());
  // A second process may start the same sweep at the same time. It writes sweep.toml first, through
  // a temporary file whose name begins with sweep.toml. The search for other files must therefore
  // come before the search for sweep.toml.
  bool others = false;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    others = others || !it->path().filename().string().starts_with(kSweepFile);
  const bool sweep = is_sweep(folder);
  if (others && !sweep)
    usage_error("--out {} is not empty and does not contain a sweep; choose another directory",
                folder.string());
  if (!sweep) return;
  const SweepPlan before = read_plan(folder);
  const bool begun = std::any_of(before.runs.begin(), before.runs.end(), [&](const auto& run) {
    return autograd::is_there(folder / run.name);
  });
  if (!begun) return;  // a sweep without runs may be replaced
  if (const std::string change = no_longer_planned(before, plan); !change.empty())
    usage_error(
        "--out {} contains another sweep: {}; the only change that a sweep accepts is more values; "
        "choose another directory",
        folder.string(), change);
}

void save_sweep(const fs::path& folder, const std::string& text) {
  make_folder(folder);
  const auto lock = lock_sweep(folder);
  if (lock->held()) {  // without locks, temporary files may belong to another process
    const auto all = [](const std::string&) { return true; };
    nn::remove_temporaries(*lock->directory(), [](const auto& name) { return name == kSweepFile; });
    if (const fs::path recipes = folder / kRecipes; fs::is_directory(fs::symlink_status(recipes)))
      nn::remove_temporaries(autograd::Directory(recipes.string()), all);
  }
  const fs::path file = folder / kSweepFile;
  if (is_sweep(folder) && autograd::read_file(file.string()) == text) return;
  autograd::write_file(file.string(), std::string_view(text));
}

fs::path save_recipe(const fs::path& folder, const PlannedRun& run) {
  make_folder(folder / kRecipes);
  const fs::path file = folder / kRecipes / (run.name + ".toml");
  const auto lock = lock_sweep(folder);
  autograd::write_file(file.string(), std::string_view(run.recipe));
  return file;
}

}  // namespace heed
