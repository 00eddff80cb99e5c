// heed study: attention and its gradients on one sequence, as pictures, arrays and numbers.
#include <algorithm>
#include <filesystem>
#include <future>
#include <map>

#include "autograd/base/text.h"
#include "nn/io/safetensors.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/study/interventions.h"
#include "tools/heed/study/run_differences.h"
#include "tools/heed/study/over_time.h"
#include "tools/heed/study/page_data.h"
#include "tools/heed/study/study_files.h"
#include "tools/heed/study/study_pictures.h"
#include "tools/heed/study/study_tables.h"

namespace heed {
namespace {

// ---- what is asked: a sequence, a scalar L of it, and what else to make of them

struct StudyArguments {
  std::string run, other, weights = nn::RunFolder::kModel, prompt, of = "loss", out, head;
  std::optional<StudyExport> form;
  std::string at;
  std::int64_t sample = 0;
  bool ascii = false, overwrite = false, over_time = false;
  InterventionArguments causes;
};

std::int64_t token_of(const nn::TaskInfo& info, const std::string& symbol) {
  const auto token = info.vocabulary.find(symbol);
  if (token && *token < info.classes) return *token;
  const auto& all = info.vocabulary.symbols();
  const nn::Vocabulary predicted({all.begin(), all.begin() + info.classes}, info.vocabulary.unit());
  usage_error("--of: '{}' is not one token that the model predicts; it predicts {}", symbol,
              predicted.summary());
}

// Of "3" or "3,5".
std::vector<std::int64_t> positions_of(const std::string& text, std::int64_t length) {
  std::vector<std::int64_t> positions;
  for (const std::string& one : heed::split(text, ',')) {
    const auto position = heed::parse_number<std::int64_t>(one);
    if (!position || *position < 0 || *position >= length)
      usage_error("--at: needs 0 to {}, or several as 0,1; got '{}'", length - 1, one);
    if (std::ranges::count(positions, *position) > 0)
      usage_error("--at: names {} twice", *position);
    positions.push_back(*position);
  }
  return positions;
}

// loss, logit:C or diff:A-B; a token may be '-' itself.
nn::Objective chosen_objective(const StudyArguments& a, const nn::TaskInfo& info,
                               std::int64_t length) {
  nn::Objective o;
  if (!a.at.empty()) o.positions = positions_of(a.at, length);
  if (a.of == "loss") return o;
  if (a.at.empty()) o.positions = {length - 1};
  if (a.of.starts_with("logit:")) {
    o.kind = nn::Objective::kLogit;
    o.a = token_of(info, a.of.substr(6));
    return o;
  }
  const std::string pair = a.of.starts_with("diff:") ? a.of.substr(5) : "";
  const std::size_t dash = pair.size() > 1 ? pair.find('-', 1) : std::string::npos;
  if (dash == std::string::npos || dash + 1 >= pair.size())
    usage_error("--of: '{}' is not loss, logit:C or diff:A-B; try --of diff:a-b", a.of);
  o.kind = nn::Objective::kDifference;
  o.a = token_of(info, pair.substr(0, dash));
  o.b = token_of(info, pair.substr(dash + 1));
  if (o.a == o.b)
    usage_error("--of: {} is 0 whatever the model does; name two different tokens", a.of);
  return o;
}

// The run, the sequence and L.
Subject chosen_subject(const StudyArguments& a, const Command& c) {
  const std::filesystem::path folder = find_run(a.run);
  const bool of_prompt = c.given("prompt") && !c.given("samples");
  const auto run = std::make_shared<nn::LoadedRun>(
      open_run(folder, a.weights, of_prompt ? nn::Use::kPrompts : nn::Use::kSequences));
  const nn::Task& task = *run->task;
  if (c.given("prompt") && c.given("sample"))
    usage_error("--prompt and --sample both name a sequence; give one");
  if (c.given("sample") && a.sample >= task.evaluation_size())
    usage_error("--sample: needs 0 to {}, got {}", task.evaluation_size() - 1, a.sample);
  nn::Generator generator(1);
  const nn::Batch one = c.given("prompt")   ? task.prompt(a.prompt)
                        : c.given("sample") ? without_padding(task.evaluation(a.sample, 1))
                                            : task.example(generator);
  const std::int64_t length = one.inputs.numel();
  if (length > task.info().context)
    usage_error("--prompt: {} tokens, the model reads {}", length, task.info().context);
  return Subject(folder, run, one, chosen_objective(a, task.info(), length));
}

// The head that --head names, if any.
std::optional<nn::HeadIndex> chosen_head(const StudyArguments& a, const Command& c,
                                         const nn::Transformer::Options& model) {
  if (!c.given("head")) return {};
  if (a.head == "all" || a.head.find(',') != std::string::npos)
    usage_error("--head: draws one head, as L1H0, got '{}'", a.head);
  return nn::parse_heads("--head", a.head, model.layers, model.attention.heads)[0];
}

// ---- the study of one sequence: its files

// What the arrays are, by the end of their names, to which _grad is added for dL/d(it).
nn::Json schema() {
  nn::Json all = nn::Json::object();
  for (const nn::ArrayQuantity& q : nn::array_quantities())
    all.append(std::string(q.site),
               nn::Json::object({{"title", q.title}, {"shape", q.shape}, {"what", q.what}}));
  return all;
}

void save_arrays(const std::filesystem::path& file, const Subject& s, const nn::Study& study) {
  std::map<std::string, std::string> more = s.words.metadata();
  more["objective"] = s.of();
  more["tokens"] = s.text();
  more["schema"] = schema().dump();
  more["value"] = fmt::format("{:.17g}", study.value);
  nn::save_safetensors(file.string(), to_named(study), more);
}

// The sequence, and beside it the corrupt one if there is one.
std::vector<PagePane> panes_of(const Subject& s, const nn::Study& study,
                               const std::string& corrupt) {
  if (corrupt.empty()) return {pane_of(s, study)};
  nn::Batch other = s.run->task->prompt(corrupt);
  other.targets = s.one.targets;  // as patching: one function of the logits
  const Subject corrupted(s.source.run, s.run, other, s.objective);
  return {pane_of(s, study, "clean prompt"),
          pane_of(corrupted, corrupted.study(), "corrupt prompt")};
}

std::vector<std::filesystem::path> write_study(const std::filesystem::path& out, const Subject& s,
                                               const nn::Study& study, const InterventionResults& causes,
                                               const StudyArguments& a,
                                               std::optional<nn::HeadIndex> head) {
  const std::filesystem::path arrays = out / "arrays.safetensors";
  // Hundreds of megabytes at 8 layers of T = 512: written while the
  // page is made and the pictures are drawn.
  auto saved = std::async(std::launch::async, [&] { save_arrays(arrays, s, study); });
  auto page = std::async(std::launch::async, [&] {
    return write_page(out, fmt::format("{}: {}", s.source.run_name(), s.words.objective),
                      panes_of(s, study, a.causes.corrupt), tables_json(causes.tables), head);
  });
  std::vector<std::filesystem::path> files = draw_study(out, study, s.words, s.source, head);
  const auto append = [&](const std::vector<std::filesystem::path>& more) {
    files.insert(files.end(), more.begin(), more.end());
  };
  append(causes.files);
  append({page.get()});
  saved.get();
  append({arrays});
  if (a.form) append(export_study(out, study, *a.form));
  return files;
}

// ---- and its result

// The weights as ten shades, query by key.
std::string drawn_weights(const nn::Study& s, const std::vector<std::string>& labels) {
  static constexpr char kShades[] = " .:-=+*#%@";
  std::string text;
  for (const nn::HeadReport& h : s.heads) {
    const nn::Tensor& pattern = s.layers[std::size_t(h.layer)].pattern;
    text += fmt::format("{}{}: each row a query, each column a key; darkest is 1\n",
                        text.empty() ? "" : "\n", nn::head_name(h));
    for (std::int64_t i = 0; i < pattern.size(2); ++i) {
      std::string line;
      for (std::int64_t j = 0; j <= i; ++j)
        line += kShades[std::clamp(int(float(pattern.at({0, h.head, i, j})) * 10), 0, 9)];
      text += fmt::format("{:>4} {}\n", labels[std::size_t(i)], line);
    }
  }
  return text;
}

Columns study_keys() {
  static const Column all[] = {{"run"},
                               {"objective"},
                               {"value"},
                               {"tokens"},
                               rows("heads", head_columns()),
                               fields("tables", kTableKeys),
                               {"files"}};
  return all;
}

Report study_one(const StudyArguments& a, const Command& c) {
  if (a.ascii && (c.json || c.csv))
    usage_error("--json and --csv print data alone; --ascii goes without them");
  const Subject s = chosen_subject(a, c);
  const auto head = chosen_head(a, c, s.model().options);
  const auto out = open_study_folder(a.out, s.source.run / "study", a.overwrite);
  Progress progress(false);
  progress.at_work("runs the model forward and backward");
  const nn::Study study = s.study();
  progress.at_work("looks for causes");
  const InterventionResults causes = run_interventions(a.causes, c, s, study, out->staging());
  progress.at_work("draws, and writes the arrays");
  const auto files = out->publish(write_study(out->staging(), s, study, causes, a, head));
  progress.clear();

  Report report(study_keys());
  report.set("run", s.folder());
  report.set("objective", s.of());
  report.set("value", study.value);
  report.set("tokens", s.text());
  report.set("tables", tables_json(causes.tables));
  report.line("{}: {} = {:.6f} on {} tokens", s.folder(), s.of(), study.value,
              s.words.tokens.size());
  add_heads(report.table("heads"), study);
  if (a.ascii) report.block(drawn_weights(study, s.words.tokens));
  for (const Table& table : causes.tables) report.text_table(table);
  report.files(files);
  return report;
}

constexpr const char* kExamples =
    R"(  heed study
  heed study --prompt abcab --of diff:c-d
  heed study --of loss --at 20,21
  heed study --sample 3 --ascii
  heed study --head L1H0 --export csv
  heed study --samples 64
  heed study --ablate all --samples 64
  heed study --prompt abcdefghab --corrupt abdcefghab --of diff:c-d --attribute
  heed study runs/induction-1 --over-time
  heed study runs/induction-1 runs/induction-2)";

constexpr const char* kNotes =
    R"(Draws the weights A, dL/dA and dL/dS of every head (S: scores before the softmax), writes
all arrays, with q, k, v, z and their gradients, to arrays.safetensors (heed info lists them; its
metadata "schema" says what each is and its shape), and prints per head the entropy of its weights
(nats) and the mean weight on the token before (prev), on earlier copies of the same token (dup)
and on what followed them (ind); and what L is more by without the head (its output 0), marked *
where that is not what the gradient says. report.html is the whole study as one page, which a
browser opens from disk.

L is what --of names.

Gradients' colors go by the root of the value; dL/dA is not 0 where the mask hides a key: what a
weight would be worth does not ask whether it may exist. Such cells are hatched; in the other
pictures what the mask hides is gray.

--head draws one head large, with its numbers (weights_L1H0.png, ...). --export npy writes each
array to npy/NAME.npy, --export csv the scores, weights and their gradients to cells.csv, one
row per cell: quantity,layer,head,query,key,value. heed plot draws arrays.

A gradient is what a small change does. --ablate, --corrupt and --attribute measure what a large
one does, and print it beside the gradient's estimate; --corrupt draws patching.png.

--over-time studies the loss at every checkpoint (heed train --save-every 10) on one batch of
the evaluation set, and writes over-time/over_time.png, .json and .csv in the run. The CSV has a
row per number: step,layer,head,quantity,value; losses and entropies are in nats; no head: of
the layer, no layer: of the model.

A second run is compared with the first on the same sequence: scores, maps of B minus A and
compare.csv (layer,head,quantity,a,b,difference) in compared in the first run; and the first
step, tensor and index at which a bit of their weights differs.)";

}  // namespace

void study_command(Command& c) {
  c.name = "study", c.what = "attention and its gradients, head by head, on one sequence";
  c.examples = kExamples, c.notes = kNotes;
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
  c.add("InterventionResults", intervention_settings(a->causes));
  c.add_common(Command::kAll | Command::kCsv);
  c.modes = {{.key = "over-time",
              .accepts = c.only({"run", "out", "overwrite"}),
              .result = over_time_keys(),
              .run = [a](const Command&) { return study_over_time(a->run, a->out, a->overwrite); }},
             {.key = "other",
              .accepts = c.all_but({"over-time", "head", "export", "ascii", "ablate", "ablation",
                                    "samples", "corrupt", "attribute"}),
              .result = comparison_keys(),
              .run =
                  [a](const Command& command) {
                    return run_differences(chosen_subject(*a, command), a->other, a->weights, a->out,
                                        a->overwrite);
                  }},
             {.accepts = c.all_but({"over-time"}),
              .result = study_keys(),
              .run = [a](const Command& command) { return study_one(*a, command); }}};
}

}  // namespace heed
