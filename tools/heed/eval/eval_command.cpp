// The command `heed eval`: prints loss and accuracy of a run, beside the best possible loss and
// accuracy.
#include <cmath>

#include "nn/run/folder_lock.h"
#include "nn/run/run_folder.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/evaluation_report.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {
namespace {

struct EvalArguments {
  std::string run, weights = nn::RunFolder::kModel;
  std::int64_t sequences = 0;
};

constexpr Column kEvalBefore[] = {{"task"}, {"steps"}, {"seconds"}, {"tokens_per_s"}};
constexpr Column kEvalAfter[] = {{"run"}, {"weights"}, {"position_loss"}, {"position_optimal"}};
constexpr auto kEvalKeys = joined(kEvalBefore, kEvaluationKeys, kEvalAfter);

constexpr Column kPositions[] = {
    {"", "position"},         {"", "+0", "", "{:.3f}"}, {"", "+1", "", "{:.3f}"},
    {"", "+2", "", "{:.3f}"}, {"", "+3", "", "{:.3f}"}, {"", "+4", "", "{:.3f}"},
    {"", "+5", "", "{:.3f}"}, {"", "+6", "", "{:.3f}"}, {"", "+7", "", "{:.3f}"}};

// Adds a table of the mean loss at each position. If the optimal loss is known, the row below each
// row of losses contains it.
void add_positions(Report& report, const nn::Evaluation& e) {
  const std::size_t per_line = std::size(kPositions) - 1;
  const bool known = !e.position_optimal.empty();
  Table& table = report.text_table(kPositions);
  table.title = fmt::format("loss by position{}", known ? ", with the best possible below" : "");
  const auto add = [&](const Value& name, const std::vector<double>& x, std::size_t first) {
    std::vector<Value> cells{name};
    for (std::size_t t = first; t < first + per_line; ++t)
      cells.push_back(t < x.size() ? Value(x[t]) : Value(""));
    table.add(std::move(cells));
  };
  for (std::size_t first = 0; first < e.position_loss.size(); first += per_line) {
    add(first, e.position_loss, first);
    if (known) add("best", e.position_optimal, first);
  }
}

// Writes the result of a finished run if it has none, or another loss. Returns the path of the
// file, or nothing if it was not written.
std::vector<std::filesystem::path> save_missing_result(const std::filesystem::path& folder,
                                                       const nn::RunResult& result) try {
  const nn::FolderLock lock(folder);
  const nn::RunFolder run(lock.directory());
  if (lock.taken() || run.finished_step() != result.steps) return {};
  // Bits of the loss may differ on another SIMD target.
  const std::optional<nn::RunResult> saved = run.result();
  if (saved && std::abs(saved->loss - result.loss) <= 1e-4 * std::abs(result.loss)) return {};
  if (lock.held()) nn::remove_temporaries(run.path(), nn::RunFolder::result_files());
  run.save_result(result);
  return {run.file(nn::RunFolder::kResult)};
} catch (const autograd::IoError& e) {
  print_error(fmt::format("note: the result of the run is not saved: {}", e.what()));
  return {};
}

Report eval(const EvalArguments& a) {
  const std::filesystem::path folder = find_run(a.run);
  const nn::LoadedRun run = open_run(folder, a.weights, nn::Use::kSequences);
  if (a.sequences > run.task->evaluation_size())
    usage_error("--sequences needs 1 to {}, the size of the evaluation set, got {}",
                run.task->evaluation_size(), a.sequences);
  const Stopwatch clock;
  Progress progress(false);
  const nn::Evaluation e = past_input_checks([&] {
    return nn::evaluate(run.model, *run.task, a.sequences, [&](auto done, auto total) {
      progress.at_work(fmt::format("Evaluating: {} of {} sequences", done, total));
    });
  });
  progress.clear();
  const double seconds = clock.seconds();
  const nn::TaskInfo& info = run.task->info();
  Report report(kEvalKeys);
  report.line("{} ({}), {}{}", folder.string(), run.config.task, a.weights,
              run.step ? fmt::format(", step {}", *run.step) : "");
  report.set("task", run.config.task);
  report.set("steps", run.step);
  report.set("seconds", seconds);
  report.set("tokens_per_s", double(e.sequences * info.context) / seconds);
  add_evaluation(report, e, *run.task);
  report.set("run", folder.string());
  report.set("weights", a.weights);
  report.set("position_loss", e.position_loss);
  report.set("position_optimal", e.position_optimal);
  add_positions(report, e);
  const bool is_final = a.weights == nn::RunFolder::kModel && a.sequences == 0 && run.step;
  std::vector<std::filesystem::path> files;
  if (is_final && std::isfinite(e.loss) && !nn::leaks(e)) {
    nn::RunResult result = nn::run_result(e, *run.task, *run.step);
    result.weights_checksum = nn::hash_of_tensors(nn::parameters(run.model));
    result.seconds = nn::RunFolder(folder).seconds();
    files = save_missing_result(folder, result);
  }
  if (!files.empty()) report.line("wrote {}", files[0].string());
  if (!std::isfinite(e.loss))
    report.fail(kNumeric, "eval: the loss is not finite; first " + e.trouble);
  else if (nn::leaks(e))
    report.fail(kCheckFailed,
                fmt::format("{}; run heed verify causality {}", nn::leak_text(e), folder.string()));
  return report;
}

}  // namespace

void eval_command(Command& c) {
  c.name = "eval";
  c.what = "evaluate a run: loss beside the best possible loss, accuracy, loss by position";
  c.examples = fmt::format("  heed eval\n  heed eval --weights {} --json", nn::RunFolder::kBest);
  c.notes = fmt::format(
      "Without --weights and --sequences, this measures the loss of the run, which heed train, "
      "runs, "
      "sweep and compare also print. If {0} is missing, because an earlier version of heed "
      "finished the run, or if it is damaged or has another loss, heed eval writes it.",
      nn::RunFolder::kResult);
  auto a = std::make_shared<EvalArguments>();
  c.arguments = 1;
  c.add("Options", {run_setting(a->run),
                    {"weights", a->weights, "FILE", "weights file in the run directory"},
                    nn::Setting("sequences", a->sequences, {1, 1 << 20},
                                "number of sequences of the evaluation set (text: of its "
                                "validation part)")
                        .shows("all, but at most 1,000,000 tokens")});
  c.add_common(Command::kAll);
  c.modes = {{.result = kEvalKeys, .run = [a](const Command&) { return eval(*a); }}};
}

}  // namespace heed
