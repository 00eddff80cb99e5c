// The command `heed score`: the prediction of each token of a prompt or of a text file.
#include <algorithm>
#include <cmath>

#include "autograd/ops/ops.h"
#include "autograd/tensor/create.h"
#include "nn/run/run_folder.h"
#include "nn/train/cost/memory.h"
#include "nn/train/evaluate.h"
#include "nn/train/score.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

struct ScoreArguments {
  std::string run, weights = nn::RunFolder::kState, prompt, text, save;
  std::int64_t stride = 0;
};

constexpr Column kTokenColumns[] = {{"position", "position"},
                                    {"token"},
                                    {"", "token"},
                                    {"id"},
                                    {"log_probability", "log p", "nats", "{:.4f}"},
                                    {"rank", "rank"},
                                    {"entropy", "entropy", "nats", "{:.4f}"},
                                    {"alternative"},
                                    {"", "alternative"},
                                    {"alternative_log_probability", "its log p", "", "{:.4f}"}};
constexpr Column kTotalKeys[] = {{"tokens"},     {"log_probability"},    {"loss"},
                                 {"perplexity"}, {"bits_per_character"}, {"bits_per_byte"}};
constexpr Column kScoreKeys[] = {
    {"run"},  {"weights"}, {"seconds"}, rows("tokens", kTokenColumns), fields("total", kTotalKeys),
    {"files"}};

// The scores of a sequence of tokens, which are collected window by window.
struct Scores {
  const nn::TaskInfo& info;
  Table table{kTokenColumns};
  double log_probability = 0;  // sum over the targets
  std::int64_t targets = 0;
  nn::TextSize size = {};               // of the targets
  std::vector<nn::Tensor> logits = {};  // [n, classes] each; row i predicts the token i + 1

  void add(std::int64_t id, const std::optional<nn::TokenScore>& s) {
    std::vector<Value> cells = {table.rows.size()};
    const auto add_token = [&](std::int64_t token) {
      cells.emplace_back(info.vocabulary.symbols()[std::size_t(token)]);
      cells.emplace_back(plot::token_text(info.vocabulary.label(token)));
    };
    add_token(id);
    cells.emplace_back(id);
    if (s) {
      cells.insert(cells.end(), {s->log_probability, s->rank, s->entropy});
      add_token(s->alternative);
      cells.emplace_back(s->alternative_log_probability);
    }
    cells.resize(std::size(kTokenColumns));
    table.add(std::move(cells));
    if (!s) return;
    log_probability += s->log_probability;
    ++targets;
    if (!info.data.empty()) size.add(info.vocabulary, id);
  }
};

// Scores a prompt, which is one sequence. A token that the model never predicts, such as BOS, has
// no score.
void score_prompt(Scores& scores, const nn::LoadedRun& run, const ScoreArguments& a) {
  nn::Batch batch = run.task->prompt(a.prompt);
  const auto ids = batch.inputs.to_vector<std::int64_t>();
  const std::int64_t context = run.model.options.context;
  if (std::ssize(ids) > context)
    usage_error(
        "--prompt has {} tokens, and the context of the run is {}; write it to a file and give "
        "it as --text",
        ids.size(), context);
  if (ids.size() < 2)
    usage_error(
        "--prompt '{}' is one token, and the first token has no prediction; give at least 2",
        a.prompt);
  // The targets of a task are not always next tokens: in `recall`, those of queries are values.
  std::vector<std::int64_t> targets(ids.begin() + 1, ids.end());
  targets.push_back(nn::kIgnored);
  for (std::int64_t& target : targets)
    if (target >= run.task->info().classes) target = nn::kIgnored;
  batch.targets = autograd::from_data(targets, batch.inputs.shape());
  const nn::BatchScores all = past_input_checks([&] { return nn::score(run.model, batch); });
  scores.add(ids[0], {});
  for (std::size_t t = 1; t < ids.size(); ++t) scores.add(ids[t], all.targets[t - 1]);
  scores.logits.push_back(select(all.logits, 0, 0));
}

// Scores a text file in the windows of heed eval.
void score_windows(Scores& scores, const nn::LoadedRun& run, const nn::Task& task, bool save) {
  const std::int64_t chunk = nn::evaluation_chunk(run.model, task.info());
  const std::int64_t size = task.evaluation_size();
  Progress progress(false);
  for (std::int64_t first = 0; first < size; first += chunk) {
    progress.at_work(fmt::format("Scoring: {} of {} windows", first, size));
    const nn::Batch batch = task.evaluation(first, std::min(chunk, size - first));
    const nn::BatchScores all = past_input_checks([&] { return nn::score(run.model, batch); });
    if (first == 0) scores.add(std::int64_t(batch.inputs.at({0, 0})), {});
    const std::int64_t length = batch.inputs.size(1);
    for (std::int64_t b = 0; b < batch.inputs.size(0); ++b) {
      std::int64_t counted = 0, last = 0;  // number of targets; the position after the last one
      for (std::int64_t t = 0; t < length; ++t)
        if (const auto& s = all.targets[std::size_t(b * length + t)])
          scores.add(s->id, s), ++counted, last = t + 1;
      if (save)
        scores.logits.push_back(
            contiguous(slice(select(all.logits, 0, b), 0, last - counted, last)));
    }
  }
}

// Throws UsageError if the text has more tokens than the table may have rows, or if the logits of
// --save need more memory than is available.
void check_text(const nn::Task& task, const nn::LoadedRun& run, const ScoreArguments& a,
                std::int64_t stride) {
  constexpr std::int64_t kMost = 250'000;  // --json takes 3 kB of memory per token
  const std::int64_t least = (task.evaluation_size() - 1) * stride + 1;  // tokens
  if (least > kMost)
    usage_error(
        "--text '{}' has at least {} tokens, and heed score accepts {}; use a part of it, "
        "or heed eval",
        a.text, with_commas(least), with_commas(kMost));
  // The logits of all windows, and the same in one tensor.
  const double bytes = 2 * double(least) * double(task.info().classes) *
                       double(autograd::element_size(run.model.options.attention.dtype));
  if (!a.save.empty() && bytes > nn::available_memory())
    usage_error(
        "--save needs about {} of memory for the logits, and {} are available; use a part "
        "of the text",
        bytes_text(bytes), bytes_text(nn::available_memory()));
}

Report score(const ScoreArguments& a) {
  if (!a.save.empty()) check_weights_out("--save", a.save);
  const std::filesystem::path folder = find_run(a.run);
  const nn::LoadedRun run = open_run(folder, a.weights, nn::Use::kPrompts);
  const Stopwatch clock;
  Scores scores{run.task->info()};
  if (a.text.empty()) {
    score_prompt(scores, run, a);
  } else {
    check_text_run(run.config, "--text");
    nn::TextOptions o = nn::text_options(run.config);
    o.path = a.text, o.by_line = false, o.stride = a.stride, o.answer_after.clear();
    const auto task = nn::make_whole_text(o, run.task->info().vocabulary);
    print_note(*task);
    check_text(*task, run, a, a.stride > 0 ? a.stride : o.context);
    score_windows(scores, run, *task, !a.save.empty());
  }
  const nn::TextQuality quality = nn::text_quality(-scores.log_probability, scores.size);
  const double loss = -scores.log_probability / double(scores.targets);
  Report report(kScoreKeys);
  report.line("{} ({}), {}{}", folder.string(), run.config.task, run.weights,
              a.text.empty() ? "" : ", on " + a.text);
  report.set("run", folder.string());
  report.set("weights", run.weights);
  report.set("seconds", clock.seconds());
  Table& table = report.table("tokens");
  table.rows = std::move(scores.table.rows);
  if (!a.text.empty()) table.shown = 20;
  report.set("total", object_of(kTotalKeys,
                                {scores.targets, scores.log_probability, loss, quality.perplexity,
                                 quality.bits_per_character, quality.bits_per_byte}));
  report.line("total log p {:.4f} nats over {}, {:.4f} nats per token{}", scores.log_probability,
              counted(scores.targets, "token"), loss,
              quality.perplexity ? fmt::format(", perplexity {:.4f}", *quality.perplexity) : "");
  if (a.save.empty()) {
    report.files({});
  } else {
    nn::save_safetensors(a.save, {{"logits", autograd::cat(scores.logits, 0)}});
    report.files({a.save});
  }
  return report;
}

constexpr const char* kScoreNotes =
    R"(Each row is a token and its prediction from the tokens before it: log p is its log-probability
(nats), rank is 1 if it is the most probable token, entropy is that of the predicted distribution,
and alternative is the most probable other token. The first token has no prediction. In a prompt
every later token is scored, also where the task of the run has no target and so trained nothing.

A text is scored in the windows of heed eval --text, so the total loss is that of heed eval with
the same --stride. It may have 250,000 tokens. --csv and --json print all of its rows. Row t of
the logits in --save predicts token t + 1.)";

}  // namespace

void score_command(Command& c) {
  c.name = "score", c.what = "the log-probability of each token of a prompt or a text";
  c.examples =
      "  heed score runs/first --prompt abcdabcd\n"
      "  heed score runs/first --prompt abcdabcd --save logits.safetensors\n"
      "  heed score runs/text-1 --text FILE --stride 32 --csv";
  c.notes = kScoreNotes;
  auto a = std::make_shared<ScoreArguments>();
  c.arguments = 1;
  c.add("Options", {run_setting(a->run),
                    {"prompt", a->prompt, "TEXT", "text to score, in the characters of the task"},
                    {"text", a->text, "FILE", "text file to score, for runs on a text"},
                    nn::Setting("stride", a->stride, {1, 65536},
                                "tokens from a window of the text to the next, as in heed eval")
                        .shows("the context"),
                    {"save", a->save, "FILE", "write the logits [T, V] to this .safetensors file"},
                    {"weights", a->weights, "FILE", "weights file in the run directory"}});
  c.add_common(Command::kAll | Command::kCsv);
  const auto run = [a](const Command&) { return score(*a); };
  c.modes = {{.key = "prompt",
              .accepts = c.only({"run", "save", "weights"}),
              .result = kScoreKeys,
              .run = run},
             {.key = "text",
              .accepts = c.only({"run", "stride", "save", "weights"}),
              .result = kScoreKeys,
              .run = run}};
}

}  // namespace heed
