// The command `heed eval`: prints loss and accuracy of a run, beside the best possible loss and
// accuracy. The run is evaluated on its own evaluation set by default. Options select another text,
// other settings of its task, or other lengths.
#include <algorithm>
#include <cmath>

#include "autograd/base/text.h"
#include "nn/layers/sites.h"
#include "nn/run/run_folder.h"
#include "nn/tasks/parameters.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/evaluation_report.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"
#include "tools/plot/plot.h"

namespace heed {
namespace {

struct EvalArguments {
  std::string run, weights = nn::RunFolder::kState, text, lines, context;
  std::int64_t sequences = 0, stride = 0;
  nn::TaskParameters parameters;

  // True: the evaluation is on another file than that of the run.
  bool foreign() const { return !text.empty() || !lines.empty(); }
  // True: heed train does not make this evaluation, so it must not become the result of the run.
  bool elsewhere() const {
    return foreign() || !context.empty() || stride > 0 || !parameters.empty();
  }
};

constexpr Column kEvalBefore[] = {{"task"}, {"steps"}, {"seconds"}, {"tokens_per_s"}};
constexpr Column kEvalAfter[] = {{"run"}, {"weights"}, {"position_loss"}, {"position_optimal"}};
constexpr auto kEvalKeys = joined(kEvalBefore, kEvaluationKeys, kEvalAfter);

constexpr Column kPositions[] = {
    {"", "position"},         {"", "+0", "", "{:.3f}"}, {"", "+1", "", "{:.3f}"},
    {"", "+2", "", "{:.3f}"}, {"", "+3", "", "{:.3f}"}, {"", "+4", "", "{:.3f}"},
    {"", "+5", "", "{:.3f}"}, {"", "+6", "", "{:.3f}"}, {"", "+7", "", "{:.3f}"}};

// Adds a table of the mean loss at each position. If the optimal loss is known, each row of losses
// is followed by a row of optimal losses.
void add_positions(Report& report, const nn::Evaluation& e) {
  const std::size_t per_line = std::size(kPositions) - 1;
  const bool known = !e.position_optimal.empty();
  Table& table = report.text_table(kPositions);
  table.title = fmt::format("loss by position{}", known ? ", with the best possible below" : "");
  const auto add = [&](const Value& name, const std::vector<double>& x, std::size_t first) {
    std::vector<Value> cells{name};
    for (std::size_t t = first; t < first + per_line; ++t)
      cells.push_back(t < x.size() ? Value(x[t]) : Value(""));
    table.add(std::move(cells));
  };
  for (std::size_t first = 0; first < e.position_loss.size(); first += per_line) {
    add(first, e.position_loss, first);
    if (known) add("best", e.position_optimal, first);
  }
}

// Adds the result to a finished run that has none. Returns the path of the file, or nothing if it
// was not written.
std::vector<std::filesystem::path> save_missing_result(const std::filesystem::path& folder,
                                                       const nn::RunResult& result) try {
  const auto lacks_result = [&](const nn::RunFolder& run) {
    const nn::RunSummary saved = run.summary();
    return saved.finished && !saved.result && saved.step == result.steps;
  };
  if (!lacks_result(nn::RunFolder(folder))) return {};
  const nn::LockedFolder lock(folder);
  const nn::RunFolder run(lock.directory());
  if (!lacks_result(run)) return {};
  run.save_result(result);
  return {run.file(nn::RunFolder::kState)};
} catch (const autograd::IoError& e) {
  print_error(fmt::format("note: the result of the run is not saved: {}", e.what()));
  return {};
}

// Returns whether a value of --context is a list of several lengths.
bool is_list(const std::string& context) { return context.find(',') != std::string::npos; }

// Returns the values of --context, in increasing order.
std::vector<std::int64_t> contexts_of(const EvalArguments& a) {
  constexpr std::int64_t kLongest = 65536;
  auto contexts = nn::parse_list("`context`", a.context, [&](const std::string& item) {
    const auto context = heed::parse_number<std::int64_t>(item);
    if (!context || *context < 1 || *context > kLongest)
      usage_error("--context needs whole numbers, 1 to {}, separated by commas, got '{}'", kLongest,
                  a.context);
    return *context;
  });
  std::sort(contexts.begin(), contexts.end());
  return contexts;
}

// Opens the run and checks the options that depend on its task.
nn::LoadedRun open_evaluated(const std::filesystem::path& folder, const EvalArguments& a) {
  if (!a.text.empty() && !a.lines.empty())
    usage_error("--text and --lines are both given; leave out one of them");
  nn::LoadedRun run =
      open_run(folder, a.weights, a.foreign() ? nn::Use::kPrompts : nn::Use::kSequences);
  const std::string& task = run.config.task;
  if (a.foreign()) check_text_run(run.config, a.text.empty() ? "--lines" : "--text");
  if (a.stride > 0) check_text_run(run.config, "--stride");
  if (!a.foreign() && task == "lines" && !a.context.empty())
    usage_error(
        "--context: the held-out lines of this run depend on its context, {}; leave out --context, "
        "or give another file with --lines",
        run.config.model.context);
  if (nn::learns_file(run.config) && !a.parameters.empty())
    usage_error("--task-{} has no effect on a text; leave it out", a.parameters.begin()->first);
  return run;
}

// Returns the task on which the run is evaluated, with sequences of `context` tokens.
std::unique_ptr<nn::Task> evaluated_task(const nn::LoadedRun& run, const EvalArguments& a,
                                         std::int64_t context) {
  nn::RunConfig config = run.config;
  config.model.context = context;
  const nn::TaskInfo& own = run.task->info();
  if (nn::learns_file(config)) {
    nn::TextOptions o = nn::text_options(config);
    o.stride = a.stride;
    if (is_list(a.context)) o.bigrams = false;  // the table does not show them
    if (!a.foreign()) return nn::make_text(o);
    o.by_line = a.text.empty();
    o.path = o.by_line ? a.lines : a.text;
    if (!o.by_line) o.answer_after.clear();
    return nn::make_whole_text(o, own.vocabulary);
  }
  for (const auto& [key, value] : a.parameters) {
    for (const std::string_view split : {"split", "split-seed", "train-share"})
      if (key == split)
        usage_error(
            "--task-{0} changes which sequences are held out, and the run trained on some of "
            "them; leave out --task-{0}",
            key);
    config.task_parameters[key] = value;
  }
  std::unique_ptr<nn::Task> task = nn::make_task(config);
  const nn::TaskInfo& info = task->info();
  if (!(info.vocabulary == own.vocabulary) || info.classes != own.classes) {
    std::vector<std::string> given;
    for (const auto& [key, value] : a.parameters) given.push_back("--task-" + key);
    usage_error("with {} the tokens are {}, but the model learned {}; choose other values",
                heed::join(given), info.vocabulary.summary(), own.vocabulary.summary());
  }
  return task;
}

struct Evaluated {
  std::unique_ptr<nn::Task> task;
  nn::Evaluation result;
  double seconds = 0;
};

// Evaluates the run at one length. Throws ValueError if the task or the positions of the model do
// not allow it.
Evaluated evaluate_at(nn::LoadedRun& run, const EvalArguments& a, std::int64_t context) {
  Evaluated e;
  // Without the options of elsewhere(), this is the task that was opened with the run.
  e.task = a.elsewhere() ? evaluated_task(run, a, context) : std::move(run.task);
  nn::extend_context(run.model, context);
  const std::int64_t size = e.task->evaluation_size();
  if (a.sequences > size)
    usage_error("--sequences needs 1 to {}, the size of the evaluation set, got {}", size,
                a.sequences);
  const Stopwatch clock;
  Progress progress(false);
  e.result = past_input_checks([&] {
    return nn::evaluate(
        run.model, *e.task, (a.foreign() || a.stride > 0) && a.sequences == 0 ? size : a.sequences,
        [&](auto done, auto total) {
          progress.at_work(total == 0 ? std::string(kCountingBigrams)
                                      : fmt::format("Evaluating: {} of {} sequences", done, total));
        });
  });
  e.seconds = clock.seconds();
  return e;
}

// Marks the report as failed if the loss is not finite or impossibly low.
void fail_if_wrong(Report& report, const nn::Evaluation& e, const std::filesystem::path& folder) {
  if (!std::isfinite(e.loss))
    report.fail(kNumeric, "eval: the loss is not finite; " + e.trouble + "; use other weights");
  else if (nn::leaks(e))
    report.fail(kCheckFailed,
                fmt::format("{}; run heed verify causality {}", nn::leak_text(e), folder.string()));
}

// Returns the first line of the report: run, weights and place of the evaluation.
std::string headline(const std::filesystem::path& folder, const nn::LoadedRun& run,
                     const EvalArguments& a) {
  std::string line = fmt::format("{} ({}), {}{}", folder.string(), run.config.task, run.weights,
                                 run.step ? fmt::format(", step {}", *run.step) : "");
  if (a.foreign()) line += fmt::format(", on {}", a.text.empty() ? a.lines : a.text);
  for (const auto& [key, value] : a.parameters) line += fmt::format(", {} {}", key, value);
  if (a.stride > 0) line += fmt::format(", stride {}", a.stride);
  return line;
}

Report eval(const EvalArguments& a) {
  const std::filesystem::path folder = find_run(a.run);
  nn::LoadedRun run = open_evaluated(folder, a);
  const std::int64_t context =
      a.context.empty() ? run.config.model.context : contexts_of(a).front();
  const Evaluated done = evaluate_at(run, a, context);
  const nn::Evaluation& e = done.result;
  const nn::TaskInfo& info = done.task->info();
  if (a.foreign()) print_note(*done.task);
  Report report(kEvalKeys);
  report.line("{}{}", headline(folder, run, a),
              a.context.empty() ? "" : fmt::format(", context {}", context));
  report.set("task", info.name);
  report.set("steps", run.step);
  report.set("seconds", done.seconds);
  report.set("tokens_per_s", double(e.sequences * info.context) / done.seconds);
  add_evaluation(report, e, *done.task);
  report.set("run", folder.string());
  report.set("weights", run.weights);
  report.set("position_loss", e.position_loss);
  report.set("position_optimal", e.position_optimal);
  add_positions(report, e);
  const bool is_final =
      a.weights == nn::RunFolder::kState && a.sequences == 0 && run.step && !a.elsewhere();
  std::vector<std::filesystem::path> files;
  if (is_final && std::isfinite(e.loss) && !nn::leaks(e)) {
    nn::RunResult result = nn::run_result(e, *done.task, *run.step);
    result.weights_checksum = nn::hash_of_tensors(nn::parameters(run.model));
    files = save_missing_result(folder, result);
  }
  if (!files.empty()) report.line("wrote {}", files[0].string());
  fail_if_wrong(report, e, folder);
  return report;
}

constexpr Column kLengthColumns[] = {{"context", "context"},
                                     {"loss", "loss", "nats", "{:.4f}"},
                                     {"optimal_loss", "best possible", "", "{:.4f}"},
                                     {"accuracy", "accuracy", "", "percent"},
                                     {"standard_error", "standard error", "", "{:.4f}", 7},
                                     {"perplexity", "perplexity", "", "{:.4f}"},
                                     {"bits_per_character", "bits/character", "", "{:.4f}", 2},
                                     {"bits_per_byte", "bits/byte", "", "{:.4f}", 3},
                                     {"eval_sequences", "sequences", "", "commas", 6},
                                     {"eval_tokens", "tokens", "", "commas", 5},
                                     {"reason", "not evaluated"}};
constexpr Column kLengthsAfter[] = {
    {"run"}, {"weights"}, rows("lengths", kLengthColumns), {"files"}};
constexpr auto kLengthKeys = joined(kEvalBefore, kLengthsAfter);

Files draw_lengths(const std::filesystem::path& folder, const nn::LoadedRun& run,
                   const std::string& where, const plot::Series& loss, const plot::Series& best) {
  plot::LineChart chart{.x_name = "context: tokens of a sequence",
                        .y_name = "loss (nats per token)",
                        .series = {loss},
                        .log_x = loss.x.back() >= 8 * loss.x.front(),
                        .height = 480};
  if (!best.x.empty()) chart.series.push_back(best);
  const plot::ChartStack stack{
      .title = "Loss by length: " + where,
      .panels = {chart},
      .vline = plot::VLine{"context in training", double(run.config.model.context)}};
  std::string alt;
  for (std::size_t i = 0; i < loss.x.size(); ++i)
    alt += fmt::format("{}{:.4f} at {}.", i > 0 ? " " : "", loss.y[i], loss.x[i]);
  const nn::RunFolder opened = nn::RunFolder(folder).opened();  // no link in it is followed
  return write_picture(opened.target(nn::RunFolder::kLengthsPicture), {"lengths", stack, alt},
                       source_of(folder, run.model));
}

Report eval_lengths(const EvalArguments& a) {
  const std::vector<std::int64_t> contexts = contexts_of(a);
  const std::filesystem::path folder = find_run(a.run);
  nn::LoadedRun run = open_evaluated(folder, a);
  Report report(kLengthKeys);
  const std::string where = headline(folder, run, a);
  report.line("{}", where);
  report.set("run", folder.string());
  report.set("weights", run.weights);
  report.set("steps", run.step);
  Table& table = report.table("lengths");
  table.title = "loss by length";
  double seconds = 0, tokens = 0;
  plot::Series losses{.name = "loss"}, best{.name = "best possible", .dash = 1};
  std::string first_reason;
  std::string task = run.config.task;
  for (const std::int64_t context : contexts) {
    try {
      const Evaluated done = evaluate_at(run, a, context);
      const nn::Evaluation& e = done.result;
      if (a.foreign()) print_note(*done.task);
      task = done.task->info().name;
      seconds += done.seconds;
      tokens += double(e.sequences * context);
      losses.x.push_back(double(context)), losses.y.push_back(e.loss);
      if (e.optimal) best.x.push_back(double(context)), best.y.push_back(*e.optimal);
      table.add({context, with_nan(e.loss), e.optimal, e.accuracy, e.standard_error,
                 e.text.perplexity, e.text.bits_per_character, e.text.bits_per_byte, e.sequences,
                 e.tokens, ""});
      fail_if_wrong(report, e, folder);
    } catch (const autograd::ValueError& error) {
      std::vector<Value> cells(std::size(kLengthColumns));
      cells.front() = context, cells.back() = with_options(error.what());
      if (first_reason.empty()) first_reason = with_options(error.what());
      table.add(std::move(cells));
    }
  }
  report.set("task", task);
  report.set("seconds", seconds);
  report.set("tokens_per_s", seconds > 0 ? Value(tokens / seconds) : Value());
  if (tokens == 0)
    report.fail(kUsage, "--context: none of these lengths can be evaluated: " + first_reason);
  report.write_files(
      [&] { return tokens > 0 ? draw_lengths(folder, run, where, losses, best) : Files(); });
  return report;
}

}  // namespace

void eval_command(Command& c) {
  c.name = "eval";
  c.what = "evaluate a run: loss beside the best possible loss, accuracy, loss by position";
  c.examples = fmt::format(
      "  heed eval\n"
      "  heed eval --weights {} --json\n"
      "  heed eval runs/first --context 32,48,96,192\n"
      "  heed eval runs/first --task-periods 12..24\n"
      "  heed eval runs/text-1 --text FILE --stride 32",
      nn::RunFolder::kBest);
  c.notes = fmt::format(
      R"(Without options other than --weights, this measures the loss of the run, which heed train, runs,
sweep and compare also print. If a finished run has no result, heed eval adds it. Evaluations
elsewhere, with --text, --lines, --stride, --context or --task-*, never add it.

[Options]
Another text or its lines are evaluated as a whole, in the tokens of the run. A character that the
run does not have is an error, and so is a word.

For texts, perplexity is exp of the loss (nats per token), and bits per character and per byte are
the total nats / ln 2, divided by the code points or UTF-8 bytes of the targets (newlines count).

A list such as --context 32,64 prints one row per length and draws {} in the directory
of the run. Learned positions end at the context of the run, so that longer sequences cannot be
evaluated. With other encodings of positions they can.)",
      nn::RunFolder::kLengthsPicture);
  auto a = std::make_shared<EvalArguments>();
  c.arguments = 1;
  c.add("Options",
        {run_setting(a->run),
         {"weights", a->weights, "FILE", "weights file in the run directory"},
         nn::Setting("sequences", a->sequences, {1, 1 << 20},
                     "number of sequences of the evaluation set (text: of its validation part)")
             .shows("all, but at most 1,000,000 tokens of the run's own set"),
         {"text", a->text, "FILE", "another text file to evaluate, for runs on a text"},
         {"lines", a->lines, "FILE", "another file whose lines to evaluate, for runs on a text"},
         nn::Setting("stride", a->stride, {1, 65536},
                     "texts: tokens from a window to the next; after the first window only the "
                     "last targets of each are counted, so that each has at least context - stride "
                     "tokens of context")
             .shows("the context"),
         nn::Setting("context", a->context, "T,...", "tokens of a sequence, or a list of lengths")
             .shows("that of the run")});
  std::vector<nn::Setting> parameters = nn::task_settings(a->parameters);
  for (nn::Setting& s : parameters) s.shown = "the run's";
  c.add("Task", std::move(parameters));
  c.add_common(Command::kAll | Command::kCsv);
  c.mark(&nn::Setting::common,
         {"run", "weights", "sequences", "text", "lines", "stride", "context", "json", "csv"});
  const auto several = [](const Command& command) { return is_list(command.text("context")); };
  c.modes = {{.key = "context",
              .when = several,
              .label = "--context T,T,...",
              .result = kLengthKeys,
              .run = [a](const Command&) { return eval_lengths(*a); }},
             {.result = kEvalKeys, .run = [a](const Command&) { return eval(*a); }}};
}

}  // namespace heed
