// heed train: from command line, config file and preset to a run folder.
#include <algorithm>
#include <cmath>

#include "autograd/base/parallel.h"
#include "nn/train/checks/overfit.h"
#include "nn/train/cost/memory.h"
#include "nn/train/cost/model_cost.h"
#include "nn/train/cost/run_cost.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/pictures.h"
#include "tools/heed/plan/train_config.h"
#include "tools/heed/ranks.h"
#include "tools/heed/report/model_report.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"
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

// Returns why a resumed run would have nothing to do, its last evaluation and pictures included,
// and what to do instead; or "".
std::string nothing_to_do(const nn::RunFolder& folder, const nn::Trainer& trainer) {
  const std::string run = folder.text(), reason = trainer.stop_reason();
  const std::int64_t done = trainer.steps_done;
  if (folder.finished_step() != done) return "";
  if (done >= trainer.config().steps)
    return fmt::format("{0} has done its {1} steps; go on with heed train --resume {0} --steps {2}",
                       run, done, 2 * done);
  if (reason.empty()) return "";
  return fmt::format(
      "{0} ended early after step {1}, {2}; go on with heed train --resume {0} --{3} 0", run, done,
      reason, reason.substr(0, reason.find(':')));
}

Report resume(TrainArguments& a, const Command& c) {
  const std::string moved = c.text(c.given("lines") ? "lines" : "text");
  a.run.ranks = join_ranks(!c.given("threads"));
  if (a.run.ranks && a.run.ranks->rank() > 0)
    return work_as_rank(*a.run.ranks, [&] {
      nn::Trainer trainer = nn::Trainer::from(nn::RunFolder(find_run(a.resume)).load(moved));
      change_length(trainer, c);
      return trainer;
    });
  const nn::RunFolder folder(find_run(a.resume));
  const nn::StagedFolder lock(folder.path(), nn::RunFolder::result_files());
  Progress progress(a.run.quiet);
  progress.at_work("reads " + folder.text());
  std::vector<std::string> warnings;
  nn::Trainer trainer = nn::Trainer::from(folder.load(moved, &warnings));
  progress.clear();
  for (const std::string& warning : warnings) print_error("warning: " + warning);
  const nn::RunConfig saved = trainer.config();
  if (a.run.ranks) nn::RankSession::check_size(a.run.ranks->size(), saved.accumulate);
  if (c.given("steps") && a.config.steps < saved.steps && trainer.steps_done < saved.steps)
    usage_error(
        "{0} is at step {1} of {2}; --steps {3} is less; go on with heed train --resume {0}",
        folder.text(), trainer.steps_done, saved.steps, a.config.steps);
  change_length(trainer, c);
  const std::string nothing = nothing_to_do(folder, trainer);
  if (!nothing.empty() && moved.empty()) throw UsageError(nothing);
  if (!nothing.empty() && c.json)
    usage_error("--json: {} is finished, so that there is no result; leave it out", folder.text());
  if (!moved.empty()) folder.save_config(saved, config_notes());  // for eval and study, too
  if (!nothing.empty()) {
    if (a.run.ranks) a.run.ranks->leave();
    Report report;
    report.fail(kOk, fmt::format("{} has its text at the new place now", folder.text()));
    return report;
  }
  const nn::RunConfig& config = trainer.config();
  const std::int64_t end = nn::schedule(config).total_steps;
  if (config.schedule != nn::Decay::kConstant && config.steps > end)
    print_error(
        fmt::format("the {} schedule keeps its end at step {}: the steps after it run at min-lr {}",
                    nn::enum_name(config.schedule), end, config.min_lr));
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
  if (const std::string& note = trainer.task->info().note; !note.empty())
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

constexpr Column kRateColumns[] = {{"step"}, {"lr"}};
constexpr Column kDryRunBefore[] = {{"task"}, {"steps"}};
constexpr Column kDryRunAfter[] = {{"flops_per_step"},   {"bytes"},
                                   {"seconds_per_step"}, {"seconds"},
                                   {"available_bytes"},  rows("lr", kRateColumns)};
constexpr auto kDryRunKeys = joined(kDryRunBefore, kModelKeys, kDryRunAfter);
constexpr Column kSiteColumns[] = {{"", "site"}, {"", "shape", "batch, tokens, ..."}};

// Some steps that tell the course of the learning rate, from 0.
std::vector<std::int64_t> steps_shown(const nn::RunConfig& c) {
  std::vector<std::int64_t> steps = {0, c.warmup};
  for (int quarter = 1; quarter <= 4; ++quarter) steps.push_back(c.steps * quarter / 4 - 1);
  std::erase_if(steps, [&](std::int64_t s) { return s < 0 || s >= c.steps; });
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

// Every step of a short run, evenly spread ones of a long one, the last included.
constexpr std::int64_t kCurve = 64;
std::vector<std::int64_t> curve_steps(const nn::RunConfig& c) {
  std::vector<std::int64_t> steps;
  const std::int64_t points = std::min(kCurve, c.steps);
  for (std::int64_t i = 0; i < points; ++i)
    steps.push_back(
        points == 1 ? 0 : std::llround(double(i) * double(c.steps - 1) / double(points - 1)));
  return steps;
}

// The learning rate over the steps, as rows of text from its peak down to 0.
std::string lr_plot(const nn::RunConfig& c) {
  constexpr int kRows = 8;
  const nn::Schedule schedule = nn::schedule(c);
  const std::vector<std::int64_t> steps = curve_steps(c);
  std::string text;
  for (int row = kRows; row >= 0; --row) {
    text += row == kRows ? fmt::format("  {:>8.2g} |", c.lr)
            : row == 0   ? "         0 |"
                         : "           |";
    for (const std::int64_t s : steps)
      text += std::lround(kRows * schedule.lr_at(s) / c.lr) == row ? '*' : row == 0 ? '_' : ' ';
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  const std::string last = std::to_string(c.steps);
  const std::size_t width = std::max(steps.size(), last.size() + 2);
  return text + "            1" + std::string(width - 1 - last.size(), ' ') + last + "\n";
}

// Shapes of what flows through the model, for a batch.
void add_shapes(Report& report, const nn::Trainer& t) {
  Table& table = report.text_table(kSiteColumns);
  for (const auto& [name, shape] : nn::site_shapes(t.model)) {
    std::vector<std::int64_t> sizes = {t.config().batch};
    for (int i = 1; i < shape.rank(); ++i) sizes.push_back(shape[i]);
    table.add({name, sizes});
  }
}

void add_cost(Report& report, const nn::Trainer& t, const nn::RunCost& cost, double available) {
  const nn::RunConfig& c = t.config();
  const double flops = nn::flops_per_token(t.model) * double(c.batch * c.model.context);
  report.set("flops_per_step", flops);
  report.set("bytes", cost.bytes);
  report.set("seconds_per_step", cost.seconds_per_step);
  report.set("seconds", cost.seconds);
  report.set("available_bytes", available);
  report.line("work      {} FLOP per step, {} FLOP in all {} steps", si_text(flops),
              si_text(flops * double(c.steps)), c.steps);
  report.line("memory    about {} at its peak; {} are free here", bytes_text(cost.bytes),
              bytes_text(available));
  if (std::isfinite(cost.seconds))
    report.line("time      about {} on {} threads: {:.3f} ms per step, evaluations, pictures",
                seconds_text(cost.seconds), autograd::num_threads(), cost.seconds_per_step * 1e3);
}

void add_learning_rate(Report& report, const nn::RunConfig& c) {
  const nn::Schedule schedule = nn::schedule(c);
  Table& rates = report.table("lr");
  for (const std::int64_t s : curve_steps(c)) rates.add({s + 1, schedule.lr_at(s)});
  std::string some;
  for (const std::int64_t s : steps_shown(c))
    some += fmt::format("  {}: {:.3g}", s + 1, schedule.lr_at(s));
  report.line("lr        {}, by step:\n        {}", nn::enum_name(c.schedule), some);
  report.block(lr_plot(c));
}

// Returns shapes, parameters, work, memory and the course of the learning rate.
Report dry_run(const nn::RunConfig& config, bool quiet) {
  Progress progress(quiet);
  progress.at_work("makes the model and measures passes");
  nn::Trainer t(config);
  const nn::RunConfig& c = t.config();
  const double available = nn::available_memory();
  const auto pictures = [&] {
    try {
      loss_png(t, {});
      attention_png(t.model, *t.task, 0);
    } catch (const std::exception&) {  // too wide: it will be a warning of the run
    }
  };
  const nn::RunCost cost = past_input_checks([&] { return nn::run_cost(t, pictures, available); });
  progress.clear();
  Report report(kDryRunKeys);
  report.line("{}: {}", c.task, t.task->info().description);
  report.set("task", c.task);
  report.set("steps", c.steps);
  add_model(report, t.model);  // after the measurement, as it stores scores
  add_shapes(report, t);
  add_cost(report, t, cost, available);
  add_learning_rate(report, c);
  report.line("\ndry run: no step taken, nothing written");
  if (const std::string why = nn::memory_shortage(cost.bytes, available); !why.empty())
    report.fail(kUsage, why);
  return report;
}

constexpr Column kOverfitKeys[] = {{"task"}, {"steps"},      {"seconds"},
                                   {"loss"}, {"least_loss"}, {"learned"}};

// Trains on one batch, without dropout, until its loss is within 1e-3 of the least possible: that
// of a model that knows the batch by heart, above 0 where equal beginnings continue differently.
Report overfit_batch(nn::RunConfig config, bool quiet) {
  config.model.attention.dropout = 0;  // what is forgotten at random cannot be learned by heart
  nn::Trainer t(config);
  Progress progress(quiet);
  const Stopwatch clock;
  const nn::Overfit result = past_input_checks([&] {
    return nn::overfit_batch(t, [&](const nn::Overfit& o) {
      const bool mark = t.config().eval_every > 0 && t.steps_done % t.config().eval_every == 0;
      if (!mark && !progress.is_due()) return;
      const std::string text = fmt::format("step {}/{}  loss {:.6f}  least possible {:.6f}",
                                           t.steps_done, t.config().steps, o.loss, o.least);
      mark ? progress.line(text) : progress.at_work(text);
    });
  });
  progress.clear();
  Report report(kOverfitKeys);
  report.set("task", t.config().task);
  report.set("steps", t.steps_done);
  report.set("seconds", clock.seconds());
  report.set("loss", result.loss);
  report.set("least_loss", result.least);
  report.set("learned", result.learned);
  report.line("{}: one batch of {} sequences {} in {} steps: loss {:.6f}, least possible {:.6f}{}",
              t.config().task, t.config().batch,
              result.learned ? "learned by heart" : "NOT learned", t.steps_done, result.loss,
              result.least, result.learned ? "" : "; more --steps, or a smaller --batch, may do");
  report.fail(result.learned ? kOk : kCheckFailed);
  return report;
}

constexpr const char* kTrainNotes =
    R"(Alone it learns the task induction. Each task and preset has defaults of its own; those
shown are induction's. An option overrides the config file, which overrides the preset. Losses are
in nats per token.

It saves at evaluations 15 s after the last save, every 60 s, with --save-every at each of its
checkpoints, at the end, and when Ctrl-C, SIGTERM or a closed terminal (SIGHUP) stops it.

What ends it early, saved: exit 1, the model sees later inputs (tried at each start) or its loss
is more than 4 standard errors below the best possible; 3, a loss or gradient is NaN or infinite
(the op is named; weights before the step are saved if their loss is finite, else the last save
stays), with --check-invariants breaks an identity of attention (layer, head and row are named;
saved likewise), or, with --strict, is missing; 4, a file cannot be written; 130, Ctrl-C.

{}: the first step, by parameter.

mpirun -n N heed train --accumulate K trains with N processes, a power of two up to K: the same
bits. The first alone evaluates and writes; --resume takes any other N.

--resume takes only --steps, --eval-every, --save-every, --patience, --target-loss,
--target-accuracy, --check-invariants, --threads, --simd, --quiet, and --text or --lines for a
file that was moved; a new run like it: heed train --config DIR/{}.)";

}  // namespace

void train_command(Command& c) {
  c.name = "train", c.what = "train a model on a task, or on your text";
  c.examples =
      "  heed train\n"
      "  heed train urn --steps 300 --seed 7 --out runs/my-urn --overwrite\n"
      "  heed train --text README.md --steps 200\n"
      "  heed train induction --layers 1 --dry-run\n"
      "  heed train --resume runs/my-urn --steps 600";
  c.notes = fmt::format(kTrainNotes, nn::RunFolder::kAudit, nn::RunFolder::kConfig);
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
       .instead =
           [](const Command& command) {
             return fmt::format("a new run like it: heed train --config {}/{}",
                                command.text("resume"), nn::RunFolder::kConfig);
           },
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
