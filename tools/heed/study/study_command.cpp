// heed study: attention and its gradients on one sequence, as pictures, arrays and numbers.
#include <algorithm>
#include <filesystem>
#include <future>
#include <sstream>

#include "autograd/base/text.h"
#include "nn/io/safetensors.h"
#include "nn/study/study.h"
#include "nn/train/run_folder.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/study/compare_runs.h"
#include "tools/heed/study/over_time.h"
#include "tools/heed/study/report.h"
#include "tools/heed/study/study_export.h"
#include "tools/heed/study/study_folder.h"
#include "tools/heed/study/study_pictures.h"

namespace heed {
namespace {

struct StudyArguments {
  std::string run, other, weights = "model.safetensors", prompt, of = "loss", out, head;
  std::optional<StudyExport> form;
  std::string at;
  std::int64_t sample = 0;
  bool ascii = false, overwrite = false, over_time = false;
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

// Of "3" or "3,5".
std::vector<std::int64_t> positions_of(const std::string& text, std::int64_t length) {
  std::vector<std::int64_t> positions;
  std::istringstream list(text);
  for (std::string one; std::getline(list, one, ',');) {
    const auto position = autograd::parse_number<std::int64_t>(one);
    if (!position || *position < 0 || *position >= length)
      usage_error("--at: needs 0 to {}, or several as 0,1; got '{}'", length - 1, one);
    positions.push_back(*position);
  }
  return positions;
}

// loss, logit:C or diff:A-B; a token may be '-' itself.
nn::Objective objective_of(const StudyArguments& a, const nn::TaskFacts& facts,
                           std::int64_t length) {
  nn::Objective o;
  if (!a.at.empty()) o.positions = positions_of(a.at, length);
  if (a.of == "loss") return o;
  if (a.at.empty()) o.positions = {length - 1};
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
  const std::string places = places_text(o.positions);
  if (o.kind == nn::Objective::kLoss)
    return o.positions.empty() ? "the loss" : "the loss at " + places;
  const std::string a = facts.vocabulary.label(o.a), b = facts.vocabulary.label(o.b);
  const std::string what = o.kind == nn::Objective::kLogit ? "logit:" + a : "diff:" + a + "-" + b;
  return fmt::format("{} at {}", what, places);
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
  return one;
}

constexpr const char* kArrays = "arrays.safetensors";

nn::Json heads_json(const nn::Study& s) {
  nn::Json heads = nn::Json::array();
  for (const nn::HeadReport& h : s.heads) {
    nn::Json one = nn::Json::object({{"layer", h.layer}, {"head", h.head}});
    for (const nn::HeadQuantity& q : nn::head_quantities()) one[std::string(q.name)] = h.*q.value;
    heads.push_back(one);
  }
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

// The head that --head names, if any.
std::optional<HeadName> chosen_head(const StudyArguments& a, const Command& c,
                                    const nn::Transformer& model) {
  if (!c.given("head")) return {};
  const std::int64_t layers = model.options.layers, heads = model.options.heads;
  const auto head = parse_head(a.head);
  if (!head || head->layer < 0 || head->layer >= layers || head->head < 0 || head->head >= heads)
    usage_error("--head: needs L0H0 to {}, got '{}'", HeadName{layers - 1, heads - 1}.text(),
                a.head);
  return head;
}

// What has no effect beside --`what`.
void refuse_beside(const char* what, std::initializer_list<const char*> others, const Command& c) {
  for (const char* other : others)
    if (c.given(other)) usage_error("--{} has no effect with --{}; leave out one", other, what);
}

int run_study(const StudyArguments& a, const Command& c) {
  if (a.over_time) {
    refuse_beside("over-time",
                  {"other", "prompt", "sample", "of", "at", "weights", "head", "export", "ascii"},
                  c);
    return study_over_time({a.run, a.out, a.overwrite, c.json});
  }
  if (c.given("other")) refuse_beside("other", {"head", "export", "ascii"}, c);
  if (a.ascii && c.json) usage_error("--json prints one JSON object; --ascii goes without it");
  if (c.given("prompt") && c.given("sample"))
    usage_error("--prompt and --sample both name a sequence; give one");
  const std::filesystem::path folder = find_run(a.run);
  const nn::LoadedRun run =
      open_run(folder, a.weights, c.given("prompt") ? nn::Use::kPrompts : nn::Use::kSequences);
  const nn::TaskFacts& facts = run.task->facts();
  const std::optional<HeadName> head = chosen_head(a, c, run.model);
  const nn::Batch one = chosen_sequence(a, c, *run.task);
  const auto ids = one.inputs.to_vector<std::int64_t>();
  const auto length = std::int64_t(ids.size());
  const nn::Objective objective = objective_of(a, facts, length);
  if (c.given("other"))
    return compare_runs({folder, run, one, objective, words_of(objective, facts), a.other,
                         a.weights, a.out, a.overwrite, c.json});
  Progress progress(false);
  progress.at_work("runs the model forward and backward");
  const nn::Study s = nn::study(run.model, one, objective);
  if (!std::isfinite(s.value)) throw autograd::NumericError("study: the objective is not finite");

  const std::string of = words_of(objective, facts);
  std::vector<std::string> labels;
  for (const std::int64_t id : ids) labels.push_back(facts.vocabulary.label(id));
  const std::filesystem::path out = study_folder(a.out, folder / "study", kArrays, a.overwrite);
  make_folder(out);
  const std::filesystem::path arrays = out / kArrays;
  const PictureSource source = source_of(folder, run.model);
  const StudyWords words = study_words(source, objective, labels, facts);
  progress.at_work("draws, and writes the arrays");
  // Hundreds of megabytes at 8 layers of T = 512: written while the pictures are drawn.
  std::future<void> saved = std::async(std::launch::async, [&] {
    std::map<std::string, std::string> more = words.metadata();
    more["objective"] = of;
    more["tokens"] = facts.vocabulary.decode(ids);
    more["value"] = fmt::format("{:.17g}", s.value);
    nn::save_safetensors(arrays.string(), s.arrays, more);
  });
  std::vector<std::filesystem::path> files = draw_study(out, s.arrays, words, source, head);
  progress.at_work("follows the gradient's routes");
  const ReportPane pane{source, words, one, objective};
  files.push_back(write_report(out, fmt::format("{}: {}", source.run_name(), words.objective),
                               {pane_now(pane, run.model, s, run.step)}, nn::Json::array()));
  saved.get();
  files.push_back(arrays);
  if (a.form)
    for (const auto& file : export_study(out, s.arrays, *a.form)) files.push_back(file);
  progress.clear();

  nn::Json names = nn::Json::array();
  for (const auto& file : files) names.push_back(file.string());
  if (c.json) {
    print_json(nn::Json::object({{"run", folder.string()},
                                 {"objective", of},
                                 {"value", s.value},
                                 {"tokens", facts.vocabulary.decode(ids)},
                                 {"heads", heads_json(s)},
                                 {"files", names}}));
    return kOk;
  }
  print("{}: {} = {:.6f} on {} tokens\n\n", folder.string(), of, s.value, length);
  print_heads(s);
  if (a.ascii) print_ascii(s, labels);
  print("\n");
  for (const auto& name : names.items()) print("{}\n", name.text());
  return kOk;
}

}  // namespace

void study_command(Command& c) {
  c.name = "study", c.what = "attention and its gradients, head by head, on one sequence";
  c.json_keys[""] =
      "run objective value tokens heads (layer head entropy relative_entropy largest_weight "
      "previous_token duplicate_token induction detect_induction saturation importance "
      "absolute_importance dq dk dv dz dW_Q dW_K dW_V dW_O) files";
  c.json_keys["--over-time"] =
      "run sequences optimal_loss steps loss counted_loss heads (layer head entropy "
      "relative_entropy largest_weight previous_token duplicate_token induction detect_induction "
      "saturation importance absolute_importance dq dk dv dz dW_Q dW_K dW_V dW_O) layers (layer "
      "resid_pre_grad resid_post_grad) steepest_fall files";
  c.json_keys["A B"] =
      "runs objective values config heads (layer head a b) equal first_difference (step tensor "
      "index a b) files";
  c.examples =
      "  heed study\n"
      "  heed study --prompt abcab --of diff:c-d\n"
      "  heed study --of loss --at 20,21\n"
      "  heed study --sample 3 --ascii\n"
      "  heed study --head L1H0 --export csv\n"
      "  heed study runs/induction-1 --over-time\n"
      "  heed study runs/induction-1 runs/induction-2";
  c.notes =
      "Draws the weights A, dL/dA and dL/dS of every head (S: scores before the softmax), writes\n"
      "all arrays, with q, k, v, z and their gradients, to arrays.safetensors, and prints per "
      "head\n"
      "the entropy of its weights (nats) and the mean weight on the token before (previous), on\n"
      "earlier copies of the same token (duplicate) and on what followed them (induction).\n"
      "L is what --of names. Gradients' colors go by the root of the value; dL/dA is not 0 where\n"
      "the mask hides a key: what a weight would be worth does not ask whether it may exist. Such\n"
      "cells are hatched; in the other pictures what the mask hides is gray.\n"
      "--head draws one head large, with its numbers (weights_L1H0.png, ...). --export npy writes\n"
      "each array to npy/NAME.npy, --export csv the scores, weights and their gradients to\n"
      "cells.csv, one row per cell: quantity,layer,head,query,key,value. heed plot draws arrays.\n"
      "\n"
      "--over-time studies the loss at every checkpoint (heed train --save-every 10) on one batch\n"
      "of the evaluation set, and writes over-time/over_time.png, .json and .csv in the run. The\n"
      "CSV has a row per number: step,layer,head,quantity,value; losses and entropies are in "
      "nats;\n"
      "no head: of the layer, no layer: of the model.\n"
      "A second run is compared with the first on the same sequence: scores, maps of B minus A "
      "and\n"
      "compare.csv (layer,head,quantity,a,b,difference) in compared in the first run; and the "
      "first\n"
      "step, tensor and index at which a bit of their weights differs.";
  auto a = std::make_shared<StudyArguments>();
  c.arguments = 2;
  c.add("Options",
        {run_setting(a->run),
         nn::Setting("other", a->other, "DIR", "a second run, compared with the first").shows(""),
         nn::Setting("prompt", a->prompt, "TEXT", "the sequence").shows("the task's example"),
         nn::Setting("sample", a->sample, {0}, "the sequence: this one of the evaluation set")
             .shows(""),
         {"of", a->of, "WHAT", "L: loss (mean over the sequence), logit:C or diff:A-B"},
         nn::Setting("at", a->at, "POS,...", "places of the loss or logits, from 0, a BOS counted")
             .shows("all with a target, of logits the last"),
         nn::Setting("out", a->out, "DIR", "folder for the files")
             .shows("study in the run, the next free of study-2, ..."),
         nn::Setting("head", a->head, "LxHy", "one more picture of each kind: this head, large")
             .shows(""),
         {"export", a->form, "none", "the numbers in another form, too"},
         {"overwrite", a->overwrite, "replace the study that --out, or study in the run, holds"},
         {"weights", a->weights, "FILE", "weights inside the folder"},
         {"over-time", a->over_time, "every checkpoint of the run instead of one sequence"},
         {"ascii", a->ascii, "draw the weights in the terminal, too"}});
  c.settings[2].may_be_empty = true;
  c.add_common(Command::kAll);
  c.run = [a](const Command& command) { return run_study(*a, command); };
}

}  // namespace heed
