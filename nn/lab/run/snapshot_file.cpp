#include "nn/lab/run/snapshot_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "autograd/base/text.h"
#include "nn/io/json.h"
#include "nn/lab/train/build.h"
#include "nn/optim/first_non_finite.h"

namespace heed::lab {

using namespace autograd;

namespace {

constexpr auto kColumns = Index(1 + std::size(kMetricsColumns));  // with the column of steps
constexpr const char* kHistory = "history";
constexpr std::string_view kLog = "log.";  // texts of files that runs of 83ccf26f had
constexpr const char* kEvaluationStep = "step";

// Calls f(key, member) for each entry of the metadata that is a member of a Snapshot. A member with
// its default value may have no entry.
template <class F>
void visit(Snapshot& s, const F& f) {
  f("step", s.step), f("best_loss", s.best_loss), f("best_step", s.best_step);
  f("data_stream", s.data_stream), f("dropout_stream", s.dropout_stream);
  f("finished", s.finished), f("result", s.result), f("last_evaluation", s.last_evaluation);
}

// The text of each type of member. An empty text is not written.
std::string text_of(const std::string& value) { return value; }
std::string text_of(Index value) { return std::to_string(value); }
std::string text_of(bool value) { return value ? "yes" : ""; }
std::string text_of(const std::optional<double>& value) {
  return value ? fmt::format("{:.17g}", *value) : "";
}
std::string text_of(const std::optional<MetricsRow>& row) {
  return row ? evaluation_json(*row) : "";
}

// Parses the text of a member. Throws JsonError if it is invalid.
void parse(const std::string& text, std::string& value) { value = text; }
void parse(const std::string& text, bool& value) { value = !text.empty(); }
void parse(const std::string& text, Index& value) {
  const auto number = parse_number<std::int64_t>(text);
  if (!number || *number < 0)
    throw JsonError("is '" + text + "', needs a whole number of at least 0");
  value = *number;
}
void parse(const std::string& text, std::optional<double>& value) {
  value = parse_number<double>(text);
  if (!value && !text.empty()) throw JsonError("is '" + text + "', needs a number");
}
void parse(const std::string& text, std::optional<MetricsRow>& row) {
  const Json json = Json::parse(text);
  const Json* step = json.find(kEvaluationStep);
  const auto* number = step ? step->as<std::uint64_t>() : nullptr;
  if (!number || !std::in_range<Index>(*number)) throw JsonError("has no step");
  row = MetricsRow(Index(*number));
  for (const MetricsColumn& column : kMetricsColumns)
    if (const Json* value = json.find(column.name); value && *value != Json())
      (*row).*column.value = value->number();
}

Tensor history_tensor(const std::vector<MetricsRow>& history) {
  std::vector<double> rows;
  for (const MetricsRow& r : history) {
    rows.push_back(double(r.step));
    for (const MetricsColumn& column : kMetricsColumns) rows.push_back(r.*column.value);
  }
  return from_data(rows, {Index(history.size()), kColumns});
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
    MetricsRow& row = history.emplace_back(Index(v[i]));
    for (std::size_t c = 1; c < columns; ++c) row.*kMetricsColumns[c - 1].value = v[i + c];
  }
  return history;
}

void check_best(const Snapshot& s) {
  if (!s.best_loss) return;
  const auto row = std::find_if(s.history.begin(), s.history.end(),
                                [&](const MetricsRow& r) { return r.step == s.best_step; });
  check<IoError>(row != s.history.end() && row->eval_loss == *s.best_loss, s.origin,
                 "the best loss is ", *s.best_loss, " of step ", s.best_step,
                 ", but the history does not contain it", kDamaged);
}

}  // namespace

std::string metadata_of(const SafeTensors& file, const std::string& key) {
  const auto found = file.metadata.find(key);
  check<IoError>(found != file.metadata.end(), file.path, "has no '", key,
                 "'; heed train did not write this file, or it is damaged: remove or restore it");
  return found->second;
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

std::map<std::string, std::string> weights_metadata(const Snapshot& s, std::optional<Index> step) {
  std::map<std::string, std::string> metadata = s.data;
  metadata["format"] = "pt";
  if (step) metadata["step"] = std::to_string(*step);
  metadata["recipe"] = recipe_text(s.config);
  return metadata;
}

std::string metrics_line(const MetricsRow& row) {
  std::string line = std::to_string(row.step);
  for (const MetricsColumn& column : kMetricsColumns) {
    const double x = row.*column.value;
    line += "," + (std::isnan(x) ? "" : fmt::format("{:.17g}", x));
  }
  return line + "\n";
}

std::string metrics_csv(const std::vector<MetricsRow>& history) {
  std::string text = "step";
  for (const MetricsColumn& column : kMetricsColumns) text += std::string(",") + column.name;
  text += "\n";
  for (const MetricsRow& row : history) text += metrics_line(row);
  return text;
}

void write_snapshot(const Snapshot& s, const std::string& config, const std::string& path) {
  std::map<std::string, std::string> metadata = weights_metadata(s, {});
  metadata[kConfigKey] = config;
  metadata["compiler"] = compiler_text();
  metadata["simd_target"] = simd_target_text();
  Snapshot header = s;
  const std::vector<MetricsRow> rows = s.whole_history();
  const auto last = std::find_if(rows.rbegin(), rows.rend(),
                                 [](const MetricsRow& r) { return !std::isnan(r.eval_loss); });
  if (last != rows.rend()) header.last_evaluation = *last;
  visit(header, [&](const char* key, const auto& value) {
    if (const std::string text = text_of(value); !text.empty()) metadata[key] = text;
  });
  std::vector<NamedTensor> tensors = s.tensors;
  tensors.push_back({kHistory, history_tensor(s.history)});
  save_safetensors(path, tensors, metadata);
}

Snapshot read_header(const std::map<std::string, std::string>& metadata, const std::string& path) {
  Snapshot s;
  s.data = metadata, s.origin = path;
  for (const char* key : {"format", "recipe", "compiler", "simd_target", kConfigKey})
    s.data.erase(key);
  visit(s, [&](const char* key, auto& value) {
    const auto entry = s.data.extract(key);
    if (!entry) return;
    try {
      parse(entry.mapped(), value);
    } catch (const JsonError& e) {
      fail<IoError>(path, "'", key, "' ", e.what(), kDamaged);
    }
  });
  return s;
}

Snapshot read_snapshot(const SafeTensors& file, const RunConfig& config) {
  Snapshot s = read_header(file.metadata, file.path);
  s.config = config, s.tensors = file.tensors, s.history = read_history(file);
  std::erase_if(s.tensors, [](const NamedTensor& t) {
    return t.name == kHistory || t.name.starts_with(kLog);
  });
  const std::string bad = first_non_finite(s.tensors);
  check<IoError>(bad.empty(), file.path, bad, kDamaged);
  const Index rows_done = s.history.empty() ? 0 : s.history.back().step;
  check<IoError>(rows_done == s.step, file.path, "the step is ", s.step,
                 ", but the history ends with step ", rows_done, kDamaged);
  check_best(s);
  if (!s.finished) s.result.clear();
  // An evaluation that the history contains is not the one at the end.
  const bool evaluated = !s.history.empty() && !std::isnan(s.history.back().eval_loss);
  if (!s.finished || evaluated || (s.last_evaluation && s.last_evaluation->step != s.step))
    s.last_evaluation.reset();
  return s;
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

}  // namespace heed::lab
