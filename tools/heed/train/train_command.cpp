// The command `heed train`. It combines command line, config file and preset into a configuration,
// trains a model with it, and stores the run in a run directory.
#include <algorithm>
#include <cmath>

#include "nn/lab/train/cost/memory.h"
#include "nn/lab/train/cost/model_cost.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/ranks.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/train/start_config.h"
#include "tools/heed/train/train_run.h"

namespace heed {
namespace {

struct TrainArguments {
  lab::RunConfig config;
  std::string preset, out, resume;
  bool overwrite = false, print_config = false;
  TrainOptions run;
};

// Keys of the settings that --resume may change.
constexpr const char* kResumedOptions[] = {"accumulate", "steps",    "eval-every",  "eval-train",
                                           "save-every", "patience", "target-loss", "sample-every"};

// Applies to `trainer` the settings that were given together with --resume.
void apply_resume_settings(lab::Trainer& trainer, const Command& c) {
  lab::RunConfig changed = trainer.config();
  const std::vector<lab::Setting> settings = changed.settings();
  for (const char* key : kResumedOptions)
    if (c.given(key)) lab::find_setting(settings, key)->set(key, c.text(key));
  trainer.set(changed);
}

// Returns "" if training goes on: if steps or the final evaluation are missing. Otherwise returns
// the reason why nothing is missing, and what to do instead.
std::string nothing_to_do(const lab::RunFolder& folder, bool finished, const lab::Trainer& trainer,
                          const Command& c) {
  const std::string run = folder.text(), reason = trainer.stop_reason();
  const Index done = trainer.steps_done;
  if (!finished) return "";
  if (done >= trainer.config().steps)
    return fmt::format(
        "{0} has done its {1} steps{3}; continue with heed train --resume {0} --steps {2}", run,
        done, std::max<Index>(1, 2 * done),
        c.given("steps") ? fmt::format(", and --steps {} is not more", c.text("steps")) : "");
  if (reason.empty()) return "";
  return fmt::format(
      "{0} ended early after step {1}, {2}; continue with heed train --resume {0} --{3} 0", run,
      done, reason, reason.substr(0, reason.find(':')));
}

void warn_without_lock(const lab::LockedFolder& folder) {
  if (!folder.is_locked())
    print_error(
        fmt::format("warning: this file system has no flock; a second process that writes "
                    "to '{}' is not detected",
                    folder.path().string()));
}

// Throws UsageError if a moved file is given as --text but the run learns lines, or the reverse.
void check_moved(const lab::RunConfig& saved, const Command& c) {
  if (!lab::learns_file(saved)) return;  // RunFolder::load() rejects the file
  const bool lines = !saved.lines.empty();
  if (const char* wrong = lines ? "text" : "lines"; c.given(wrong))
    usage_error("--{}: the run in {} learns {}; use --{}", wrong, c.text("resume"),
                lines ? "lines" : "a text", lines ? "lines" : "text");
}

Out resume(TrainArguments& a, const Command& c) {
  const std::string moved = c.text(c.given("lines") ? "lines" : "text");
  if (!moved.empty()) check_moved(lab::RunFolder(find_run(a.resume)).config(), c);
  a.run.ranks = join_ranks(!c.given("threads"));
  if (a.run.ranks && a.run.ranks->rank() > 0)
    return work_as_rank(*a.run.ranks, [&] {
      const lab::RunFolder folder(find_run(a.resume));
      lab::Trainer trainer = lab::Trainer::from(folder.load(moved));
      apply_resume_settings(trainer, c);
      return trainer;
    });
  lab::LockedFolder locked(find_run(a.resume));
  const lab::RunFolder folder(locked.path());
  warn_without_lock(locked);
  Progress progress(a.run.quiet);
  progress.at_work("Reading " + folder.text());
  std::vector<std::string> warnings;
  lab::Snapshot snapshot = folder.load(moved, &warnings);
  lab::RunFolder::remove_temporaries(locked);
  lab::Trainer trainer = lab::Trainer::from(snapshot);
  progress.clear();
  for (const std::string& warning : warnings) print_error("warning: " + warning);
  const lab::RunConfig saved = trainer.config();
  if (c.given("steps") && a.config.steps < saved.steps && trainer.steps_done < saved.steps)
    usage_error(
        "--steps {3} is less than the {2} steps of {0}, which is at step {1}; give at least {2}, "
        "or continue with heed train --resume {0}",
        folder.text(), trainer.steps_done, saved.steps, a.config.steps);
  apply_resume_settings(trainer, c);
  const std::string nothing = nothing_to_do(folder, snapshot.finished, trainer, c);
  if (!nothing.empty() && moved.empty()) throw UsageError(nothing);
  if (!nothing.empty() && c.json)
    usage_error("--json: {} is finished, so no step is done; leave out --json", folder.text());
  if (!moved.empty()) {  // commands such as eval and study also need the new path
    snapshot.config = saved;
    folder.save(snapshot, config_notes());
  }
  snapshot = {};  // frees its tensors
  if (!nothing.empty()) {
    if (a.run.ranks) a.run.ranks->leave();
    Out out;
    out.fail(kOk, folder.text() + ": saved the new path of its text");
    return out;
  }
  const lab::RunConfig& config = trainer.config();
  const Index end = lab::schedule(config).total_steps;
  if (config.schedule != nn::Decay::kConstant && config.steps > end && config.warmup <= end)
    print_error(
        fmt::format("warning: the {} schedule still ends at step {}; later steps use min-lr {}",
                    nn::enum_name(config.schedule), end, config.min_lr));
  lead_ranks(trainer, a.run.ranks);
  return train_run(trainer, std::move(locked), a.run);
}

Out new_run(TrainArguments& a, const Command& c) {
  const lab::RunConfig& config = a.config;
  a.run.ranks = join_ranks(!c.given("threads"),
                           config.shards > 0 ? std::max(config.shards, config.accumulate) : 0);
  if (a.run.ranks && a.run.ranks->rank() > 0)
    return work_as_rank(*a.run.ranks, [&] { return lab::Trainer(config); });
  if (!a.out.empty() && !config.from.empty()) {
    const std::string inside = (std::filesystem::absolute(a.out) / "").lexically_normal().string();
    if (std::filesystem::absolute(config.from).lexically_normal().string().starts_with(inside))
      usage_error("--from {} is inside --out {}, which the new run replaces; choose another --out",
                  config.from, a.out);
  }
  std::optional<lab::LockedFolder> folder;
  if (!a.out.empty()) folder.emplace(open_out(a.out, a.overwrite));  // before the work
  Progress progress(a.run.quiet);
  progress.at_work("Reading the data and creating the model");
  lab::Trainer trainer(config);
  progress.clear();
  print_note(*trainer.task);
  lead_ranks(trainer, a.run.ranks);  // may fail, so it comes before the run directory
  if (!folder) folder.emplace(lab::RunFolder::make_next(config.task));
  warn_without_lock(*folder);
  return train_run(trainer, std::move(*folder), a.run);
}

Out print_config(const lab::RunConfig& config) {
  const lab::Trainer t(config);
  const nn::Transformer::Options& o = t.model.options;
  Out out;
  out.block(
      lab::to_toml(lab::effective(config),
                   {fmt::format("{}, {} FLOP per token, at least {} of memory",
                                counted(nn::count_parameters(t.model), "parameter"),
                                si_text(lab::flops_per_token(t.model)),
                                bytes_text(lab::run_bytes(t.config(), o.vocab, o.classes)))}));
  return out;
}

constexpr const char* kTrainNotes =
    R"(Without arguments it trains on the task induction. Each task and preset has its own defaults;
the defaults shown are those of induction. Options override the config file, and the config file
overrides the preset. Losses are in nats per token. --steps 0 evaluates the initial weights and saves
them as an untrained run.

[Run]
The run is saved every 60 s; at an evaluation, if the last save is more than 15 s ago; at checkpoints of
--save-every, if this takes less than half a percent of the time; at the end; and when Ctrl-C, SIGTERM or a closed terminal (SIGHUP)
stops it.

A run can end early with an exit code of heed --help, and the message states the reason. It is saved
first, unless a file cannot be written (4) or the loss of its weights is not finite (3); then the last
save stays. A run whose directory is moved or removed ends with 4.

A built-in task saves about 20 checkpoints, which heed study --over-time reads, unless --save-every
is given.

[Optimization]
A step divides its batch into --shards parts. Threads compute them side by side. mpirun -n N heed
train trains with N processes that share them, where N is a power of two of at most --shards; only
the first process evaluates and writes files. --accumulate A computes at most shards / A of them at
a time. The number of shards decides the last bits of the weights; threads, processes and
--accumulate do not, and a resumed run may change them. But in a new run, --accumulate above the
number of shards raises that number.

[Start]
--from starts a new run from the weights of another: those of its last step, or those of a file,
such as a checkpoint. The model is that of the source; --context may differ, but learned positions end where
the source's end. Task, data and all other options are those of the command; without a task they are
the task and the data of the source. The model must know the symbols of the data.

[Output]
--resume accepts only --steps, --eval-every, --eval-train, --save-every, --patience, --target-loss,
--sample-every, --accumulate, --threads, --quiet, and --text or --lines for a file that was moved. For a new run with the same configuration: heed train --config DIR/{}.)";

// Adds the settings of all modes.
void add_settings(Command& c, const std::shared_ptr<TrainArguments>& a) {
  c.arguments = 1;
  c.settings = recipe_settings(a->config, a->preset);
  lab::Setting overwrite("overwrite", a->overwrite, "replace the run in --out");
  overwrite.need = {"--out DIR", [a] { return !a->out.empty(); }};
  c.add("Output",
        {lab::Setting("out", a->out, "DIR", "run directory").shows("the next free runs/TASK-N"),
         overwrite,
         {"resume", a->resume, "DIR", "continue a run, with the bits of a run that never stopped"},
         {"quiet", a->run.quiet, "print no progress, only warnings"}});
  c.add("Checks",
        {{"print-config", a->print_config,
          "print the resulting configuration, with parameters, work and memory as comments, and "
          "exit; heed train --config FILE trains it"},
         {"strict", a->run.strict, "exit 3 if a parameter gets no gradient"}});
  c.add_common(Command::kConfig | Command::kThreads | Command::kJson);
  c.mark(&lab::Setting::common, {"task", "text", "layers", "heads", "d-model", "steps", "lr",
                                 "seed", "preset", "out", "resume"});
}

}  // namespace

void train_command(Command& c) {
  c.name = "train", c.what = "train a model on a task or on your text";
  c.examples =
      "  heed train\n"
      "  heed train copy --layers 3 --seed 7 --out runs/chain --overwrite\n"
      "  heed train --resume runs/chain --steps 600\n"
      "  heed train --text README.md --steps 200\n"
      "  heed train induction --layers 1 --print-config\n"
      "  heed train --from runs/chain --steps 100 --lr 1e-3";
  c.notes = fmt::format(kTrainNotes, lab::RunFolder::kConfig);
  auto a = std::make_shared<TrainArguments>();
  add_settings(c, a);
  c.set_defaults = [a](const Command& command) { a->config = chosen_preset(command); };
  const auto with_config = [a](Out (*run)(TrainArguments&, const Command&)) {
    return [a, run](const Command& command) {
      check_config(a->config, command);
      return run(*a, command);
    };
  };
  std::vector<std::string> when_resumed = {"text", "lines", "quiet"};
  when_resumed.insert(when_resumed.end(), std::begin(kResumedOptions), std::end(kResumedOptions));
  const std::string keys = "task steps seconds tokens_per_s " + kEvaluationKeys +
                           " train_loss train_accuracy run parameters seed ranks stopped";
  c.modes = {{.key = "resume",
              .accepts = c.only(when_resumed),
              .keys = keys,
              .run = [a](const Command& command) { return resume(*a, command); },
              .several = true},
             {.key = "print-config",
              .run = with_config([](auto& t, auto&) { return print_config(t.config); })},
             {.keys = keys, .run = with_config(new_run), .several = true}};
}

}  // namespace heed
