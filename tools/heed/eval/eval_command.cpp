// heed eval: how good a run is, beside how good it can be.
#include <cmath>

#include "nn/train/trainer.h"
#include "tools/heed/commands.h"
#include "tools/heed/evaluation_report.h"
#include "tools/heed/output.h"
#include "tools/heed/progress.h"
#include "tools/heed/run_folder.h"

namespace heed {
namespace {

struct EvalArguments {
  std::string run, weights = "model.safetensors";
  std::int64_t sequences = 0;
};

// Mean loss at each position, ten to a line.
void print_positions(const std::vector<double>& loss) {
  constexpr std::size_t kPerLine = 10;
  say("\n  loss by position\n");
  for (std::size_t first = 0; first < loss.size(); first += kPerLine) {
    std::string line;
    for (std::size_t t = first; t < std::min(first + kPerLine, loss.size()); ++t)
      line += std::isfinite(loss[t]) ? fmt::format(" {:6.3f}", loss[t]) : "      -";
    say("  {:>5}{}\n", first, line);
  }
}

int eval(const EvalArguments& a, bool json) {
  const std::filesystem::path folder = find_run(a.run);
  const nn::LoadedRun run = nn::load_run(folder, a.weights, nn::Use::kSequences);
  const Stopwatch clock;
  const nn::Evaluation e =
      past_input_checks([&] { return nn::evaluate(run.model, *run.task, a.sequences); });
  const double seconds = clock.seconds();
  if (const std::string leak = leak_text(e); !leak.empty()) complain(leak);
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
    say_json(object);
  } else {
    say("{} ({}), {}{}\n\n", folder.string(), run.config.task, a.weights,
        run.step ? fmt::format(", step {}", *run.step) : "");
    print_evaluation(e, facts);
    print_positions(e.position_loss);
  }
  if (!std::isfinite(e.loss)) throw autograd::NumericError("eval: the loss is not finite");
  return kOk;
}

}  // namespace

std::unique_ptr<Command> eval_command(CLI::App& app) {
  auto command = std::make_unique<Command>(
      app, "eval",
      "evaluate a run: its loss beside the best possible one, accuracy, loss by position",
      "  heed eval\n"
      "  heed eval --weights best.safetensors --json");
  auto a = std::make_shared<EvalArguments>();
  Command* c = command.get();
  c->positional("run", a->run, "run folder (default: the newest under runs/)");
  c->text("weights", a->weights, "FILE", "weights inside the folder");
  c->option("sequences", "N", "all", "of the evaluation set; text: of its validation part",
            [a](const std::string& where, const std::string& raw) {
              a->sequences = parse_integer(where, raw, 1, 1 << 20);
            });
  c->config_option();
  c->threads_option();
  c->json_option();
  c->run = [a, c] { return eval(*a, c->json); };
  return command;
}

}  // namespace heed
