// heed tasks: what can be learned, and how well.
#include <cmath>
#include <map>

#include "autograd/base/text.h"
#include "nn/tasks/task.h"
#include "nn/train/config.h"
#include "tools/heed/commands.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

// Seconds of heed train with the recipe, on 2 otherwise idle cores, measured.
const std::map<std::string, int> kSeconds = {
    {"induction", 2}, {"recall", 4},  {"markov", 6}, {"modadd", 60}, {"dyck", 10},
    {"urn", 3},       {"reverse", 1}, {"copy", 1},   {"sort", 5},    {"adder", 5},
    {"majority", 8},  {"parity", 8},  {"random", 2}, {"text", 75}};

std::string about(int seconds) {
  return seconds < 60 ? fmt::format("{} s", seconds) : fmt::format("{} min", seconds / 60);
}

int list_tasks(bool json) {
  nn::Json rows = nn::Json::array();
  for (const std::string& name : nn::task_names()) {
    const auto task = nn::make_task(name);
    const nn::TaskFacts& facts = task->facts();
    const nn::RunConfig recipe = nn::preset(name);
    if (json) {
      rows.push_back(nn::Json::object({{"task", name},
                                       {"description", facts.description},
                                       {"vocabulary", facts.vocabulary.size()},
                                       {"symbols", facts.vocabulary.summary()},
                                       {"context", facts.context},
                                       {"optimal_loss", facts.optimal},
                                       {"references", facts.references},
                                       {"accuracy", facts.accuracy},
                                       {"steps", recipe.steps},
                                       {"expected_seconds", kSeconds.at(name)}}));
      continue;
    }
    print("{}\n  {}\n", name, facts.description);
    print("  vocabulary      {} tokens: {}\n", facts.vocabulary.size(), facts.vocabulary.summary());
    print("  sequence        {} tokens\n", facts.context);
    print("  best possible   {} nats per token\n",
          std::isfinite(facts.optimal) ? fmt::format("{:.6f}", facts.optimal) : "unknown:");
    for (const auto& [reference, loss] : facts.references)
      print("  {:<15} {:.6f} nats per token\n", reference, loss);
    print("  accuracy        {}\n", facts.accuracy);
    print("  prompt          {}\n", facts.prompt);
    print("  heed train {}: {} steps, {} layers, {} heads, d-model {}; about {} on 2 cores\n\n",
          name, recipe.steps, recipe.layers, recipe.heads, recipe.d_model,
          about(kSeconds.at(name)));
  }
  if (json)
    print_json(nn::Json::object({{"tasks", rows}, {"text_expected_seconds", kSeconds.at("text")}}));
  else
    print("Your own text: heed train --text FILE; about {} on 2 cores\nPresets: {}\n",
          about(kSeconds.at("text")), autograd::join(nn::preset_names()));
  return kOk;
}

}  // namespace

void tasks_command(Command& c) {
  c.name = "tasks", c.what = "list the built-in tasks";
  c.examples = "  heed tasks\n  heed tasks --json";
  c.add_common(Command::kJson);
  c.run = [](const Command& command) { return list_tasks(command.json); };
}

}  // namespace heed
