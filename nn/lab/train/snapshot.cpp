#include "nn/lab/train/snapshot.h"

#include <cmath>
#include <span>

#include "autograd/base/dtype.h"
#include "nn/io/crc32c.h"
#include "nn/lab/settings/toml.h"
#include "nn/lab/train/trainer.h"

namespace heed::lab {

using namespace autograd;

std::vector<NamedTensor> Snapshot::part(std::string_view prefix) const {
  std::vector<NamedTensor> found;
  for (const NamedTensor& t : tensors)
    if (t.name.starts_with(prefix)) found.push_back({t.name.substr(prefix.size()), t.tensor});
  return found;
}

std::pair<std::string_view, Index> Snapshot::best() const {
  const bool last_is_best =
      last_evaluation && last_evaluation->eval_loss < best_loss.value_or(HUGE_VAL);
  if (last_is_best) return {"model.", step};
  return {"best.", best_step};
}

std::vector<MetricsRow> Snapshot::whole_history() const {
  std::vector<MetricsRow> rows = history;
  if (!last_evaluation) return rows;
  if (rows.empty() || rows.back().step != last_evaluation->step)
    rows.emplace_back(last_evaluation->step);
  for (const MetricsColumn& column : kMetricsColumns)
    if (is_of_evaluation(column)) rows.back().*column.value = *last_evaluation.*column.value;
  return rows;
}

SafeTensors load_weights(const std::string& path) {
  return load_safetensors(path, load_metadata(path).contains("data_stream") ? "model." : "");
}

std::uint32_t hash_of(const Snapshot& s) {
  Crc32c sum;
  for (const MetricsRow& row : s.history) {
    if (row.step == 0) continue;
    for (const MetricsColumn& column : kMetricsColumns)
      if (!is_of_evaluation(column)) sum.add(std::as_bytes(std::span(&(row.*column.value), 1)));
  }
  for (const NamedTensor& t : s.tensors)
    if (!t.name.starts_with("best."))
      dispatch_any(t.tensor.dtype(), [&]<class T> {
        sum.add(std::as_bytes(std::span(t.tensor.data<T>(), std::size_t(t.tensor.numel()))));
      });
  for (const std::string& stream : {s.data_stream, s.dropout_stream})
    sum.add(std::as_bytes(std::span(stream)));
  return sum.value();
}

std::string recipe_text(RunConfig config) {
  const RunConfig same;
  config.schedule_steps =
      config.schedule == Decay::kConstant ? same.schedule_steps : schedule(config).total_steps;
  config.steps = same.steps, config.eval_every = same.eval_every;
  config.save_every = same.save_every, config.text = same.text, config.lines = same.lines;
  config.patience = same.patience, config.target_loss = same.target_loss;
  config.eval_train = same.eval_train, config.accumulate = same.accumulate;
  config.sample_every = same.sample_every;
  return to_toml(config);
}

std::optional<RecipeDifference> recipe_difference(const std::string& a, const std::string& b,
                                                  const std::string& b_origin) {
  if (a == b) return {};
  RunConfig left = from_toml(a), right = from_toml(b, b_origin);
  const std::vector<Setting> x = left.settings(), y = right.settings();
  const auto line = [](const Setting& s) {
    const std::string text = toml_line(s);
    return text.substr(0, text.size() - 1);  // without the line break
  };
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i].get() != y[i].get()) return RecipeDifference{line(x[i]), line(y[i])};
  return {};
}

std::unique_ptr<Task> saved_task(const RunConfig& config,
                                 const std::map<std::string, std::string>& data,
                                 const std::string& origin, std::unique_ptr<Task> own,
                                 bool can_resume) {
  check<TextError>(own || !data.contains(kOwnTaskKey), origin, "its task '", config.task,
                   "' is defined in the program that trained it, so its sequences cannot be drawn "
                   "here; use that program, or give a prompt");
  const std::string advice =
      "if it was moved, " +
      (can_resume ? "resume the run once with `" + config.task + "` set to its new path"
                  : std::string("move it back"));
  std::unique_ptr<Task> task = std::move(own);
  try {
    if (!task) task = make_task(config);
  } catch (const IoError& e) {
    if (!learns_file(config)) throw;
    fail<TextError>(config.task, e.what(), "; ", advice);
  }
  // If the text has changed, token ids may stand for other characters, and evaluation sequences may
  // have been part of the training data.
  for (const auto& [key, now] : task->info().data) {
    const auto then = data.find(key);
    check<IoError>(then != data.end(), origin, "has no '", key, "'", kDamaged);
    check<TextError>(now == then->second, "text", "'", text_options(config).path,
                     "' is not the text of this run: ", key, " was ", then->second.substr(0, 80),
                     " (", origin, "), is ", now.substr(0, 80), "; restore the text, or, ", advice);
  }
  return task;
}

}  // namespace heed::lab
