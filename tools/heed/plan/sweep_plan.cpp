#include "tools/heed/plan/sweep_plan.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "autograd/base/text.h"
#include "nn/io/nearest.h"
#include "nn/io/toml.h"
#include "tools/heed/plan/train_config.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

using Kind = nn::Setting::Kind;

constexpr std::string_view kSigns = "+-.";  // that names of folders keep
constexpr const char* kPairs = "pairs";
constexpr std::size_t kLongestName = 200;  // bytes; file systems take 255

// A run's configuration while it is put together; one serves all, as its settings take long to
// make.
struct Recipe {
  nn::RunConfig config;
  std::string preset;
  Command command;

  Recipe() { command.settings = recipe_settings(config, preset); }
  Recipe(const Recipe&) = delete;
  void clear() { config = {}, preset.clear(), command.values.clear(); }
};

// What [train] and [sweep] say.
struct SweepFile {
  std::vector<nn::TomlItem> base, lists;
  std::vector<std::string> pairs;
};

[[noreturn]] void too_many(const std::string& where) {
  usage_error("{} asks for more than {} runs; sweep fewer values, or in several sweeps", where,
              with_commas(std::int64_t(kMostSweepRuns)));
}

// Checks every value by itself: a list of them is no value of the setting.
void check_values(nn::TomlItem& item, const std::vector<nn::Setting>& settings) {
  if (item.values.empty())
    usage_error("{}: {} lists no value; give at least one", item.where, item.key);
  if (item.values.size() > kMostSweepRuns) too_many(item.where);
  std::set<std::string> seen;
  nn::TomlItem one = item;
  for (std::size_t i = 0; i < item.values.size(); ++i) {
    std::string& value = item.values[i];
    one.types = {item.types[i]}, one.values = {value};
    const nn::Setting& setting = nn::setting_named(one, settings);
    if (const std::string wrong = setting.problem(item.where + ": " + item.key, value);
        !wrong.empty())
      throw UsageError(wrong);
    value = plain_value(setting, value);
    if (!seen.insert(value).second)
      usage_error("{}: {} lists {} twice", item.where, item.key, value);
  }
}

void check_section(const nn::TomlItem& item) {
  if (item.section == "train" || item.section == "sweep") return;
  if (item.section.empty())
    usage_error("{}: '{}' stands outside a section; put it under [train] or [sweep]", item.where,
                item.key);
  usage_error("{}: there is no section [{}]; those of a sweep are [train] and [sweep]", item.where,
              item.section);
}

SweepFile read_sweep(const std::string& text, const std::string& file) {
  const Recipe recipe;
  const std::vector<nn::Setting>& settings = recipe.command.settings;
  SweepFile sweep;
  for (nn::TomlItem& item : nn::read_toml(text, file)) {
    check_section(item);
    if (item.key.empty()) continue;
    if (item.section == "sweep" && item.key == kPairs) {
      sweep.pairs = item.values;
      continue;
    }
    if (item.section == "train") {
      const nn::Setting& setting = nn::setting_named(item, settings);
      // As in config.toml, an empty text is none.
      if (item.values == std::vector<std::string>{""} && setting.kind == Kind::kText) continue;
    }
    check_values(item, settings);
    (item.section == "train" ? sweep.base : sweep.lists).push_back(std::move(item));
  }
  for (const nn::TomlItem& list : sweep.lists)
    for (const nn::TomlItem& item : sweep.base)
      if (item.key == list.key)
        usage_error("{}: {} stands in [train], too; leave out one", list.where, list.key);
  if (sweep.lists.empty())
    usage_error("{}: needs a section [sweep] of lists, such as seed = [1, 2, 3]", file);
  return sweep;
}

// Options that go together; most are alone.
using Axis = std::vector<const nn::TomlItem*>;

bool holds(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

std::vector<Axis> axes_of(const SweepFile& sweep, const std::vector<std::string>& pairs,
                          const std::string& file) {
  std::vector<std::string> keys;
  for (const nn::TomlItem& list : sweep.lists) keys.push_back(list.key);
  for (const std::string& key : pairs)
    if (!holds(keys, key))
      usage_error("{}: pairs names '{}', which [sweep] does not list; the nearest is '{}'", file,
                  key, nn::nearest(key, keys));
  if (pairs.size() == 1 || std::set(pairs.begin(), pairs.end()).size() < pairs.size())
    usage_error("{}: pairs needs two options or more, each once, got {}", file, heed::join(pairs));
  std::vector<Axis> axes;
  std::optional<std::size_t> together;
  for (const nn::TomlItem& list : sweep.lists) {
    if (!holds(pairs, list.key)) {
      axes.push_back({&list});
      continue;
    }
    if (!together) together = axes.size(), axes.emplace_back();
    axes[*together].push_back(&list);
    const nn::TomlItem& first = *axes[*together][0];
    if (first.values.size() != list.values.size())
      usage_error("{}: pairs need lists of one length; {} has {} values, {} has {}", list.where,
                  first.key, first.values.size(), list.key, list.values.size());
  }
  return axes;
}

std::size_t count_runs(const std::vector<Axis>& axes, const std::string& file) {
  std::size_t runs = 1;
  for (const Axis& axis : axes) {
    runs *= axis[0]->values.size();  // of a file of at most 1 MB
    if (runs > kMostSweepRuns) too_many(file);
  }
  return runs;
}

// A folder's name takes few characters; '/' is a value's ("1/sqrt-d-head").
std::string name_of_value(std::string value) {
  for (char& c : value)
    if (!std::isalnum(static_cast<unsigned char>(c)) && kSigns.find(c) == kSigns.npos) c = '_';
  return value;
}

// The values of run number `index`, by key.
std::map<std::string, std::string> values_of(const std::vector<Axis>& axes, std::size_t index) {
  std::map<std::string, std::string> values;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const std::size_t n = (*axis)[0]->values.size();
    for (const nn::TomlItem* list : *axis) values[list->key] = list->values[index % n];
    index /= n;
  }
  return values;
}

PlannedRun plan_run(const SweepFile& sweep, const std::map<std::string, std::string>& values,
                    Recipe& recipe) {
  PlannedRun run;
  recipe.clear();
  Command& c = recipe.command;
  const auto give = [&c](const nn::TomlItem& item, const std::string& value) {
    c.values[item.key] = {{item.where + ": " + item.key, value, true}};
  };
  for (const nn::TomlItem& item : sweep.base) give(item, item.values[0]);
  for (const nn::TomlItem& list : sweep.lists) {
    const std::string& value = values.at(list.key);
    give(list, value);
    run.name += (run.name.empty() ? "" : ",") + list.key + "=" + name_of_value(value);
  }
  if (run.name.size() > kLongestName)
    usage_error("{}: the name of a run, {}, is too long for a folder; sweep fewer options",
                sweep.lists[0].where, run.name);
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

// "scale,seed", by name, or "none".
std::string pairs_text(std::vector<std::string> pairs) {
  std::sort(pairs.begin(), pairs.end());
  std::string text;
  for (const std::string& key : pairs) text += (text.empty() ? "" : ",") + key;
  return text.empty() ? "none" : text;
}

}  // namespace

std::string plain_value(const nn::Setting& setting, const std::string& text) {
  const bool real = setting.kind == Kind::kReal || setting.kind == Kind::kNameOrReal;
  const auto number = real ? heed::parse_number<double>(text) : std::nullopt;
  return number ? fmt::format("{}", *number) : text;
}

SweepPlan plan_sweep(const std::string& text, const std::string& file,
                     std::vector<std::string> pairs) {
  const SweepFile sweep = read_sweep(text, file);
  if (!pairs.empty() && !sweep.pairs.empty())
    usage_error("{} has pairs already; leave out --pairs", file);
  if (pairs.empty()) pairs = sweep.pairs;
  const std::vector<Axis> axes = axes_of(sweep, pairs, file);
  SweepPlan plan;
  plan.pairs = pairs;
  for (const nn::TomlItem& item : sweep.base) plan.base.emplace_back(item.key, item.values[0]);
  std::sort(plan.base.begin(), plan.base.end());
  for (const nn::TomlItem& list : sweep.lists) plan.options.push_back({list.key, list.values});
  const std::size_t runs = count_runs(axes, file);
  std::set<std::string> names;
  Recipe recipe;
  for (std::size_t i = 0; i < runs; ++i) {
    plan.runs.push_back(plan_run(sweep, values_of(axes, i), recipe));
    const std::string& name = plan.runs.back().name;
    if (!names.insert(name).second)
      usage_error("{}: two runs would be called {}; give values that differ in more than signs",
                  file, name);
  }
  return plan;
}

std::string with_pairs(std::string text, const std::vector<std::string>& pairs) {
  if (pairs.empty()) return text;
  std::string line = "pairs = [";
  for (const std::string& key : pairs) line += (line.ends_with('[') ? "\"" : ", \"") + key + "\"";
  const std::size_t header = ("\n" + text).find("\n[sweep]");
  if (header == std::string::npos)
    usage_error("--pairs needs a line [sweep] in the file; or give pairs there");
  const std::size_t at = std::min(text.find('\n', header), text.size());
  return text.insert(at, "\n" + line + "]");
}

std::string no_longer_planned(const SweepPlan& before, const SweepPlan& now) {
  const auto text = [](const std::vector<std::pair<std::string, std::string>>& base,
                       const std::string& key) {
    const auto found = std::find_if(base.begin(), base.end(),
                                    [&](const auto& entry) { return entry.first == key; });
    return found == base.end() ? "not given" : found->second;
  };
  for (const auto* list : {&before.base, &now.base})
    for (const auto& [key, value] : *list)
      if (const auto was = text(before.base, key), is = text(now.base, key); was != is)
        return fmt::format("{} was {} there and is {} now", key, was, is);
  const auto keys = [](const SweepPlan& plan) {
    std::vector<std::string> list;
    for (const SweptOption& option : plan.options) list.push_back(option.key);
    return heed::join(list);
  };
  if (keys(before) != keys(now)) return fmt::format("it swept {}, not {}", keys(before), keys(now));
  for (std::size_t i = 0; i < now.options.size(); ++i)
    for (const std::string& value : before.options[i].values)
      if (!holds(now.options[i].values, value))
        return fmt::format("{} = {} is not swept any more", now.options[i].key, value);
  std::set<std::string> names;
  for (const PlannedRun& run : now.runs) names.insert(run.name);
  for (const PlannedRun& run : before.runs)
    if (!names.contains(run.name)) return run.name + " was one of its runs and is none now";
  const std::string were = pairs_text(before.pairs), are = pairs_text(now.pairs);
  if (were == are) return "";
  // The file says nothing of those that --pairs gave.
  const std::string advice =
      before.pairs.empty() ? ""
                           : fmt::format("; give --pairs {} again, or sweep its sweep.toml", were);
  return fmt::format("its pairs were {} and are {} now", were, are) + advice;
}

}  // namespace heed
