// heed train: from command line, config file and preset to a run folder.
#include <algorithm>
#include <array>

#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/plan/out_folder.h"
#include "tools/heed/plan/train_config.h"
#include "tools/heed/ranks.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/train/train_checks.h"
#include "tools/heed/train/train_run.h"

namespace heed {
namespace {

struct TrainArguments {
  nn::RunConfig config;
  std::string preset, out, resume;
  bool dry_run = false, overfit = false, overwrite = false, print_config = false;
  TrainOptions run;
};

// The settings that --resume may change.
constexpr const char* kOfLength[] = {"steps",           "eval-every",  "save-every",
                                     "patience",        "target-loss", "target-accuracy",
                                     "check-invariants"};

// Gives the run the length, intervals and rules of its end that were given.
void change_length(nn::Trainer& trainer, const Command& c) {
  nn::RunConfig changed = trainer.config();
  const std::vector<nn::Setting> settings = changed.settings();
  for (const char* key : kOfLength)
    if (c.given(key)) nn::find_setting(settings, key)->set(key, c.text(key));
  trainer.set(changed);
}

// Whether nothing is left to do: the last evaluation and the pictures are there, too.
bool is_finished(const nn::RunFolder& folder, const nn::Trainer& trainer) {
  return folder.finished_step() == trainer.steps_done;
}

// Writes the new place of a run's text into its configuration, for eval and study, too. Returns
// whether that was all there was to do.
bool keep_moved_text(const nn::RunFolder& folder, const nn::Trainer& trainer, const Command& c) {
  const bool is_longer = std::any_of(std::begin(kOfLength), std::end(kOfLength),
                                     [&](const char* key) { return c.given(key); });
  const bool was_all = !is_longer && is_finished(folder, trainer);
  if (was_all && c.json)
    usage_error("--json: {} is finished, so that there is no result; leave it out", folder.text());
  folder.save_config(trainer.config(), config_notes());
  if (was_all) print_error(fmt::format("{} has its text at the new place now", folder.text()));
  return was_all;
}

// Throws a UsageError that names the next command if the run has nothing to do.
void check_resumable(const nn::RunFolder& folder, const nn::Trainer& trainer) {
  const std::string run = folder.text(), reason = trainer.stop_reason();
  const std::int64_t done = trainer.steps_done, steps = trainer.config().steps;
  if (!is_finished(folder, trainer)) return;
  if (!reason.empty() && done < steps)
    usage_error("{0} ended early after step {1}, {2}; go on with heed train --resume {0} --{3} 0",
                run, done, reason, reason.substr(0, reason.find(':')));
  if (done >= steps)
    usage_error("{0} has done its {1} steps; go on with heed train --resume {0} --steps {2}", run,
                done, 2 * done);
}

Report resume(TrainArguments& a, const Command& c) {
  const std::string moved = c.text(c.given("lines") ? "lines" : "text");
  const auto load = [&](const std::filesystem::path& folder, std::vector<std::string>* warnings) {
    return nn::Trainer::from(nn::RunFolder(folder).load(moved, warnings));
  };
  a.run.ranks = join_ranks(!c.given("threads"));
  if (a.run.ranks && a.run.ranks->rank() > 0)
    return work_as_rank(*a.run.ranks, [&] {
      nn::Trainer trainer = load(find_run(a.resume), nullptr);
      change_length(trainer, c);
      return trainer;
    });
  const nn::RunFolder folder(find_run(a.resume));
  const nn::StagedFolder lock(folder.path(), nn::RunFolder::result_files());
  Progress progress(a.run.quiet);
  progress.at_work("reads " + folder.text());
  std::vector<std::string> warnings;
  nn::Trainer trainer = load(folder.path(), &warnings);
  progress.clear();
  for (const std::string& warning : warnings) print_error("warning: " + warning);
  const nn::RunConfig& config = trainer.config();
  const std::int64_t planned = config.steps;
  if (a.run.ranks) nn::RankSession::check_size(a.run.ranks->size(), config.accumulate);
  if (!moved.empty() && keep_moved_text(folder, trainer, c)) {
    if (a.run.ranks) a.run.ranks->leave();
    return {};
  }
  if (c.given("steps") && a.config.steps < planned && trainer.steps_done < planned)
    usage_error(
        "{0} is at step {1} of {2}; --steps {3} is less; go on with heed train --resume {0}",
        folder.text(), trainer.steps_done, planned, a.config.steps);
  change_length(trainer, c);
  check_resumable(folder, trainer);
  const nn::Schedule schedule = nn::schedule(config);
  if (config.schedule != nn::Decay::kConstant && config.steps > schedule.total_steps)
    print_error(
        fmt::format("the {} schedule keeps its end at step {}: the steps after it run at "
                    "min-lr {}",
                    nn::enum_name(config.schedule), schedule.total_steps, config.min_lr));
  lead_ranks(trainer, a.run.ranks);
  return train_run(trainer, folder, a.run);
}

Report new_run(TrainArguments& a, const Command& c) {
  const nn::RunConfig& config = a.config;
  a.run.ranks = join_ranks(!c.given("threads"), config.accumulate);
  if (a.run.ranks && a.run.ranks->rank() > 0)
    return work_as_rank(*a.run.ranks, [&] { return nn::Trainer(config); });
  std::unique_ptr<nn::StagedFolder> folder;
  if (!a.out.empty()) folder = open_out(a.out, a.overwrite);  // its errors before the work
  Progress progress(a.run.quiet);
  progress.at_work("reads the data and makes the model");
  nn::Trainer trainer(config);
  progress.clear();
  if (const std::string& note = trainer.task->facts().note; !note.empty())
    print_error("note: " + note);
  lead_ranks(trainer, a.run.ranks);  // before there is a folder of a run that cannot be
  if (!folder) folder = nn::RunFolder::make_next(config.task);
  nn::RunFolder(folder->staging()).save(trainer.snapshot(), config_notes());
  folder->publish();
  return train_run(trainer, nn::RunFolder(folder->folder()), a.run);
}

Report print_config(const nn::RunConfig& config) {
  Report report;
  report.block(nn::to_toml(nn::effective(config)));
  return report;
}

}  // namespace

void train_command(Command& c) {
  c.name = "train", c.what = "train a model on a task, or on your text";
  c.examples =
      "  heed train\n"
      "  heed train urn --steps 300 --seed 7 --out runs/my-urn --overwrite\n"
      "  heed train --text README.md --steps 200\n"
      "  heed train induction --layers 1 --dry-run\n"
      "  heed train --resume runs/my-urn --steps 600";
  c.notes =
      "Alone it learns the task induction. Each task and preset has defaults of its own; those\n"
      "shown are induction's. An option overrides the config file, which overrides the preset.\n"
      "Losses are in nats per token.\n"
      "It saves at evaluations 15 s after the last save, every 60 s, with --save-every at each of\n"
      "its checkpoints, at the end, and when Ctrl-C, SIGTERM or a closed terminal (SIGHUP) stops "
      "it.\n"
      "What ends it early, saved: exit 1, the model sees later inputs (tried at each start) or "
      "its\n"
      "loss is more than 4 standard errors below the best possible; 3, a loss or gradient is NaN "
      "or\n"
      "infinite (the op is named; weights before the step are saved if their loss is finite, else\n"
      "the last save stays), with --check-invariants breaks an identity of attention (layer, head\n"
      "and row are named; saved likewise), or, with --strict, is missing;\n"
      "4, a file cannot be written; 130, Ctrl-C. " +
      std::string(nn::RunFolder::kAudit) +
      ": the first step, by parameter.\n"
      "mpirun -n N heed train --accumulate K trains with N processes, a power of two up to K: the\n"
      "same bits. The first alone evaluates and writes; --resume takes any other N.\n"
      "--resume takes as options what has to do with the run's end and its saves, and --text or\n"
      "--lines for a file that was moved; a new run like it: heed train --config DIR/" +
      std::string(nn::RunFolder::kConfig) + ".";
  auto a = std::make_shared<TrainArguments>();
  c.arguments = 1;
  c.settings = recipe_settings(a->config, a->preset);
  nn::Setting overwrite("overwrite", a->overwrite, "replace the run that --out holds");
  overwrite.need = {"--out DIR", [a] { return !a->out.empty(); }};
  c.add("Output",
        {nn::Setting("out", a->out, "DIR", "run folder").shows("the next free runs/TASK-N"),
         overwrite,
         {"resume", a->resume, "DIR", "go on with a run, bit for bit as if never stopped"},
         {"quiet", a->run.quiet, "no progress, only warnings"}});
  c.add("Checks",
        {{"print-config", a->print_config,
          "print the configuration that all this comes to; heed train --config runs it again"},
         {"dry-run", a->dry_run, "say what would be trained; take no step, write nothing"},
         {"overfit-batch", a->overfit,
          "learn one batch by heart, write nothing; exit 1 unless its loss gets within 1e-3 of the "
          "least possible"},
         {"strict", a->run.strict, "exit 3 if a parameter gets no gradient"}});
  c.add_common(Command::kAll | Command::kCsv);
  c.set_defaults = [a](const Command& command) { a->config = chosen_preset(command); };
  const auto with_config = [a](Report (*run)(TrainArguments&, const Command&)) {
    return [a, run](const Command& command) {
      check_config(a->config, command);
      return run(*a, command);
    };
  };
  std::vector<std::string> when_resumed = {"text", "lines", "quiet"};
  when_resumed.insert(when_resumed.end(), std::begin(kOfLength), std::end(kOfLength));
  c.modes = {
      {.key = "resume",
       .accepts = c.only(when_resumed),
       .result = kTrainKeys,
       .run = [a](const Command& command) { return resume(*a, command); },
       .several = true},
      {.key = "dry-run",
       .accepts = c.all_but({"overfit-batch", "print-config"}),
       .result = kDryRunKeys,
       .run = with_config([](auto& t, auto&) { return dry_run(t.config, t.run.quiet); })},
      {.key = "overfit-batch",
       .accepts = c.all_but({"print-config", "out", "overwrite"}),
       .result = kOverfitKeys,
       .run = with_config([](auto& t, auto&) { return overfit_batch(t.config, t.run.quiet); })},
      {.key = "print-config",
       .run = with_config([](auto& t, auto&) { return print_config(t.config); })},
      {.result = kTrainKeys, .run = with_config(new_run), .several = true}};
}

}  // namespace heed
