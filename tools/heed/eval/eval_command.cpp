// The command `heed eval`: prints loss and accuracy of a run, beside the best possible loss and
// accuracy, or the prediction of each token of a prompt. The run is evaluated on its own evaluation
// set by default. Options select another text, other settings of its task, or another length.
#include <cmath>

#include "autograd/base/text.h"
#include "nn/lab/run/run_folder.h"
#include "nn/lab/tasks/parameters.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/evaluation_report.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

struct EvalArguments {
  std::string run, weights = lab::RunFolder::kState, prompt, text, lines;
  Index context = 0, sequences = 0, stride = 0;
  lab::TaskParameters parameters;

  // True: the evaluation is on another file than that of the run.
  bool foreign() const { return !text.empty() || !lines.empty(); }
  // True: the evaluation is on another task than that of the run.
  bool elsewhere() const { return foreign() || context > 0 || stride > 0 || !parameters.empty(); }
};

// Adds a table of the mean loss at each position. If the optimal loss is known, each row of losses
// is followed by a row of optimal losses.
void add_positions(Out& out, const lab::Evaluation& e) {
  constexpr std::size_t kPerLine = 8;
  const bool known = !e.position_optimal.empty();
  Cells headings{"position"};
  for (std::size_t i = 0; i < kPerLine; ++i) headings.push_back(fmt::format("+{}", i));
  std::vector<Cells> rows;
  const auto add = [&](const std::string& name, const std::vector<double>& x, std::size_t first) {
    Cells& row = rows.emplace_back(Cells{name});
    for (std::size_t t = first; t < first + kPerLine; ++t)
      row.push_back(t < x.size() ? number_text("{:.3f}", x[t]) : "");
  };
  for (std::size_t first = 0; first < e.position_loss.size(); first += kPerLine) {
    add(std::to_string(first), e.position_loss, first);
    if (known) add("best", e.position_optimal, first);
  }
  out.gap();
  out.text("loss by position{}", known ? ", with the best possible below" : "");
  out.table(headings, rows);
}

// Throws UsageError that names `option` if the run learned a task of heed other than text and
// lines.
void check_text_run(const lab::LoadedRun& run, const std::string& option) {
  if (!lab::learns_file(run.config) && !run.task->info().data.contains(lab::kOwnTaskKey))
    usage_error("{0} is for runs on a text, and this run learned the task {1}; leave out {0}",
                option, run.config.task);
}

// Opens the run and checks the options that depend on its task.
lab::LoadedRun open_evaluated(const std::filesystem::path& folder, const EvalArguments& a) {
  if (!a.text.empty() && !a.lines.empty())
    usage_error("--text and --lines are both given; leave out one of them");
  lab::LoadedRun run =
      open_run(folder, a.weights, a.foreign() ? lab::Use::kPrompts : lab::Use::kSequences);
  const std::string& task = run.config.task;
  if (a.foreign()) check_text_run(run, a.text.empty() ? "--lines" : "--text");
  if (a.stride > 0) check_text_run(run, "--stride");
  if (!a.foreign() && task == "lines" && a.context > 0)
    usage_error(
        "--context: the held-out lines of this run depend on its context, {}; leave out --context, "
        "or give another file with --lines",
        run.config.model.context);
  if (lab::learns_file(run.config) && !a.parameters.empty())
    usage_error("--task-{} has no effect on a text; leave it out", a.parameters.begin()->first);
  return run;
}

// Returns the task on which the run is evaluated.
std::unique_ptr<lab::Task> evaluated_task(const lab::LoadedRun& run, const EvalArguments& a) {
  lab::RunConfig config = run.config;
  if (a.context > 0) config.model.context = a.context;
  const lab::TaskInfo& own = run.task->info();
  if (lab::learns_file(config) || a.foreign()) {
    lab::TextOptions o = lab::text_options(config);
    o.stride = a.stride;
    if (!a.foreign()) return lab::make_text(o);
    o.by_line = a.text.empty();
    o.path = o.by_line ? a.lines : a.text;
    if (!o.by_line) o.answer_after.clear();
    return lab::make_whole_text(o, own.vocabulary.first(own.classes));
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
  std::unique_ptr<lab::Task> task = lab::make_task(config);
  const lab::TaskInfo& info = task->info();
  if (!(info.vocabulary == own.vocabulary) || info.classes != own.classes) {
    std::vector<std::string> given;
    for (const auto& [key, value] : a.parameters) given.push_back("--task-" + key);
    usage_error("with {} the tokens are {}, but the model learned {}; choose other values",
                heed::join(given), info.vocabulary.summary(), own.vocabulary.summary());
  }
  return task;
}

// Returns the first line of the text: run, weights and place of the evaluation.
std::string headline(const std::filesystem::path& folder, const lab::LoadedRun& run,
                     const EvalArguments& a) {
  std::string line = fmt::format("{} ({}), {}{}", folder.string(), run.config.task, run.weights,
                                 run.step ? fmt::format(", step {}", *run.step) : "");
  if (a.foreign()) line += fmt::format(", on {}", a.text.empty() ? a.lines : a.text);
  for (const auto& [key, value] : a.parameters) line += fmt::format(", {} {}", key, value);
  if (a.stride > 0) line += fmt::format(", stride {}", a.stride);
  if (a.context > 0) line += fmt::format(", context {}", a.context);
  return line;
}

Out eval(const EvalArguments& a) {
  const std::filesystem::path folder = find_run(a.run);
  lab::LoadedRun run = open_evaluated(folder, a);
  const std::unique_ptr<lab::Task> task =
      a.elsewhere() ? evaluated_task(run, a) : std::move(run.task);
  const lab::TaskInfo& info = task->info();
  nn::extend_context(run.model, info.context);
  const Index size = task->evaluation_size();
  if (a.sequences > size)
    usage_error("--sequences needs 1 to {}, the size of the evaluation set, got {}", size,
                a.sequences);
  const bool whole = (a.foreign() || a.stride > 0) && a.sequences == 0;
  const Stopwatch clock;
  Progress progress(false);
  const lab::Evaluation e = past_input_checks([&] {
    return lab::evaluate(run.model, *task, whole ? size : a.sequences, [&](auto done, auto total) {
      progress.at_work(total == 0 ? std::string(kCountingBigrams)
                                  : fmt::format("Evaluating: {} of {} sequences", done, total));
    });
  });
  const double seconds = clock.seconds();
  if (a.foreign()) print_note(*task);
  Out out;
  out.text("{}", headline(folder, run, a));
  out.set("task", info.name);
  out.set("steps", run.step);
  out.set("seconds", seconds);
  out.set("tokens_per_s", double(e.sequences * info.context) / seconds);
  add_evaluation(out, e, *task);
  out.set("run", folder.string());
  out.set("weights", run.weights);
  out.set("position_loss", e.position_loss);
  out.set("position_optimal", e.position_optimal);
  add_positions(out, e);
  if (!std::isfinite(e.loss))
    out.fail(kNumeric, "eval: the loss is not finite; " + e.trouble + "; use other weights");
  else if (lab::leaks(e))
    out.fail(kCheckFailed, lab::leak_text(e));
  return out;
}

// Evaluates the prediction of each token of a prompt.
Out eval_prompt(const EvalArguments& a) {
  const std::filesystem::path folder = find_run(a.run);
  const lab::LoadedRun run = open_run(folder, a.weights, lab::Use::kPrompts);
  const nn::Tensor prompt = run.task->prompt(a.prompt).inputs;
  const auto ids = prompt.to_vector<std::int64_t>();
  if (std::ssize(ids) > run.config.model.context)
    usage_error(
        "--prompt has {} tokens, and the context of the run is {}; write it to a file and give "
        "it as --text",
        ids.size(), run.config.model.context);
  if (ids.size() < 2)
    usage_error(
        "--prompt '{}' is one token, and the first token has no prediction; give at least 2",
        a.prompt);
  const auto scores = past_input_checks([&] { return lab::score(run.model, prompt); });
  const lab::Vocabulary& vocabulary = run.task->info().vocabulary;
  Value tokens = Value::array();
  std::vector<Cells> rows;
  double nats = 0, count = 0;
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const auto& s = scores[t];
    tokens.push_back(Value::object({{"position", t},
                                    {"token", vocabulary.symbols()[std::size_t(ids[t])]},
                                    {"id", ids[t]},
                                    {"log_probability", s ? Value(s->log_probability) : Value()},
                                    {"rank", s ? Value(s->rank) : Value()}}));
    rows.push_back({std::to_string(t), plot::token_text(vocabulary.label(ids[t])),
                    s ? fmt::format("{:.4f}", s->log_probability) : "-",
                    s ? std::to_string(s->rank) : "-"});
    if (s) nats -= s->log_probability, ++count;
  }
  Out out;
  out.set("run", folder.string());
  out.set("weights", run.weights);
  out.set("tokens", tokens);
  out.set("loss", nats / count);
  out.text("{}\n", headline(folder, run, a));
  out.table({"position", "token", "log p (nats)", "rank"}, rows);
  out.text("\nloss {:.4f} nats per token", nats / count);
  return out;
}

constexpr const char* kEvalNotes =
    R"(Without options other than --weights, this measures the loss of the run, which heed train, info
and compare also print.

With --prompt, each row is a token and its prediction from the tokens before it: log p is its
log-probability, and rank is 1 if it is the most probable token. The first token and tokens that the
model never predicts have none. Every other token is scored, also where the task has no target and so
trained nothing.

[Options]
Another text or its lines are evaluated as a whole, in the tokens of the run. A character that the
run does not have is an error, and so is a word.

For texts, perplexity is exp of the loss (nats per token), and bits per character and per byte are
the total nats / ln 2, divided by the code points or UTF-8 bytes of the targets (newlines count).

Learned positions end at the context of the run, so that longer sequences cannot be evaluated. With
other encodings of positions they can.)";

}  // namespace

void eval_command(Command& c) {
  c.name = "eval";
  c.what = "evaluate a run: loss beside the best possible loss, accuracy, loss by position";
  c.examples = fmt::format(
      "  heed eval\n"
      "  heed eval --weights {} --json\n"
      "  heed eval runs/first --prompt abcdabcd\n"
      "  heed eval runs/first --context 96\n"
      "  heed eval runs/first --task-periods 12..24\n"
      "  heed eval runs/text-1 --text FILE --stride 32",
      lab::RunFolder::kBest);
  c.notes = kEvalNotes;
  auto a = std::make_shared<EvalArguments>();
  c.arguments = 1;
  c.add(
      "Options",
      {run_setting(a->run),
       {"weights", a->weights, "FILE", "weights file in the run directory"},
       lab::Setting("sequences", a->sequences, {1, 1 << 20},
                    "number of sequences of the evaluation set (text: of its validation part)")
           .shows("all, but at most 1,000,000 tokens of the run's own set"),
       {"prompt", a->prompt, "TEXT", "text whose tokens to score, in the characters of the task"},
       {"text", a->text, "FILE", "another text file to evaluate, for runs on a text"},
       {"lines", a->lines, "FILE", "another file whose lines to evaluate, for runs on a text"},
       lab::Setting("stride", a->stride, {1, 65536},
                    "texts: tokens from a window to the next; after the first window only the "
                    "last targets of each are counted, so that each has at least context - stride "
                    "tokens of context")
           .shows("the context"),
       lab::Setting("context", a->context, {1, 65536}, "tokens of a sequence")
           .shows("that of the run")});
  std::vector<lab::Setting> parameters = lab::task_settings(a->parameters);
  for (lab::Setting& s : parameters) s.shown = "the run's";
  c.add("Task", std::move(parameters));
  c.add_common(Command::kThreads | Command::kJson);
  c.mark(&lab::Setting::common,
         {"run", "weights", "sequences", "prompt", "text", "lines", "stride", "context", "json"});
  c.modes = {{.key = "prompt",
              .accepts = c.only({"run", "weights"}),
              .keys = "run weights tokens (position token id log_probability rank) loss",
              .run = [a](const Command&) { return eval_prompt(*a); }},
             {.keys = "task steps seconds tokens_per_s " + kEvaluationKeys +
                      " run weights position_loss position_optimal",
              .run = [a](const Command&) { return eval(*a); }}};
}

}  // namespace heed
