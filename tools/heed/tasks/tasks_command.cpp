// The command `heed tasks`: lists the built-in tasks with their optimal losses, or describes one
// task.
#include <algorithm>
#include <cmath>

#include "autograd/base/text.h"
#include "nn/lab/tasks/parameters.h"
#include "nn/lab/train/config.h"
#include "tools/heed/commands.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

constexpr int kTextSeconds = 75;  // measured: preset shakespeare-cpu, 2 cores

// Formats a duration, rounded: "about 2 s", "about 3 min".
std::string about(int seconds) {
  if (seconds == 0) return "time not measured";
  return seconds < 60 ? fmt::format("about {} s", seconds)
                      : fmt::format("about {} min", (seconds + 30) / 60);
}

std::string nats(double loss) {
  return std::isfinite(loss) ? fmt::format("{:.6f}", loss) : "unknown";
}

// Returns the names of the presets for the task. The first one has the name of the task.
std::vector<std::string> presets_of(const std::string& task) {
  std::vector<std::string> names = {task};
  for (const std::string& name : lab::preset_names())
    if (name != task && lab::preset(name).task == task) names.push_back(name);
  return names;
}

constexpr const char* kSummaryKeys =
    "task description vocabulary symbols context optimal_loss references accuracy steps "
    "expected_seconds";

Value summary(const std::string& name, const lab::TaskInfo& info) {
  return Value::object({{"task", name},
                        {"description", info.description},
                        {"vocabulary", info.vocabulary.size()},
                        {"symbols", info.vocabulary.summary()},
                        {"context", info.context},
                        {"optimal_loss", info.optimal},
                        {"references", info.references},
                        {"accuracy", info.accuracy},
                        {"steps", lab::preset(name).steps},
                        {"expected_seconds", lab::preset_seconds(name)}});
}

Out list_tasks() {
  Out out;
  Value tasks = Value::array();
  for (const std::string& name : lab::task_names()) {
    const auto task = lab::make_task(name);
    const lab::TaskInfo& info = task->info();
    tasks.push_back(summary(name, info));
    out.text("{:<10} optimal loss {} nats per token, {} on 2 cores", name, nats(info.optimal),
             about(lab::preset_seconds(name)));
    out.text("  {}", info.description);
  }
  out.set("tasks", tasks);
  out.set("text_expected_seconds", kTextSeconds);
  out.text(
      "\nheed tasks NAME describes a task or a preset, heed train NAME trains a model on a task.");
  out.text("A text file: heed train --text FILE; {} on 2 cores", about(kTextSeconds));
  out.text("Presets: {}", heed::join(lab::preset_names()));
  return out;
}

// A sequence as three texts of equal length. An ignored target is shown as a dot. A star marks each
// position that counts for the accuracy.
struct ExampleText {
  std::string inputs, targets, counted;
};

ExampleText example_text(const lab::Task& task) {
  nn::Generator g(1);
  const lab::Batch batch = task.example(g);
  const lab::Vocabulary& vocabulary = task.info().vocabulary;
  const auto targets = batch.targets.to_vector<std::int64_t>();
  const auto counted = batch.counted.to_vector<bool>();
  ExampleText s;
  s.inputs = vocabulary.decode(batch.inputs.to_vector<std::int64_t>());
  for (std::size_t t = 0; t < targets.size(); ++t) {
    s.targets += targets[t] == lab::kIgnored ? "·" : vocabulary.decode({&targets[t], 1});
    s.counted += counted[t] ? '*' : ' ';
  }
  return s;
}

std::string recipe_text(const std::string& preset, const std::string& task) {
  const lab::RunConfig c = lab::preset(preset);
  std::string how = preset == task ? "heed train " + task : "heed train --preset " + preset;
  if (lab::learns_file(c)) how += fmt::format(" --{} FILE", c.task);
  for (const auto& [key, value] : c.task_parameters)
    how += fmt::format(" (--task-{} {})", key, value);
  return fmt::format("{}: {} on 2 cores\n    {}, {}, d-model {}; {} of {} x {} tokens, lr {:g}",
                     how, about(lab::preset_seconds(preset)), counted(c.model.layers, "layer"),
                     counted(c.model.attention.heads, "head"), c.model.attention.d_model,
                     counted(c.steps, "step"), c.batch, c.model.context, c.lr);
}

void add_description(Out& out, const std::string& name, const lab::Task& task,
                     const ExampleText& example) {
  const lab::TaskInfo& info = task.info();
  out.text("{}: {}\n", name, info.description);
  out.text("a sequence has {} tokens of {}", info.context, info.vocabulary.summary());
  out.block(fmt::format("  read     {}\n  predict  {}\n  counted  {}\n\n", example.inputs,
                        example.targets, example.counted));
  out.text("optimal loss  {} nats per token\n  {}", nats(info.optimal), info.optimum);
  for (const auto& [reference, loss] : info.references)
    out.text("  {}: {} nats per token", reference, nats(loss));
  out.text("accuracy  {}", info.accuracy);
  for (const auto& [reference, share] : info.accuracy_references)
    out.text("  {}: {:.2f} %", reference, 100 * share);
  out.text("source    {}", info.source);
  out.text("prompt    {}\n\nparameters", with_options(info.prompt));
  for (const lab::Setting& p : lab::task_maker(name).parameters)
    out.text("  --task-{} {}\n      {}", p.key, p.unit, p.description());
  out.text("  --context N\n      tokens of a sequence (default: {})\n\nrecipes", info.context);
  for (const std::string& preset : presets_of(name)) out.text("  {}", recipe_text(preset, name));
}

Out describe_task(const std::string& name) {
  const auto task = lab::make_task(name);
  const lab::TaskInfo& info = task->info();
  const ExampleText example = example_text(*task);
  Out out;
  out.set_all(summary(name, info));
  out.set("optimum", info.optimum);
  out.set("source", info.source);
  out.set("prompt", with_options(info.prompt));
  out.set("accuracy_references", info.accuracy_references);
  out.set("example", Value::object({{"inputs", example.inputs},
                                    {"targets", example.targets},
                                    {"counted", example.counted}}));
  Value parameters = Value::array();
  const lab::TaskMaker maker = lab::task_maker(name);
  for (const lab::Setting& p : maker.parameters)
    parameters.push_back(Value::object(
        {{"option", "--task-" + p.key}, {"default", p.get()}, {"help", p.description()}}));
  out.set("parameters", parameters);
  out.set("presets", presets_of(name));
  add_description(out, name, *task, example);
  return out;
}

// Describes the tasks text and lines, whose optimal loss is unknown.
Out describe_file_task(const std::string& name) {
  const bool lines = name == "lines";
  const std::string what =
      lines ? "each line of your file is a sequence; a tenth of them, at most 1000, is held out"
            : "the next character of your file; the last tenth of the file is held out";
  const std::string preset = lab::preset_of(name);
  Out out;
  out.set("task", name);
  out.set("description", what);
  out.set("optimal_loss", nullptr);
  out.set("presets", std::vector{preset});
  out.text("{}: {}\n", name, what);
  out.text(
      "optimal loss  unknown; heed shows the loss of a bigram model of the same file beside the "
      "model's loss");
  out.text("tokens    characters; with --unit word: words");
  if (lines)
    out.text("answers   --answer-after CHAR: only tokens after the first CHAR of a line count");
  out.text("train     heed train --{} FILE: the preset {}", name, preset);
  return out;
}

// Lists the settings of a preset that differ from the default values.
Out describe_preset(const std::string& name) {
  lab::RunConfig preset = lab::preset(name), none;
  Out out;
  out.set("preset", name);
  out.text("{}\n\nvalues that are not the defaults of heed train:\n",
           recipe_text(name, preset.task));
  Value settings = Value::array();
  std::vector<Cells> rows;
  const std::vector<lab::Setting> ours = preset.settings(), defaults = none.settings();
  for (std::size_t i = 0; i < ours.size(); ++i)
    if (ours[i].get() != defaults[i].get()) {
      settings.push_back(Value::object({{"key", ours[i].key}, {"value", ours[i].get()}}));
      rows.push_back({ours[i].key, ours[i].get()});
    }
  out.set("settings", settings);
  out.table({"option", "value"}, rows);
  return out;
}

}  // namespace

void tasks_command(Command& c) {
  c.name = "tasks", c.what = "list the built-in tasks, or describe one, or a preset";
  c.examples = "  heed tasks\n  heed tasks induction\n  heed tasks chargpt";
  auto task = std::make_shared<std::string>();
  std::vector<std::string> names = lab::task_names(), presets = lab::preset_names();
  std::erase_if(presets, [&](const std::string& p) { return std::ranges::count(names, p) > 0; });
  names.insert(names.end(), {"text", "lines"});
  names.insert(names.end(), presets.begin(), presets.end());
  c.arguments = 1;
  c.add("Options", {{"task", *task, names, "describe only this task or preset"}});
  c.add_common(Command::kJson);
  c.modes = {{.key = "task",
              .values = {"text", "lines"},
              .keys = "task description optimal_loss presets",
              .run = [task](const Command&) { return describe_file_task(*task); }},
             {.key = "task",
              .values = presets,
              .label = "a preset",
              .keys = "preset settings (key value)",
              .run = [task](const Command&) { return describe_preset(*task); }},
             {.key = "task",
              .keys = kSummaryKeys +
                      std::string(" optimum source prompt accuracy_references example (inputs "
                                  "targets counted) parameters (option default help) presets"),
              .run = [task](const Command&) { return describe_task(*task); }},
             {.keys = "tasks (" + std::string(kSummaryKeys) + ") text_expected_seconds",
              .run = [](const Command&) { return list_tasks(); }}};
}

}  // namespace heed
