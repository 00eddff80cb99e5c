#include "nn/run/snapshot_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "autograd/base/text.h"
#include "nn/io/json.h"
#include "nn/train/build.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr auto kColumns = std::int64_t(1 + std::size(kMetricsColumns));  // with the column of steps
constexpr const char* kHistory = "history";
constexpr std::string_view kLog = "log.";  // texts of files that runs of 83ccf26f had
constexpr const char *kLastEvaluation = "last_evaluation", *kEvaluationStep = "step";

Tensor history_tensor(const std::vector<MetricsRow>& history) {
  std::vector<double> rows;
  for (const MetricsRow& r : history) {
    rows.push_back(double(r.step));
    for (const MetricsColumn& column : kMetricsColumns) rows.push_back(r.*column.value);
  }
  return from_data(rows, {std::int64_t(history.size()), kColumns});
}

// Returns the history. It must have one row per step, and may begin with a row of step 0 for an
// evaluation before the first step. This is checked, because other code computes the step of a row
// from its index.
std::vector<MetricsRow> read_history(const SafeTensors& file) {
  const Tensor rows = file.find(kHistory);
  check<IoError>(rows.defined() && rows.rank() == 2 && rows.size(1) >= 1 &&
                     rows.size(1) <= kColumns && rows.dtype() == float64,
                 file.path, "has no 'history' [rows, ", kColumns, "] float64", kDamaged);
  const auto v = rows.to_vector<double>();
  const auto columns = std::size_t(rows.size(1));
  const double first = v.empty() ? 1 : v[0];
  std::vector<MetricsRow> history;
  for (std::size_t i = 0; i + columns <= v.size(); i += columns) {
    const double step = first + double(i / columns);
    check<IoError>((first == 0 || first == 1) && v[i] == step, file.path, "row ", i / columns,
                   " of the history is of step ", v[i], ", not ", step, kDamaged);
    MetricsRow& row = history.emplace_back(std::int64_t(v[i]));
    for (std::size_t c = 1; c < columns; ++c) row.*kMetricsColumns[c - 1].value = v[i + c];
  }
  return history;
}

void check_best(const Snapshot& s, const std::string& text) {
  const auto row = std::find_if(s.history.begin(), s.history.end(),
                                [&](const MetricsRow& r) { return r.step == s.best_step; });
  check<IoError>(s.best_loss && row != s.history.end() && row->eval_loss == *s.best_loss, s.origin,
                 "the best loss is '", text, "' of step ", s.best_step,
                 ", but the history does not contain it", kDamaged);
}

}  // namespace

std::string metadata_of(const SafeTensors& file, const std::string& key) {
  const auto found = file.metadata.find(key);
  check<IoError>(found != file.metadata.end(), file.path, "has no '", key,
                 "'; heed train did not write this file, or it is damaged: remove or restore it");
  return found->second;
}

std::int64_t count_of(const SafeTensors& file, const std::string& key) {
  const std::string text = metadata_of(file, key);
  const auto value = parse_number<std::int64_t>(text);
  check<IoError>(value && *value >= 0, file.path, "'", key, "' is '", text,
                 "', needs a whole number of at least 0", kDamaged);
  return *value;
}

std::string checksum_note(const SafeTensors& file) {
  return file.checksum.empty() ? file.path + " has no checksum, so damage cannot be detected" : "";
}

std::string evaluation_json(const MetricsRow& row) {
  Json json = Json::object({{kEvaluationStep, row.step}});
  for (const MetricsColumn& column : kMetricsColumns)
    if (is_of_evaluation(column)) json.append(column.name, row.*column.value);
  return json.dump();
}

std::map<std::string, std::string> weights_metadata(const Snapshot& s,
                                                    std::optional<std::int64_t> step) {
  std::map<std::string, std::string> metadata = s.data;
  metadata["format"] = "pt";
  if (step) metadata["step"] = std::to_string(*step);
  metadata["recipe"] = recipe_text(s.config);
  return metadata;
}

void write_snapshot(const Snapshot& s, const std::string& config, const std::string& path) {
  std::map<std::string, std::string> metadata = weights_metadata(s, s.step);
  metadata["best_loss"] = s.best_loss ? fmt::format("{:.17g}", *s.best_loss) : "";
  metadata["best_step"] = std::to_string(s.best_step);
  metadata["data_stream"] = s.data_stream;
  metadata["dropout_stream"] = s.dropout_stream;
  metadata[kConfigKey] = config;
  const std::vector<MetricsRow> rows = s.whole_history();
  const auto last = std::find_if(rows.rbegin(), rows.rend(),
                                 [](const MetricsRow& r) { return !std::isnan(r.eval_loss); });
  if (last != rows.rend()) metadata[kLastEvaluation] = evaluation_json(*last);
  if (s.finished) metadata[kFinishedKey] = "yes";
  if (!s.result.empty()) metadata[kResultKey] = s.result;
  metadata["compiler"] = compiler_text();
  metadata["simd_target"] = simd_target_text();
  std::vector<NamedTensor> tensors = s.tensors;
  tensors.push_back({kHistory, history_tensor(s.history)});
  save_safetensors(path, tensors, metadata);
}

Snapshot read_snapshot(const SafeTensors& file, const RunConfig& config) {
  Snapshot s{.config = config, .step = count_of(file, "step"), .tensors = file.tensors};
  s.origin = file.path, s.data = file.metadata;
  for (const char* key :
       {"format", "step", "recipe", "best_loss", "best_step", "data_stream", "dropout_stream",
        "compiler", "simd_target", kConfigKey, kFinishedKey, kResultKey, kLastEvaluation})
    s.data.erase(key);
  s.history = read_history(file);
  std::erase_if(s.tensors, [](const NamedTensor& t) {
    return t.name == kHistory || t.name.starts_with(kLog);
  });
  const std::int64_t rows_done = s.history.empty() ? 0 : s.history.back().step;
  check<IoError>(rows_done == s.step, file.path, "the step is ", s.step,
                 ", but the history ends with step ", rows_done, kDamaged);
  const std::string best = metadata_of(file, "best_loss");
  s.best_step = count_of(file, "best_step");
  if (!best.empty()) {
    s.best_loss = parse_number<double>(best);
    check_best(s, best);
  }
  s.data_stream = metadata_of(file, "data_stream");
  s.dropout_stream = metadata_of(file, "dropout_stream");
  s.finished = file.metadata.contains(kFinishedKey);
  if (!s.finished) return s;
  if (const auto result = file.metadata.find(kResultKey); result != file.metadata.end())
    s.result = result->second;
  const bool evaluated = !s.history.empty() && !std::isnan(s.history.back().eval_loss);
  const auto last = last_evaluation_in(file.metadata, file.path);
  if (last && last->step == s.step && !evaluated) s.last_evaluation = last;
  return s;
}

std::optional<MetricsRow> last_evaluation_in(const std::map<std::string, std::string>& metadata,
                                             const std::string& path) {
  const auto found = metadata.find(kLastEvaluation);
  if (found == metadata.end()) return {};
  try {
    const Json json = Json::parse(found->second);
    const Json* step = json.find(kEvaluationStep);
    const auto* number = step ? step->as<std::uint64_t>() : nullptr;
    if (!number || !std::in_range<std::int64_t>(*number)) throw JsonError("has no step");
    MetricsRow row{std::int64_t(*number)};
    for (const MetricsColumn& column : kMetricsColumns)
      if (const Json* value = json.find(column.name); value && *value != Json())
        row.*column.value = value->number();
    return row;
  } catch (const JsonError& e) {
    fail<IoError>(path, "its '", kLastEvaluation, "' ", e.what(), kDamaged);
  }
}

std::vector<std::string> snapshot_warnings(const SafeTensors& file) {
  std::vector<std::string> warnings;
  if (file.checksum.empty()) warnings.push_back(checksum_note(file));
  for (const auto& [key, now] :
       {std::pair{"compiler", compiler_text()}, std::pair{"simd_target", simd_target_text()}})
    if (const std::string then = metadata_of(file, key); then != now)
      warnings.push_back(fmt::format(
          "{} was {} in {} and is {} now: the run continues, but not with the same bits", key, then,
          file.path, now));
  return warnings;
}

}  // namespace heed::nn
