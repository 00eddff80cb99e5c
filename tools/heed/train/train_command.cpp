// heed train: from command line, config file and preset to a run folder.
#include <algorithm>
#include <array>

#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/launcher.h"
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
  std::string preset, resume;
  bool dry_run = false, overfit = false, overwrite = false, print_config = false;
  TrainOptions run;
};

// What may change when a run goes on.
constexpr std::array kOfLength = {"steps",       "eval-every",      "save-every",      "patience",
                                  "target-loss", "target-accuracy", "check-invariants"};

void check_resume(const TrainArguments& a, const Command& c) {
  constexpr std::array kAlso = {"resume", "threads", "simd", "quiet",
                                "json",   "config",  "text", "lines"};
  const auto is_in = [](const auto& list, const std::string& key) {
    return std::find(list.begin(), list.end(), key) != list.end();
  };
  for (const std::string& key : nn::keys(c.settings))
    if (c.given(key) && !is_in(kOfLength, key) && !is_in(kAlso, key))
      usage_error(
          "--resume goes on with the run as it is and takes only --steps, --eval-every, "
          "--save-every, --patience, --target-loss, --target-accuracy, --check-invariants, "
          "--threads, --simd, --quiet and --text or --lines for a file that was moved, not {}; a "
          "new run like it: heed train --config {}",
          key == "task" ? "a task" : "--" + key,
          nn::RunFolder(a.resume).file(nn::RunFolder::kConfig).string());
}

// Whether nothing is left to do for the run that was read: its last evaluation and its pictures are
// there, too.
bool is_finished(const std::filesystem::path& folder, const nn::Trainer& trainer) {
  return nn::RunFolder(folder).finished_step() == trainer.steps_done;
}

// Keeps the new place of a run's text, for eval and study, too; whether that was all there was to
// do.
bool keep_moved_text(const nn::Trainer& trainer, const std::filesystem::path& folder,
                     const Command& c) {
  const bool goes_on = std::any_of(kOfLength.begin(), kOfLength.end(),
                                   [&](const char* key) { return c.given(key); });
  const bool was_all = !goes_on && is_finished(folder, trainer);
  if (was_all && c.json)
    usage_error("--json: {} is finished, so that there is no result; leave it out",
                folder.string());
  nn::RunFolder(folder).save_config(trainer.config(), config_notes());
  if (was_all) print_error(fmt::format("{} has its text at the new place now", folder.string()));
  return was_all;
}

// The run as it was saved.
nn::Trainer resumed(const TrainArguments& a, const Command& c, const std::filesystem::path& folder,
                    std::vector<std::string>* warnings = nullptr) {
  const std::string moved = c.given("lines")  ? a.config.lines
                            : c.given("text") ? a.config.text
                                              : "";
  return nn::Trainer::from(nn::RunFolder(folder).load(moved, warnings));
}

// Gives the run the length, intervals and rules of its end that were given.
void change_length(nn::Trainer& trainer, nn::RunConfig given, const Command& c) {
  nn::RunConfig changed = trainer.config();
  const std::vector<nn::Setting> from = given.settings(), to = changed.settings();
  for (const char* key : kOfLength)
    if (c.given(key)) nn::find_setting(to, key)->set(key, nn::find_setting(from, key)->get());
  trainer.set(changed);
}

int resume(TrainArguments& a, const Command& c) {
  check_resume(a, c);
  a.run.ranks = join_ranks(!c.given("threads"));
  if (a.run.ranks && a.run.ranks->rank() > 0)
    return work_as_rank(*a.run.ranks, [&] {
      nn::Trainer trainer = resumed(a, c, find_run(a.resume));
      change_length(trainer, a.config, c);
      return trainer;
    });
  const std::filesystem::path folder = find_run(a.resume);
  const nn::StagedFolder lock(folder, nn::RunFolder::result_files());
  Progress progress(a.run.quiet);
  progress.at_work("reads " + folder.string());
  std::vector<std::string> warnings;
  nn::Trainer trainer = resumed(a, c, folder, &warnings);
  progress.clear();
  for (const std::string& warning : warnings) print_error("warning: " + warning);
  const nn::RunConfig& config = trainer.config();
  const std::int64_t planned = config.steps;
  const std::int64_t steps = c.given("steps") ? a.config.steps : planned;
  if (a.run.ranks) nn::RankSession::check_size(a.run.ranks->size(), config.accumulate);
  if ((c.given("text") || c.given("lines")) && keep_moved_text(trainer, folder, c)) {
    if (a.run.ranks) a.run.ranks->leave();
    return kOk;
  }
  if (steps < planned && trainer.steps_done < planned)
    usage_error(
        "{0} is at step {1} of {2}; --steps {3} is less; go on with heed train --resume {0}",
        folder.string(), trainer.steps_done, planned, steps);
  change_length(trainer, a.config, c);
  if (const std::string reason = trainer.stop_reason();
      !reason.empty() && trainer.steps_done < config.steps && is_finished(folder, trainer))
    usage_error("{0} ended early after step {1}, {2}; go on with heed train --resume {0} --{3} 0",
                folder.string(), trainer.steps_done, reason, reason.substr(0, reason.find(':')));
  if (trainer.steps_done >= config.steps && is_finished(folder, trainer))
    usage_error("{} has done its {} steps; go on with heed train --resume {} --steps {}",
                folder.string(), trainer.steps_done, folder.string(), 2 * trainer.steps_done);
  const nn::Schedule schedule = nn::schedule(config);
  if (config.schedule != nn::Decay::kConstant && steps > schedule.total_steps)
    print_error(
        fmt::format("the {} schedule keeps its end at step {}: the steps after it run at "
                    "min-lr {}",
                    nn::enum_name(config.schedule), schedule.total_steps, config.min_lr));
  lead_ranks(trainer, a.run.ranks);
  return train_run(trainer, nn::RunFolder(folder), a.run);
}

int print_config(const nn::RunConfig& config, bool json) {
  if (json) usage_error("--print-config prints TOML; leave out --json");
  print("{}", nn::to_toml(nn::effective(config)));
  return kOk;
}

int train(TrainArguments& a, const Command& c) {
  a.run.json = c.json;
  if (!a.resume.empty()) return resume(a, c);
  make_config(a.config, a.preset, c);
  const nn::RunConfig& config = a.config;
  if (a.overfit && !a.run.out.empty())
    usage_error("--overfit-batch is a check and writes no run; leave out --out");
  if (int(a.overfit) + int(a.dry_run) + int(a.print_config) > 1)
    usage_error("--dry-run, --overfit-batch and --print-config exclude each other; choose one");
  if (a.overwrite && a.run.out.empty())
    usage_error("--overwrite says that --out DIR may be replaced; give --out");
  const int processes = launcher().size;
  if (processes > 1 && (a.print_config || a.dry_run || a.overfit))
    usage_error("a check is for one process, not {}; leave out mpirun", processes);
  if (a.print_config) return print_config(config, c.json);
  if (a.dry_run) return dry_run(config, a.run);
  if (a.overfit) return overfit_batch(config, a.run);
  if (processes > 1) nn::RankSession::check_size(processes, config.accumulate);
  a.run.ranks = join_ranks(!c.given("threads"));
  if (a.run.ranks && a.run.ranks->rank() > 0)
    return work_as_rank(*a.run.ranks, [&] { return nn::Trainer(config); });
  std::unique_ptr<nn::StagedFolder> folder;
  if (!a.run.out.empty()) folder = open_out(a.run.out, a.overwrite);  // refused before the work
  nn::Trainer trainer = [&] {
    Progress progress(a.run.quiet);
    progress.at_work("reads the data and makes the model");
    return nn::Trainer(config);
  }();
  if (const std::string& note = trainer.task->facts().note; !note.empty())
    print_error("note: " + note);
  lead_ranks(trainer, a.run.ranks);  // before there is a folder of a run that cannot be
  if (!folder) folder = nn::RunFolder::make_next(config.task);
  nn::RunFolder(folder->staging()).save(trainer.snapshot(), config_notes());
  folder->publish();
  return train_run(trainer, nn::RunFolder(folder->folder()), a.run);
}

}  // namespace

void train_command(Command& c) {
  c.name = "train", c.what = "train a model on a task, or on your text";
  c.json_keys[""] =
      "task steps seconds tokens_per_s loss optimal_loss accuracy standard_error references "
      "expected_optimal_loss expected_references expected_accuracy_references eval_sequences "
      "eval_tokens run parameters "
      "seed ranks stopped";
  c.json_keys["--dry-run"] =
      "task steps parameters attention flops_per_token parameter_bytes training_bytes "
      "activation_bytes_per_sequence tensors (name shape std) flops_per_step bytes "
      "available_bytes seconds_per_step seconds lr (step lr)";
  c.json_keys["--overfit-batch"] = "task steps seconds loss least_loss learned";
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
      "same bits. The first alone evaluates and writes; --resume takes any other N.";
  c.several = true;
  auto a = std::make_shared<TrainArguments>();
  c.arguments = 1;
  c.settings = recipe_settings(a->config, a->preset);
  c.add("Output",
        {nn::Setting("out", a->run.out, "DIR", "run folder").shows("the next free runs/TASK-N"),
         {"overwrite", a->overwrite, "replace the run that --out holds"},
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
  c.add_common(Command::kAll);
  c.run = [a](const Command& command) { return train(*a, command); };
}

}  // namespace heed
