// heed study: attention and its gradients on one sequence, as pictures, arrays and numbers.
#include <algorithm>
#include <filesystem>
#include <future>

#include "nn/io/safetensors.h"
#include "nn/study/study.h"
#include "nn/train/run_folder.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/study/causes.h"

namespace heed {
namespace {

struct StudyArguments {
  std::string run, weights = "model.safetensors", prompt, of = "loss", out;
  std::int64_t sample = 0, at = 0;
  bool ascii = false, overwrite = false;
  CauseArguments causes;
};

std::int64_t token_of(const nn::TaskFacts& facts, const std::string& symbol) {
  const auto& all = facts.vocabulary.symbols();
  const std::vector<std::string> predicted(all.begin(), all.begin() + facts.classes);
  const auto found = std::find(predicted.begin(), predicted.end(), symbol);
  if (found == predicted.end())
    usage_error("--of: '{}' is not one token that the model predicts; it predicts {}", symbol,
                nn::Vocabulary(predicted, facts.vocabulary.unit()).summary());
  return found - predicted.begin();
}

// loss, logit:C or diff:A-B; a token may be '-' itself.
nn::Objective objective_of(const StudyArguments& a, const nn::TaskFacts& facts,
                           std::int64_t position) {
  nn::Objective o;
  if (a.of == "loss") return o;
  o.positions = {position};
  if (a.of.starts_with("logit:")) {
    o.kind = nn::Objective::kLogit;
    o.a = token_of(facts, a.of.substr(6));
    return o;
  }
  const std::string pair = a.of.starts_with("diff:") ? a.of.substr(5) : "";
  const std::size_t dash = pair.size() > 1 ? pair.find('-', 1) : std::string::npos;
  if (dash == std::string::npos || dash + 1 >= pair.size())
    usage_error("--of: '{}' is not loss, logit:C or diff:A-B; try --of diff:a-b", a.of);
  o.kind = nn::Objective::kDifference;
  o.a = token_of(facts, pair.substr(0, dash));
  o.b = token_of(facts, pair.substr(dash + 1));
  if (o.a == o.b)
    usage_error("--of: {} is 0 whatever the model does; name two different tokens", a.of);
  return o;
}

std::string words_of(const nn::Objective& o, const nn::TaskFacts& facts) {
  if (o.kind == nn::Objective::kLoss) return "the loss";
  const std::string a = facts.vocabulary.label(o.a), b = facts.vocabulary.label(o.b);
  const std::string what = o.kind == nn::Objective::kLogit ? "logit:" + a : "diff:" + a + "-" + b;
  return fmt::format("{} at {}", what, o.positions.at(0));
}

// The weights as ten shades, query by key.
void print_ascii(const nn::Study& s, const std::vector<std::string>& labels) {
  static constexpr char kShades[] = " .:-=+*#%@";
  for (const nn::NamedTensor& array : s.arrays) {
    if (!array.name.ends_with("hook_pattern")) continue;
    const nn::Tensor x = to(array.tensor, autograd::float32);
    const auto values = x.to_vector<float>();
    const auto n = std::size_t(x.size(2));
    const std::string layer = array.name.substr(7, array.name.find('.', 7) - 7);
    for (std::size_t head = 0; head < std::size_t(x.size(1)); ++head) {
      print("\nL{}H{}: each row a query, each column a key; darkest is 1\n", layer, head);
      for (std::size_t i = 0; i < n; ++i) {
        std::string line;
        for (std::size_t j = 0; j <= i; ++j) {
          const float weight = values[(head * n + i) * n + j];
          line += kShades[std::clamp(int(weight * 10), 0, 9)];
        }
        print("{:>4} {}\n", labels[i], line);
      }
    }
  }
}

std::string score_text(double x) { return std::isfinite(x) ? fmt::format("{:.3f}", x) : "-"; }

// The sequence that was asked for, checked.
nn::Batch chosen_sequence(const StudyArguments& a, const Command& c, const nn::Task& task) {
  if (c.given("sample") && a.sample >= task.evaluation_size())
    usage_error("--sample: needs 0 to {}, got {}", task.evaluation_size() - 1, a.sample);
  nn::Generator generator(1);
  nn::Batch one = c.given("prompt")   ? task.prompt(a.prompt)
                  : c.given("sample") ? without_padding(task.evaluation(a.sample, 1))
                                      : task.example(generator);
  const std::int64_t length = one.inputs.numel();
  if (length > task.facts().context)
    usage_error("--prompt: {} tokens, the model reads {}", length, task.facts().context);
  if (c.given("at") && a.of == "loss") usage_error("--at goes with --of logit:C or diff:A-B");
  if (c.given("at") && a.at >= length) usage_error("--at: needs 0 to {}, got {}", length - 1, a.at);
  return one;
}

constexpr const char* kArrays = "arrays.safetensors";

// Where a study goes: as a run's --out, a folder that holds one already is not replaced unasked;
// without --out it is the next free one of study, study-2, ... in the run.
std::filesystem::path folder_of(const StudyArguments& a, const std::filesystem::path& run) {
  const auto is_free = [](const std::filesystem::path& folder) {
    std::error_code ignored;
    return !std::filesystem::exists(folder / kArrays, ignored);
  };
  std::filesystem::path folder = a.out.empty() ? run / "study" : std::filesystem::path(a.out);
  if (a.overwrite || is_free(folder)) return folder;
  if (!a.out.empty())
    usage_error(
        "--out {} holds a study already; choose another folder, or replace it with "
        "--overwrite",
        a.out);
  for (int n = 2; !is_free(folder); ++n) folder = run / fmt::format("study-{}", n);
  return folder;
}

nn::Json heads_json(const nn::Study& s) {
  nn::Json heads = nn::Json::array();
  for (const nn::HeadReport& h : s.heads)
    heads.push_back(nn::Json::object({{"layer", h.layer},
                                      {"head", h.head},
                                      {"entropy", h.entropy},
                                      {"previous_token", h.previous_token},
                                      {"duplicate_token", h.duplicate_token},
                                      {"induction", h.induction},
                                      {"dq", h.dq},
                                      {"dk", h.dk},
                                      {"dv", h.dv}}));
  return heads;
}

void print_heads(const nn::Study& s) {
  print("{:<6} {:>8} {:>9} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "head", "entropy", "previous",
        "duplicate", "induction", "|dL/dq|", "|dL/dk|", "|dL/dv|");
  for (const nn::HeadReport& h : s.heads)
    print("L{}H{:<4} {:>7.3f} {:>9} {:>10} {:>10} {:>10.3g} {:>10.3g} {:>10.3g}\n", h.layer, h.head,
          h.entropy, score_text(h.previous_token), score_text(h.duplicate_token),
          score_text(h.induction), h.dq, h.dk, h.dv);
  const bool unscored = std::any_of(s.heads.begin(), s.heads.end(), [](const nn::HeadReport& h) {
    return !std::isfinite(h.previous_token + h.duplicate_token + h.induction);
  });
  if (unscored) print("-: nothing to measure, as no token occurs twice here\n");
}

int run_study(const StudyArguments& a, const Command& c) {
  if (a.ascii && c.json) usage_error("--json prints one JSON object; --ascii goes without it");
  if (c.given("prompt") && c.given("sample"))
    usage_error("--prompt and --sample both name a sequence; give one");
  const std::filesystem::path folder = find_run(a.run);
  const bool sequences = !c.given("prompt") || c.given("samples");
  const nn::LoadedRun run =
      open_run(folder, a.weights, sequences ? nn::Use::kSequences : nn::Use::kPrompts);
  const nn::TaskFacts& facts = run.task->facts();
  const nn::Batch one = chosen_sequence(a, c, *run.task);
  const auto ids = one.inputs.to_vector<std::int64_t>();
  const auto length = std::int64_t(ids.size());
  const nn::Objective objective = objective_of(a, facts, c.given("at") ? a.at : length - 1);
  Progress progress(false);
  progress.at_work("runs the model forward and backward");
  const nn::Study s = nn::study(run.model, one, objective);
  if (!std::isfinite(s.value)) throw autograd::NumericError("study: the objective is not finite");
  progress.at_work("looks for causes");
  const Causes causes = study_causes(a.causes, c, run, one, objective);

  const std::string of = words_of(objective, facts);
  std::vector<std::string> labels;
  for (const std::int64_t id : ids) labels.push_back(facts.vocabulary.label(id));
  const std::filesystem::path out = folder_of(a, folder);
  make_folder(out);
  const std::filesystem::path arrays = out / kArrays;
  progress.at_work("draws, and writes the arrays");
  // Hundreds of megabytes at 8 layers of T = 512: written while the pictures are drawn.
  std::future<void> saved = std::async(std::launch::async, [&] {
    nn::save_safetensors(arrays.string(), s.arrays,
                         {{"objective", of},
                          {"tokens", facts.vocabulary.decode(ids)},
                          {"value", fmt::format("{:.17g}", s.value)}});
  });
  std::vector<std::filesystem::path> files = draw_study(out, s, objective, labels, facts);
  for (const auto& file : draw_causes(out, causes)) files.push_back(file);
  saved.get();
  progress.clear();

  nn::Json names = nn::Json::array();
  for (const auto& file : files) names.push_back(file.string());
  names.push_back(arrays.string());
  if (c.json) {
    print_json(nn::Json::object({{"run", folder.string()},
                                 {"objective", of},
                                 {"value", s.value},
                                 {"tokens", facts.vocabulary.decode(ids)},
                                 {"heads", heads_json(s)},
                                 {"tables", tables_json(causes.tables)},
                                 {"files", names}}));
    return kOk;
  }
  print("{}: {} = {:.6f} on {} tokens\n\n", folder.string(), of, s.value, length);
  print_heads(s);
  if (a.ascii) print_ascii(s, labels);
  for (const Table& table : causes.tables) print("\n{}", table_text(table));
  print("\n");
  for (const auto& name : names.items()) print("{}\n", name.text());
  return kOk;
}

}  // namespace

void study_command(Command& c) {
  c.name = "study", c.what = "attention and its gradients, head by head, on one sequence";
  c.json_keys[""] =
      "run objective value tokens heads (layer head entropy previous_token duplicate_token "
      "induction dq dk dv) tables (title what columns (name unit) rows) files";
  c.examples =
      "  heed study\n"
      "  heed study --prompt abcab --of diff:c-d\n"
      "  heed study --sample 3 --ascii\n"
      "  heed study --ablate all --samples 64\n"
      "  heed study --prompt abcdefabcd --corrupt abcdefabxd --of diff:e-f --attribute";
  c.notes =
      "Draws the weights A, dL/dA and dL/dS of every head (S: scores before the softmax), writes\n"
      "all arrays, with q, k, v, z and their gradients, to arrays.safetensors, and prints per "
      "head\n"
      "the entropy of its weights (nats) and the mean weight on the token before (previous), on\n"
      "earlier copies of the same token (duplicate) and on what followed them (induction).\n"
      "L is what --of names. Gradients' colors go by the root of the value; dL/dA is not 0 where\n"
      "the mask hides a key: what a weight would be worth does not ask whether it may exist.\n"
      "A gradient is what a small change does. --ablate, --corrupt and --attribute measure what a\n"
      "large one does, and print it beside the gradient's estimate; --corrupt draws patching.png.";
  auto a = std::make_shared<StudyArguments>();
  c.arguments = 1;
  c.add("Options",
        {run_setting(a->run),
         nn::Setting("prompt", a->prompt, "TEXT", "the sequence").shows("the task's example"),
         nn::Setting("sample", a->sample, {0}, "the sequence: this one of the evaluation set")
             .shows(""),
         {"of", a->of, "WHAT", "L: loss (mean over the sequence), logit:C or diff:A-B"},
         nn::Setting("at", a->at, {0}, "place of the logits, from 0, a BOS counted")
             .shows("the last"),
         nn::Setting("out", a->out, "DIR", "folder for the files")
             .shows("study in the run, the next free of study-2, ..."),
         {"overwrite", a->overwrite, "replace the study that --out, or study in the run, holds"},
         {"weights", a->weights, "FILE", "weights inside the folder"},
         {"ascii", a->ascii, "draw the weights in the terminal, too"}});
  c.add("Causes", cause_settings(a->causes));
  c.settings[1].may_be_empty = true;
  c.add_common(Command::kAll);
  c.run = [a](const Command& command) { return run_study(*a, command); };
}

}  // namespace heed
