#include "tools/heed/compare/run_groups.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/files.h"
#include "nn/run/run_folder.h"
#include "tools/heed/plan/sweep_folder.h"
#include "tools/heed/report/report.h"

namespace heed {
namespace {

std::vector<OptionValue> options_of(nn::RunConfig config) {
  std::vector<OptionValue> list;
  for (const nn::Setting& s : config.settings())
    if (s.key != "seed") list.emplace_back(s.key, plain_value(s, s.get()));
  return list;
}

// Of result.json, unless that is about fewer steps: heed train --resume --steps leaves it as it is.
std::optional<double> seconds_of_all(const std::filesystem::path& run, std::int64_t steps) {
  const std::filesystem::path file = nn::RunFolder(run).file(nn::RunFolder::kResult);
  if (std::error_code ignored; !std::filesystem::is_regular_file(file, ignored)) return {};
  try {
    const Value result = Value::parse(autograd::read_file(file.string()));
    const Value *seconds = result.find("seconds"), *trained = result.find("steps");
    if (trained && *trained == steps && seconds && seconds->as<double>()) return seconds->number();
  } catch (const autograd::Error&) {  // not ours
  }
  return {};
}

}  // namespace

RunRecord read_record(const std::filesystem::path& folder) {
  RunRecord run{folder, {}, {}, {}};
  const nn::RunFolder files(folder);
  run.config = files.config();
  run.evaluations = files.metrics();
  if (!run.evaluations.empty()) run.seconds = seconds_of_all(folder, run.evaluations.back().step);
  std::erase_if(run.evaluations,
                [](const nn::MetricsRow& row) { return std::isnan(row.eval_loss); });
  if (run.evaluations.empty())
    throw autograd::IoError(files.file(nn::RunFolder::kMetrics).string() +
                            ": there is no evaluation; compare needs one of each run");
  return run;
}

std::string RunGroup::name() const {
  std::string text;
  for (const auto& [key, value] : values) text += (text.empty() ? "" : ", ") + key + "=" + value;
  return text.empty() ? "all runs" : text;
}

std::string RunGroup::value(const std::string& option) const {
  for (const auto& [key, value] : values)
    if (key == option) return value;
  return "";
}

std::vector<RunGroup> group_runs(const std::vector<RunRecord>& runs) {
  std::vector<std::vector<OptionValue>> options;  // the same keys, in the same order
  for (const RunRecord& run : runs) options.push_back(options_of(run.config));
  std::vector<std::size_t> differing;
  for (std::size_t k = 0; !options.empty() && k < options[0].size(); ++k)
    if (std::any_of(options.begin(), options.end(),
                    [&](const auto& list) { return list[k].second != options[0][k].second; }))
      differing.push_back(k);
  std::vector<RunGroup> groups;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::vector<OptionValue> values;
    for (const std::size_t k : differing) values.push_back(options[i][k]);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const RunGroup& g) { return g.values == values; });
    if (group == groups.end()) group = groups.insert(group, RunGroup{values, {}});
    for (const RunRecord* other : group->runs)
      if (other->config.seed == runs[i].config.seed)
        usage_error("{} and {} have the same options and seed: one run, twice; leave out one",
                    other->folder.string(), runs[i].folder.string());
    group->runs.push_back(&runs[i]);
  }
  return groups;
}

}  // namespace heed
