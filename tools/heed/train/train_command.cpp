// heed train: from command line, config file and preset to a run folder.
#include <array>
#include <map>
#include <type_traits>

#include "autograd/base/files.h"
#include "nn/io/nearest.h"
#include "tools/heed/commands.h"
#include "tools/heed/output.h"
#include "tools/heed/run_folder.h"
#include "tools/heed/train/train_checks.h"
#include "tools/heed/train/train_run.h"

namespace heed {
namespace {

struct TrainArguments {
  std::string preset, resume;
  bool dry_run = false, overfit = false, overwrite = false;
  TrainOptions run;
  /// A value of RunConfig as it was given, and by what: "--lr", "my.toml: lr".
  struct Given {
    std::string where, raw;
  };
  std::map<std::string, Given> config;
};

// The heading in --help above a key of RunConfig, at the first key of each.
std::string heading_at(std::string_view key) {
  if (key == "text") return "Data";
  if (key == "layers") return "Model";
  if (key == "batch") return "Optimization (AdamW)";
  if (key == "seed") return "Run";
  return "";
}

void add_config_options(Command& c, TrainArguments& a) {
  nn::RunConfig defaults;
  defaults.visit([&]<class T>(std::string_view name, T& value, std::string_view what) {
    const std::string key(name), help(what);
    const auto remember = [&a, key](const std::string& where, const std::string& raw) {
      a.config[key] = {where, raw};
    };
    if (const std::string heading = heading_at(key); !heading.empty()) c.group(heading);
    if (key == "task") return;  // the positional
    if constexpr (std::is_same_v<T, bool>)
      c.switch_option(key, help + (value ? " (default: yes)" : " (default: no)"), true, remember);
    else
      c.option(key,
               std::is_same_v<T, std::string> ? (key == "text" ? "FILE" : "NAME")
               : std::is_same_v<T, double>    ? "X"
                                              : "N",
               fmt::format("{}", value), help, remember);
  });
}

// Precedence: option > config file > preset > default; Command has settled the first two.
nn::RunConfig make_config(const TrainArguments& a) {
  const auto given = [&](const std::string& key) {
    const auto found = a.config.find(key);
    return found == a.config.end() ? std::string() : found->second.raw;
  };
  std::string task = given("task");
  const bool text = !given("text").empty();
  if (task.empty() && text) task = "text";
  if (!task.empty() && task != "text") {
    const std::vector<std::string> names = nn::task_names();
    if (std::find(names.begin(), names.end(), task) == names.end())
      usage_error("there is no task '{}'; did you mean '{}'? Tasks: {}; your own text: --text FILE",
                  task, nn::nearest(task, names), listing(names));
    if (text) usage_error("--text is for the task text; leave out '{}' or --text", task);
  }
  nn::RunConfig config = nn::preset(!a.preset.empty() ? a.preset
                                    : task == "text"  ? "shakespeare-cpu"
                                    : task.empty()    ? "induction"
                                                      : task);
  if (!task.empty()) config.task = task;
  config.visit([&]<class T>(std::string_view key, T& value, std::string_view) {
    const auto found = a.config.find(std::string(key));
    if (found == a.config.end() || key == "task") return;
    const auto& [where, raw] = found->second;
    if constexpr (std::is_same_v<T, std::string>)
      value = raw;
    else if constexpr (std::is_same_v<T, bool>)
      value = parse_bool(where, raw);
    else if constexpr (std::is_same_v<T, double>)
      value = parse_real(where, raw);
    else
      value = parse_integer(where, raw);
  });
  if (config.task == "text" && config.text.empty())
    usage_error("{} learns a text: add --text FILE",
                a.preset.empty() ? "the task text" : "the preset " + a.preset);
  nn::validate(config);
  return config;
}

int resume(const TrainArguments& a, const Command& c) {
  constexpr std::array kAllowed = {"resume",  "steps", "eval-every", "save-every",
                                   "threads", "quiet", "json",       "config"};
  for (const std::string& key : c.keys())
    if (c.given(key) && std::find(kAllowed.begin(), kAllowed.end(), key) == kAllowed.end())
      usage_error(
          "--resume goes on with the run as it is and takes only --steps, --eval-every, "
          "--save-every, --threads and --quiet, not {}; a new run like it: heed train "
          "--config {}/config.toml",
          key == "task" ? "a task" : "--" + key, a.resume);
  const std::filesystem::path folder = find_run(a.resume);
  nn::Trainer trainer = nn::Trainer::resume(folder);
  for (const std::string& warning : trainer.warnings) complain("warning: " + warning);
  nn::RunConfig& config = trainer.config;
  const std::int64_t planned = config.steps;
  for (const auto& [key, value] :
       {std::pair{"steps", &config.steps}, std::pair{"eval-every", &config.eval_every},
        std::pair{"save-every", &config.save_every}})
    if (const auto found = a.config.find(key); found != a.config.end())
      *value = parse_integer(found->second.where, found->second.raw);
  if (config.steps < planned && trainer.steps_done < planned)
    usage_error(
        "{0} is at step {1} of {2}; --steps {3} is less; go on with heed train --resume {0}",
        folder.string(), trainer.steps_done, planned, config.steps);
  nn::validate(config);
  trainer.schedule.total_steps = config.steps;
  if (trainer.steps_done >= config.steps)
    usage_error("{} has done its {} steps; go on with heed train --resume {} --steps {}",
                folder.string(), trainer.steps_done, folder.string(), 2 * trainer.steps_done);
  return train_run(trainer, folder, a.run);
}

int train(TrainArguments& a, const Command& c) {
  a.run.json = c.json;
  if (!a.resume.empty()) return resume(a, c);
  const nn::RunConfig config = make_config(a);
  if (a.overfit && !a.run.out.empty())
    usage_error("--overfit-batch is a check and writes no run; leave out --out");
  if (a.overwrite && a.run.out.empty())
    usage_error("--overwrite says that --out DIR may be replaced; give --out");
  if (!a.run.out.empty() && !a.dry_run) check_out(a.run.out, a.overwrite);
  if (a.dry_run) return dry_run(config, a.run);
  if (a.overfit) return overfit_batch(config, a.run);
  nn::Trainer trainer(config);
  std::filesystem::path folder = a.run.out;
  if (folder.empty())
    folder = make_next_run(config.task);
  else
    claim_out(folder);
  return train_run(trainer, folder, a.run);
}

}  // namespace

std::unique_ptr<Command> train_command(CLI::App& app) {
  auto command = std::make_unique<Command>(
      app, "train", "train a model on a task, or on your text",
      "  heed train\n"
      "  heed train urn --steps 300 --seed 7 --out runs/my-urn --overwrite\n"
      "  heed train --text README.md --steps 200\n"
      "  heed train induction --layers 1 --dry-run\n"
      "  heed train --resume runs/my-urn --steps 600",
      "Alone it learns the task induction. Each task and preset has defaults of its own; those\n"
      "shown are induction's. An option overrides the config file, which overrides the preset.\n"
      "Losses are in nats per token.");
  Command* c = command.get();
  auto a = std::make_shared<TrainArguments>();
  c->positional("task", "one of heed tasks (default: induction)",
                [a](const std::string& where, const std::string& raw) {
                  a->config["task"] = {where, raw};
                });
  c->group("Recipe");
  c->text("preset", a->preset, "NAME", "recipe to start from: " + listing(nn::preset_names()));
  c->config_option();
  add_config_options(*c, *a);
  c->threads_option();
  c->group("Output");
  c->text("out", a->run.out, "DIR", "run folder (default: the next free runs/TASK-N)");
  c->flag("overwrite", a->overwrite, "replace the run that --out holds");
  c->text("resume", a->resume, "DIR", "go on with a run, bit for bit as if never stopped");
  c->flag("quiet", a->run.quiet, "no progress, only warnings");
  c->json_option();
  c->group("Checks");
  c->flag("dry-run", a->dry_run, "say what would be trained; take no step, write nothing");
  c->flag("overfit-batch", a->overfit,
          "learn one batch by heart, write nothing; exit 1 unless its loss gets below 1e-3");
  c->flag("strict", a->run.strict, "exit 3 if a parameter gets no gradient");
  c->run = [a, c] { return train(*a, *c); };
  return command;
}

}  // namespace heed
