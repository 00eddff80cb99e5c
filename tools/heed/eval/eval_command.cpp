// heed eval: how good a run is, beside how good it can be.
#include <cmath>

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

// Mean loss at each position, ten to a line, above the best possible one where that is known.
void print_positions(const nn::Evaluation& e) {
  constexpr std::size_t kPerLine = 10;
  const bool known = !e.position_optimal.empty();
  print("\n  loss by position{}\n", known ? ", the best possible below it" : "");
  const auto line = [](const std::vector<double>& x, std::size_t first) {
    std::string text;
    for (std::size_t t = first; t < std::min(first + kPerLine, x.size()); ++t)
      text += std::isfinite(x[t]) ? fmt::format(" {:6.3f}", x[t]) : "      -";
    return text;
  };
  for (std::size_t first = 0; first < e.position_loss.size(); first += kPerLine) {
    print("  {:>5}{}\n", first, line(e.position_loss, first));
    if (known) print("  {:>5}{}\n", "best", line(e.position_optimal, first));
  }
}

int eval(const EvalArguments& a, bool json) {
  const std::filesystem::path folder = find_run(a.run);
  const nn::LoadedRun run = open_run(folder, a.weights, nn::Use::kSequences);
  if (a.sequences > run.task->evaluation_size())
    usage_error("--sequences needs 1 to {}, the size of the set, got {}",
                run.task->evaluation_size(), a.sequences);
  const Stopwatch clock;
  Progress progress(false);
  const nn::Evaluation e = past_input_checks([&] {
    return nn::evaluate(run.model, *run.task, a.sequences, [&](auto done, auto total) {
      progress.at_work(fmt::format("evaluates: {} of {} sequences", done, total));
    });
  });
  progress.clear();
  const double seconds = clock.seconds();
  const nn::TaskFacts& facts = run.task->facts();
  if (json) {
    nn::Json object =
        nn::Json::object({{"task", run.config.task},
                          {"steps", run.step},
                          {"seconds", seconds},
                          {"tokens_per_s", double(e.sequences * facts.context) / seconds}});
    add_evaluation(object, e, facts);
    object["run"] = folder.string();
    object["weights"] = a.weights;
    object["position_loss"] = e.position_loss;
    object["position_optimal"] = e.position_optimal;
    print_json(object);
  } else {
    print("{} ({}), {}{}\n\n", folder.string(), run.config.task, a.weights,
          run.step ? fmt::format(", step {}", *run.step) : "");
    print_evaluation(e, facts);
    print_positions(e);
  }
  if (!std::isfinite(e.loss))
    throw autograd::NumericError("eval: the loss is not finite; first " + e.trouble);
  if (const std::string leak = leak_text(e, folder.string()); !leak.empty()) throw CheckError(leak);
  return kOk;
}

}  // namespace

void eval_command(Command& c) {
  c.name = "eval";
  c.what = "evaluate a run: its loss beside the best possible one, accuracy, loss by position";
  c.json_keys[""] =
      "task steps seconds tokens_per_s loss optimal_loss accuracy standard_error references "
      "expected_optimal_loss expected_references expected_accuracy_references eval_sequences "
      "eval_tokens run weights "
      "position_loss position_optimal";
  c.examples = fmt::format("  heed eval\n  heed eval --weights {} --json", nn::RunFolder::kBest);
  auto a = std::make_shared<EvalArguments>();
  c.arguments = 1;
  c.add("Options", {run_setting(a->run),
                    {"weights", a->weights, "FILE", "weights inside the folder"},
                    nn::Setting("sequences", a->sequences, {1, 1 << 20},
                                "of the evaluation set; text: of its validation part")
                        .shows("all")});
  c.add_common(Command::kAll);
  c.run = [a](const Command& command) { return eval(*a, command.json); };
}

}  // namespace heed
