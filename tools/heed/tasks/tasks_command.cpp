// The command `heed tasks`: lists the built-in tasks with their optimal losses, or describes one
// task.
#include <algorithm>
#include <cmath>

#include "autograd/base/text.h"
#include "nn/tasks/parameters.h"
#include "nn/train/config.h"
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
  for (const std::string& name : nn::preset_names())
    if (name != task && nn::preset(name).task == task) names.push_back(name);
  return names;
}

constexpr Column kTaskColumns[] = {{"task"},    {"description"},     {"vocabulary"}, {"symbols"},
                                   {"context"}, {"optimal_loss"},    {"references"}, {"accuracy"},
                                   {"steps"},   {"expected_seconds"}};
constexpr Column kListKeys[] = {rows("tasks", kTaskColumns), {"text_expected_seconds"}};

std::vector<Value> summary(const std::string& name, const nn::TaskInfo& info) {
  return {name,
          info.description,
          info.vocabulary.size(),
          info.vocabulary.summary(),
          info.context,
          info.optimal,
          info.references,
          info.accuracy,
          nn::preset(name).steps,
          nn::preset_seconds(name)};
}

Report list_tasks() {
  Report report(kListKeys);
  Table& table = report.table("tasks");
  for (const std::string& name : nn::task_names()) {
    const auto task = nn::make_task(name);
    const nn::TaskInfo& info = task->info();
    table.add(summary(name, info));
    report.line("{:<10} optimal loss {} nats per token, {} on 2 cores", name, nats(info.optimal),
                about(nn::preset_seconds(name)));
    report.line("  {}", info.description);
  }
  report.set("text_expected_seconds", kTextSeconds);
  report.line(
      "\nheed tasks NAME describes a task or a preset, heed train NAME trains a model on a task.");
  report.line("A text file: heed train --text FILE; {} on 2 cores", about(kTextSeconds));
  report.line("Presets: {}", heed::join(nn::preset_names()));
  return report;
}

// A sequence as three texts of equal length. An ignored target is shown as a dot. A star marks each
// position that counts for the accuracy.
struct ExampleText {
  std::string inputs, targets, counted;
};

ExampleText example_text(const nn::Task& task) {
  nn::Generator g(1);
  const nn::Batch batch = task.example(g);
  const nn::Vocabulary& vocabulary = task.info().vocabulary;
  const auto targets = batch.targets.to_vector<std::int64_t>();
  const auto counted = batch.counted.to_vector<bool>();
  ExampleText s;
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
  if (nn::learns_file(c)) how += fmt::format(" --{} FILE", c.task);
  for (const auto& [key, value] : c.task_parameters)
    how += fmt::format(" (--task-{} {})", key, value);
  return fmt::format("{}: {} on 2 cores\n    {}, {}, d-model {}; {} of {} x {} tokens, lr {:g}",
                     how, about(nn::preset_seconds(preset)), counted(c.model.layers, "layer"),
                     counted(c.model.attention.heads, "head"), c.model.attention.d_model,
                     counted(c.steps, "step"), c.batch, c.model.context, c.lr);
}

constexpr Column kExampleKeys[] = {{"inputs"}, {"targets"}, {"counted"}};
constexpr Column kTaskParameters[] = {{"option"}, {"default"}, {"help"}};
constexpr Column kTaskDetails[] = {{"optimum"},
                                   {"source"},
                                   {"prompt"},
                                   {"accuracy_references"},
                                   fields("example", kExampleKeys),
                                   rows("parameters", kTaskParameters),
                                   {"presets"}};
constexpr auto kTaskKeys = joined(kTaskColumns, kTaskDetails);

void add_description(Report& report, const std::string& name, const nn::Task& task,
                     const ExampleText& example) {
  const nn::TaskInfo& info = task.info();
  report.line("{}: {}\n", name, info.description);
  report.line("a sequence has {} tokens of {}", info.context, info.vocabulary.summary());
  report.block(fmt::format("  read     {}\n  predict  {}\n  counted  {}\n\n", example.inputs,
                           example.targets, example.counted));
  report.line("optimal loss  {} nats per token\n  {}", nats(info.optimal), info.optimum);
  for (const auto& [reference, loss] : info.references)
    report.line("  {}: {} nats per token", reference, nats(loss));
  report.line("accuracy  {}", info.accuracy);
  for (const auto& [reference, share] : info.accuracy_references)
    report.line("  {}: {:.2f} %", reference, 100 * share);
  report.line("source    {}", info.source);
  report.line("prompt    {}\n\nparameters", with_options(info.prompt));
  for (const nn::Setting& p : nn::task_maker(name).parameters)
    report.line("  --task-{} {}\n      {}", p.key, p.unit, p.description());
  report.line("  --context N\n      tokens of a sequence (default: {})\n\nrecipes", info.context);
  for (const std::string& preset : presets_of(name)) report.line("  {}", recipe_text(preset, name));
}

Report describe_task(const std::string& name) {
  const auto task = nn::make_task(name);
  const nn::TaskInfo& info = task->info();
  const ExampleText example = example_text(*task);
  Report report(kTaskKeys);
  const std::vector<Value> values = summary(name, info);
  for (std::size_t i = 0; i < values.size(); ++i) report.set(kTaskColumns[i].key, values[i]);
  report.set("optimum", info.optimum);
  report.set("source", info.source);
  report.set("prompt", with_options(info.prompt));
  report.set("accuracy_references", info.accuracy_references);
  report.set("example",
             object_of(kExampleKeys, {example.inputs, example.targets, example.counted}));
  Table& parameters = report.table("parameters");
  const nn::TaskMaker maker = nn::task_maker(name);
  for (const nn::Setting& p : maker.parameters)
    parameters.add({"--task-" + p.key, p.get(), p.description()});
  report.set("presets", presets_of(name));
  add_description(report, name, *task, example);
  return report;
}

constexpr Column kFileTaskKeys[] = {{"task"}, {"description"}, {"optimal_loss"}, {"presets"}};

// Describes the tasks text and lines, whose optimal loss is unknown.
Report describe_file_task(const std::string& name) {
  const bool lines = name == "lines";
  const std::string what =
      lines ? "each line of your file is a sequence; a tenth of them, at most 1000, is held out"
            : "the next character of your file; the last tenth of the file is held out";
  const std::string preset = nn::preset_of(name);
  Report report(kFileTaskKeys);
  report.set("task", name);
  report.set("description", what);
  report.set("presets", std::vector{preset});
  report.line("{}: {}\n", name, what);
  report.line(
      "optimal loss  unknown; heed shows the loss of a bigram model of the same file beside the "
      "model's loss");
  report.line("tokens    characters; with --unit word: words");
  if (lines)
    report.line("answers   --answer-after CHAR: only tokens after the first CHAR of a line count");
  report.line("train     heed train --{} FILE: the preset {}", name, preset);
  return report;
}

constexpr Column kSettingColumns[] = {{"key", "option"}, {"value", "value"}};
constexpr Column kPresetKeys[] = {{"preset"}, rows("settings", kSettingColumns)};

// Lists the settings of a preset that differ from the default values.
Report describe_preset(const std::string& name) {
  nn::RunConfig preset = nn::preset(name), none;
  Report report(kPresetKeys);
  report.set("preset", name);
  report.line("{}\n\nvalues that are not the defaults of heed train:",
              recipe_text(name, preset.task));
  Table& table = report.table("settings");
  const std::vector<nn::Setting> ours = preset.settings(), defaults = none.settings();
  for (std::size_t i = 0; i < ours.size(); ++i)
    if (ours[i].get() != defaults[i].get()) table.add({ours[i].key, ours[i].get()});
  return report;
}

}  // namespace

void tasks_command(Command& c) {
  c.name = "tasks", c.what = "list the built-in tasks, or describe one, or a preset";
  c.examples = "  heed tasks\n  heed tasks induction\n  heed tasks chargpt";
  auto task = std::make_shared<std::string>();
  std::vector<std::string> names = nn::task_names(), presets = nn::preset_names();
  std::erase_if(presets, [&](const std::string& p) { return std::ranges::count(names, p) > 0; });
  names.insert(names.end(), {"text", "lines"});
  names.insert(names.end(), presets.begin(), presets.end());
  c.arguments = 1;
  c.add("Options", {{"task", *task, names, "describe only this task or preset"}});
  c.add_common(Command::kJson);
  c.modes = {{.key = "task",
              .values = {"text", "lines"},
              .result = kFileTaskKeys,
              .run = [task](const Command&) { return describe_file_task(*task); }},
             {.key = "task",
              .values = presets,
              .label = "a preset",
              .result = kPresetKeys,
              .run = [task](const Command&) { return describe_preset(*task); }},
             {.key = "task",
              .result = kTaskKeys,
              .run = [task](const Command&) { return describe_task(*task); }},
             {.result = kListKeys, .run = [](const Command&) { return list_tasks(); }}};
}

}  // namespace heed
