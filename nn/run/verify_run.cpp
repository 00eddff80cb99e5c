#include "nn/run/verify_run.h"

#include <algorithm>
#include <map>
#include <optional>

#include "autograd/base/files.h"
#include "nn/io/limits.h"
#include "nn/run/metrics_file.h"
#include "nn/run/run_result.h"
#include "nn/run/snapshot_file.h"

namespace heed::nn {

using namespace autograd;

std::vector<FileCheck> verify_run(const RunFolder& run, bool checkpoints) {
  std::vector<FileCheck> checks;
  // `verify` returns how the file was verified, or throws the reason why it is damaged.
  const auto add = [&](const std::string& name, const auto& verify) {
    try {
      checks.push_back({name, verify(run.file(name).string())});
    } catch (const Error& e) {
      checks.push_back({name, "", e.what()});
    }
  };
  const auto by_checksum = [](const std::string& path) {
    return load_safetensors(path).checksum.empty() ? "nothing" : "its checksum";
  };
  std::optional<Snapshot> state;
  if (run.has_state())
    add(RunFolder::kState, [&](const std::string& path) {
      state = run.load();
      run.summary();
      Generator stream(0);
      for (const std::string& text : {state->data_stream, state->dropout_stream})
        stream.set_state(text);
      return by_checksum(path);
    });
  const auto check_equal = [](const std::string& path, bool is_equal) {
    check<IoError>(is_equal, path, "differs from ", RunFolder::kState,
                   "; a resume writes it again");
  };
  const auto add_text = [&](const char* name, const std::string& text, bool grows) {
    add(name, [&](const std::string& path) {
      const std::string found = read_file(path, kMaxMetricsBytes);
      const bool has_grown = grows && !state->finished && found != text && found.starts_with(text);
      check_equal(path, has_grown || found == text);
      return has_grown && !run.is_of_last_save(name) ? "nothing" : RunFolder::kState;
    });
  };
  const auto add_weights = [&](const char* name, std::string_view part) {
    add(name, [&](const std::string& path) {
      check_equal(path, hash_of_tensors(load_safetensors(path).tensors) ==
                            hash_of_tensors(state->part(part)));
      return RunFolder::kState;
    });
  };
  std::map<std::string, std::string> saved;
  if (state) saved = load_metadata(run.file(RunFolder::kState).string());
  if (const auto config = saved.find(kConfigKey); config != saved.end()) {
    add_text(RunFolder::kConfig, config->second, false);
    add_weights(RunFolder::kModel, "model.");
    if (const auto best = state->best().first; !state->part(best).empty())
      add_weights(RunFolder::kBest, best);
    add_text(RunFolder::kMetrics, metrics_csv(state->whole_history()), true);
    for (const auto& [name, lines] : state->logs) add_text(name.c_str(), lines, true);
  } else {  // a run of weights, or a damaged state
    for (const char* name : {RunFolder::kModel, RunFolder::kBest})
      if (is_there(run.file(name))) add(name, by_checksum);
  }
  if (checkpoints) try {
      for (const CheckpointFile& c : run.checkpoints())
        add(c.file.lexically_relative(run.path()).string(), by_checksum);
    } catch (const Error& e) {
      checks.push_back({RunFolder::kCheckpoints, "", e.what()});
    }
  for (const char* name : RunFolder::kFiles)
    if (std::ranges::count(checks, name, &FileCheck::name) == 0 && is_there(run.file(name)))
      checks.push_back({name, "nothing"});
  return checks;
}

}  // namespace heed::nn
