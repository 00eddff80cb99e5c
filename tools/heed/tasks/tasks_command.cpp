// heed tasks: what can be learned, and how well; with a name, all about one task.
#include <cmath>

#include "autograd/base/text.h"
#include "nn/tasks/parameters.h"
#include "nn/train/config.h"
#include "tools/heed/commands.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

constexpr int kTextSeconds = 75;  // of shakespeare-cpu on tiny shakespeare

std::string about(int seconds) {
  if (seconds == 0) return "not timed";
  return seconds < 60 ? fmt::format("about {} s", seconds)
                      : fmt::format("about {} min", (seconds + 30) / 60);
}

std::string nats(double loss) {
  return std::isfinite(loss) ? fmt::format("{:.6f}", loss) : "unknown";
}

// A task's own recipe first, then others on the same task.
std::vector<std::string> presets_of(const std::string& task) {
  std::vector<std::string> names = {task};
  for (const std::string& name : nn::preset_names())
    if (name != task && nn::preset(name).task == task) names.push_back(name);
  return names;
}

nn::Json summary(const std::string& name, const nn::TaskFacts& facts) {
  return nn::Json::object({{"task", name},
                           {"description", facts.description},
                           {"vocabulary", facts.vocabulary.size()},
                           {"symbols", facts.vocabulary.summary()},
                           {"context", facts.context},
                           {"optimal_loss", facts.optimal},
                           {"references", facts.references},
                           {"accuracy", facts.accuracy},
                           {"steps", nn::preset(name).steps},
                           {"expected_seconds", nn::preset_seconds(name)}});
}

int list_tasks(bool json) {
  nn::Json rows = nn::Json::array();
  for (const std::string& name : nn::task_names()) {
    const auto task = nn::make_task(name);
    const nn::TaskFacts& facts = task->facts();
    if (json)
      rows.push_back(summary(name, facts));
    else
      print("{:<10} best possible {} nats per token, {} on 2 cores\n  {}\n", name,
            nats(facts.optimal), about(nn::preset_seconds(name)), facts.description);
  }
  if (json)
    print_json(nn::Json::object({{"tasks", rows}, {"text_expected_seconds", kTextSeconds}}));
  else
    print(
        "\nheed tasks NAME explains one; heed train NAME learns it.\n"
        "Your own text: heed train --text FILE; {} on 2 cores\nPresets: {}\n",
        about(kTextSeconds), autograd::join(nn::preset_names()));
  return kOk;
}

// One sequence as its task spells it; targets that are ignored are dots, and stars stand under the
// positions that the accuracy counts.
struct Spelled {
  std::string inputs, targets, counted;
};

Spelled spell_example(const nn::Task& task) {
  nn::Generator g(1);
  const nn::Batch batch = task.example(g);
  const nn::Vocabulary& vocabulary = task.facts().vocabulary;
  const auto targets = batch.targets.to_vector<std::int64_t>();
  const auto counted = batch.counted.to_vector<bool>();
  Spelled s;
  s.inputs = vocabulary.decode(batch.inputs.to_vector<std::int64_t>());
  for (std::size_t t = 0; t < targets.size(); ++t) {
    s.targets += targets[t] == nn::kIgnored ? "·" : vocabulary.decode({&targets[t], 1});
    s.counted += counted[t] ? '*' : ' ';
  }
  return s;
}

std::string recipe_text(const std::string& preset, const std::string& task) {
  const nn::RunConfig c = nn::preset(preset);
  std::string how = preset == task ? "heed train " + task : "heed train --preset " + preset;
  for (const auto& [key, value] : c.task_parameters)
    how += fmt::format(" (--task-{} {})", key, value);
  return fmt::format(
      "{}: {} on 2 cores\n    {} layers, {} heads, d-model {}; {} steps of {} x {} tokens, lr {:g}",
      how, about(nn::preset_seconds(preset)), c.model.layers, c.model.attention.heads,
      c.model.attention.d_model, c.steps, c.batch, c.model.context, c.lr);
}

void explain(const std::string& name, const nn::Task& task) {
  const nn::TaskFacts& facts = task.facts();
  const Spelled example = spell_example(task);
  print("{}: {}\n\n", name, facts.description);
  print("a sequence has {} tokens of {}\n", facts.context, facts.vocabulary.summary());
  print("  read     {}\n  predict  {}\n  counted  {}\n\n", example.inputs, example.targets,
        example.counted);
  print("best possible  {} nats per token\n  {}\n", nats(facts.optimal), facts.optimum);
  for (const auto& [reference, loss] : facts.references)
    print("  {}: {} nats per token\n", reference, nats(loss));
  print("accuracy  {}\n", facts.accuracy);
  for (const auto& [reference, share] : facts.accuracy_references)
    print("  {}: {:.2f} %\n", reference, 100 * share);
  print("source    {}\nprompt    {}\n\nparameters\n", facts.source, with_options(facts.prompt));
  for (const nn::Setting& p : nn::task_maker(name).parameters)
    print("  --task-{} {}\n      {}\n", p.key, p.unit, p.description());
  print("  --context N\n      tokens of a sequence (default: {})\n\nrecipes\n", facts.context);
  for (const std::string& preset : presets_of(name)) print("  {}\n", recipe_text(preset, name));
}

nn::Json explanation(const std::string& name, const nn::Task& task) {
  const nn::TaskFacts& facts = task.facts();
  const Spelled example = spell_example(task);
  nn::Json object = summary(name, facts);
  object["optimum"] = facts.optimum;
  object["source"] = facts.source;
  object["prompt"] = with_options(facts.prompt);
  object["accuracy_references"] = facts.accuracy_references;
  object["example"] = nn::Json::object(
      {{"inputs", example.inputs}, {"targets", example.targets}, {"counted", example.counted}});
  object["parameters"] = nn::Json::array();
  const nn::TaskMaker maker = nn::task_maker(name);
  for (const nn::Setting& p : maker.parameters)
    object["parameters"].push_back(nn::Json::object(
        {{"option", "--task-" + p.key}, {"default", p.get()}, {"help", p.description()}}));
  object["presets"] = presets_of(name);
  return object;
}

// text and lines, of which nothing is known before there is a file.
int explain_file_task(const std::string& name, bool json) {
  const bool lines = name == "lines";
  const std::string what =
      lines ? "each line of a file of your own is a sequence; a tenth, 1000 at most, is held out"
            : "the next character of a file of your own; its last tenth is held out";
  const std::string preset = nn::preset_of(name);
  if (json) {
    print_json(nn::Json::object({{"task", name},
                                 {"description", what},
                                 {"optimal_loss", nn::Json()},
                                 {"presets", std::vector<std::string>{preset}}}));
    return kOk;
  }
  print("{}: {}\n\n", name, what);
  print(
      "best possible  unknown; beside the loss stand those of n-grams counted on the same file\n");
  print("tokens    characters; --unit word: words, the most frequent --max-words of them\n");
  if (lines)
    print("answers   --answer-after CHAR: only what follows the first CHAR of a line counts\n");
  print("train     heed train --{} FILE: the preset {}\n", name, preset);
  return kOk;
}

int explain_task(const std::string& name, bool json) {
  if (name == "text" || name == "lines") return explain_file_task(name, json);
  const auto task = nn::make_task(name);
  if (json)
    print_json(explanation(name, *task));
  else
    explain(name, *task);
  return kOk;
}

std::vector<std::string> explained() {
  std::vector<std::string> names = nn::task_names();
  names.insert(names.end(), {"text", "lines"});
  return names;
}

}  // namespace

void tasks_command(Command& c) {
  c.name = "tasks", c.what = "list the built-in tasks, or explain one";
  const std::string keys =
      "task description vocabulary symbols context optimal_loss references accuracy steps "
      "expected_seconds";
  c.json_keys[""] = "tasks (" + keys + ") text_expected_seconds";
  c.json_keys["text or lines"] = "task description optimal_loss presets";
  c.json_keys["TASK"] = keys +
                        " optimum source prompt accuracy_references "
                        "example (inputs targets counted) parameters (option default help) presets";
  c.examples = "  heed tasks\n  heed tasks induction\n  heed tasks --json";
  auto task = std::make_shared<std::string>();
  c.arguments = 1;
  c.add("Options", {nn::Setting("task", *task, explained(), "explain this one").shows("")});
  c.add_common(Command::kJson);
  c.run = [task](const Command& command) {
    return task->empty() ? list_tasks(command.json) : explain_task(*task, command.json);
  };
}

}  // namespace heed
