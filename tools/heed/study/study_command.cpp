// heed study: attention and its gradients on one sequence, as pictures, arrays and numbers.
#include <filesystem>
#include <future>
#include <map>

#include "nn/io/safetensors.h"
#include "nn/run/run_folder.h"
#include "nn/study/study.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/study/compare_runs.h"
#include "tools/heed/study/over_time.h"
#include "tools/heed/study/report.h"
#include "tools/heed/study/study_arguments.h"
#include "tools/heed/study/study_folder.h"
#include "tools/heed/study/study_pictures.h"
#include "tools/heed/study/study_text.h"

namespace heed {
namespace {

constexpr const char* kArrays = "arrays.safetensors";

// What has no effect beside --`what`.
void refuse_beside(const char* what, std::initializer_list<const char*> others, const Command& c) {
  for (const char* other : others)
    if (c.given(other)) usage_error("--{} has no effect with --{}; leave out one", other, what);
}

// A run on one sequence, and what was found there.
struct Found {
  const nn::LoadedRun& run;
  const nn::Batch& one;
  const nn::Objective& objective;
  nn::Study study;
  std::vector<nn::Effect> cuts;
  Causes causes;
  std::vector<std::string> labels;
};

// What the arrays are, by the end of their names, to which _grad is added for dL/d(it).
nn::Json schema() {
  nn::Json all = nn::Json::object();
  for (const nn::ArrayQuantity& q : nn::array_quantities())
    all.append(std::string(q.site),
               nn::Json::object({{"title", q.title}, {"shape", q.shape}, {"what", q.what}}));
  return all;
}

// The page: the sequence, and beside it the corrupt one if there is one.
std::filesystem::path write_page(const std::filesystem::path& out, const Found& f,
                                 const PictureSource& source, const StudyWords& words,
                                 const std::string& corrupt, std::optional<nn::HeadIndex> head) {
  std::vector<nn::Json> panes{
      pane_now({source, words, f.one, f.objective, corrupt.empty() ? "" : "clean prompt"},
               f.run.model, f.study, f.run.step, f.cuts)};
  if (!corrupt.empty()) {
    nn::Batch other = f.run.task->prompt(corrupt);
    other.targets = f.one.targets;  // as patching: one function of the logits
    StudyWords its_words = words;
    its_words.tokens =
        f.run.task->facts().vocabulary.labels(other.inputs.to_vector<std::int64_t>());
    panes.push_back(pane_now({source, its_words, other, f.objective, "corrupt prompt"}, f.run.model,
                             nn::study(f.run.model, other, f.objective), f.run.step,
                             cut_heads(f.run.model, other, f.objective)));
  }
  return write_report(out, fmt::format("{}: {}", source.run_name(), words.objective), panes,
                      tables_json(f.causes.tables), head);
}

std::vector<std::filesystem::path> write_study(const std::filesystem::path& out, const Found& f,
                                               const StudyArguments& a, const PictureSource& source,
                                               std::optional<nn::HeadIndex> head) {
  const nn::TaskFacts& facts = f.run.task->facts();
  const StudyWords words = study_words(source, f.objective, f.labels, facts);
  const std::filesystem::path arrays = out / kArrays;
  // Hundreds of megabytes at 8 layers of T = 512: written while the
  // page is made and the pictures are drawn.
  std::future<void> saved = std::async(std::launch::async, [&] {
    std::map<std::string, std::string> more = words.metadata();
    more["objective"] = objective_text(f.objective, facts);
    more["tokens"] = facts.vocabulary.decode(f.one.inputs.to_vector<std::int64_t>());
    more["schema"] = schema().dump();
    more["value"] = fmt::format("{:.17g}", f.study.value);
    nn::save_safetensors(arrays.string(), to_named(f.study), more);
  });
  std::future<std::filesystem::path> page = std::async(std::launch::async, [&] {
    return write_page(out, f, source, words, a.causes.corrupt, head);
  });
  std::vector<std::filesystem::path> files = draw_study(out, f.study, words, source, head);
  for (const auto& file : draw_causes(out, f.causes, source)) files.push_back(file);
  files.push_back(page.get());
  saved.get();
  files.push_back(arrays);
  if (a.form)
    for (const auto& file : export_study(out, f.study, *a.form)) files.push_back(file);
  return files;
}

void tell(const std::filesystem::path& folder, const Found& f, const StudyArguments& a,
          const std::vector<std::filesystem::path>& files, bool json) {
  const nn::TaskFacts& facts = f.run.task->facts();
  const std::string of = objective_text(f.objective, facts);
  nn::Json names = nn::Json::array();
  for (const auto& file : files) names.push_back(file.string());
  if (json) {
    const auto ids = f.one.inputs.to_vector<std::int64_t>();
    print_json(nn::Json::object({{"run", folder.string()},
                                 {"objective", of},
                                 {"value", f.study.value},
                                 {"tokens", facts.vocabulary.decode(ids)},
                                 {"heads", heads_json(f.study, f.cuts)},
                                 {"tables", tables_json(f.causes.tables)},
                                 {"files", names}}));
    return;
  }
  print("{}: {} = {:.6f} on {} tokens\n\n", folder.string(), of, f.study.value, f.labels.size());
  print_heads(f.study, f.cuts);
  if (a.ascii) print_ascii(f.study, f.labels);
  for (const StudyTable& table : f.causes.tables) print("\n{}", table_text(table));
  print("\n");
  for (const auto& name : names.items()) print("{}\n", name.text());
}

int run_study(const StudyArguments& a, const Command& c) {
  if (a.over_time) {
    refuse_beside("over-time",
                  {"other", "prompt", "sample", "of", "at", "weights", "head", "export", "ascii",
                   "ablate", "ablation", "samples", "corrupt", "attribute"},
                  c);
    return study_over_time({a.run, a.out, a.overwrite, c.json});
  }
  if (c.given("other"))
    refuse_beside(
        "other",
        {"head", "export", "ascii", "ablate", "ablation", "samples", "corrupt", "attribute"}, c);
  if (a.ascii && c.json) usage_error("--json prints one JSON object; --ascii goes without it");
  if (c.given("prompt") && c.given("sample"))
    usage_error("--prompt and --sample both name a sequence; give one");
  const std::filesystem::path folder = find_run(a.run);
  const bool sequences = !c.given("prompt") || c.given("samples");
  const nn::LoadedRun run =
      open_run(folder, a.weights, sequences ? nn::Use::kSequences : nn::Use::kPrompts);
  const nn::TaskFacts& facts = run.task->facts();
  const std::optional<nn::HeadIndex> head = chosen_head(a, c, run.model);
  const nn::Batch one = chosen_sequence(a, c, *run.task);
  const nn::Objective objective = chosen_objective(a, facts, one.inputs.numel());
  if (c.given("other"))
    return compare_runs({folder, run, one, objective, objective_text(objective, facts), a.other,
                         a.weights, a.out, a.overwrite, c.json});
  const auto out = open_study_folder(a.out, folder / "study", a.overwrite);  // before the work
  Progress progress(false);
  progress.at_work("runs the model forward and backward");
  Found found{run, one, objective, nn::study(run.model, one, objective), {}, {}, {}};
  if (!std::isfinite(found.study.value))
    throw autograd::NumericError("study: the objective is not finite");
  progress.at_work("looks for causes");
  found.cuts = cut_heads(run.model, one, objective);
  found.causes = study_causes(a.causes, c, run, one, objective);
  found.labels = facts.vocabulary.labels(one.inputs.to_vector<std::int64_t>());
  progress.at_work("draws, and writes the arrays");
  const auto files =
      out->publish(write_study(out->staging(), found, a, source_of(folder, run.model), head));
  progress.clear();
  tell(folder, found, a, files, c.json);
  return kOk;
}

constexpr const char* kExamples =
    "  heed study\n"
    "  heed study --prompt abcab --of diff:c-d\n"
    "  heed study --of loss --at 20,21\n"
    "  heed study --sample 3 --ascii\n"
    "  heed study --head L1H0 --export csv\n"
    "  heed study --samples 64\n"
    "  heed study --ablate all --samples 64\n"
    "  heed study --prompt abcdefghijklab --corrupt abdcefghijklab --of diff:c-d --attribute\n"
    "  heed study runs/induction-1 --over-time\n"
    "  heed study runs/induction-1 runs/induction-2";

constexpr const char* kNotes =
    "Draws the weights A, dL/dA and dL/dS of every head (S: scores before the softmax), writes\n"
    "all arrays, with q, k, v, z and their gradients, to arrays.safetensors (heed info lists "
    "them;\n"
    "its metadata \"schema\" says what each is and its shape), and prints per head\n"
    "the entropy of its weights (nats) and the mean weight on the token before (previous), on\n"
    "earlier copies of the same token (duplicate) and on what followed them (induction); and\n"
    "what L is more by without the head (its output 0), marked * where that is not what the\n"
    "gradient says. report.html is the whole study as one page, which a browser opens from "
    "disk.\n"
    "L is what --of names. Gradients' colors go by the root of the value; dL/dA is not 0 where\n"
    "the mask hides a key: what a weight would be worth does not ask whether it may exist. Such\n"
    "cells are hatched; in the other pictures what the mask hides is gray.\n"
    "--head draws one head large, with its numbers (weights_L1H0.png, ...). --export npy writes\n"
    "each array to npy/NAME.npy, --export csv the scores, weights and their gradients to\n"
    "cells.csv, one row per cell: quantity,layer,head,query,key,value. heed plot draws arrays.\n"
    "A gradient is what a small change does. --ablate, --corrupt and --attribute measure what a\n"
    "large one does, and print it beside the gradient's estimate; --corrupt draws patching.png.\n"
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

}  // namespace

void study_command(Command& c) {
  c.name = "study", c.what = "attention and its gradients, head by head, on one sequence";
  c.json_keys[""] =
      "run objective value tokens heads (layer head entropy relative_entropy largest_weight "
      "previous_token duplicate_token induction detect_induction saturation importance "
      "absolute_importance dq dk dv dz dW_Q dW_K dW_V dW_O cut saturated) tables "
      "(title what columns (name unit) rows) files";
  c.json_keys["--over-time"] =
      "run sequences optimal_loss steps loss counted_loss heads (layer head entropy "
      "relative_entropy largest_weight previous_token duplicate_token induction detect_induction "
      "saturation importance absolute_importance dq dk dv dz dW_Q dW_K dW_V dW_O) layers (layer "
      "resid_pre_grad resid_post_grad) steepest_fall files";
  c.json_keys["A B"] =
      "runs objective values config heads (layer head a b) equal first_difference (step tensor "
      "index a b) files";
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
  c.add("Causes", cause_settings(a->causes));
  c.add_common(Command::kAll);
  c.run = [a](const Command& command) { return run_study(*a, command); };
}

}  // namespace heed
