// `heed study`: attention and its gradients on one sequence, as pictures, arrays and numbers.
#include <algorithm>
#include <filesystem>
#include <future>
#include <map>

#include "nn/io/safetensors.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/study/cell_table.h"
#include "tools/heed/study/circuits.h"
#include "tools/heed/study/effect_tables.h"
#include "tools/heed/study/effects_picture.h"
#include "tools/heed/study/first_text.h"
#include "tools/heed/study/head_study.h"
#include "tools/heed/study/interventions.h"
#include "tools/heed/study/over_time.h"
#include "tools/heed/study/page_data.h"
#include "tools/heed/study/patching_tables.h"
#include "tools/heed/study/path_tables.h"
#include "tools/heed/study/run_differences.h"
#include "tools/heed/study/run_roles.h"
#include "tools/heed/study/study_files.h"
#include "tools/heed/study/study_help.h"
#include "tools/heed/study/study_pictures.h"
#include "tools/heed/study/study_tables.h"

namespace heed {
namespace {

// ---- arguments: a run, a sequence, an objective L and further outputs

struct StudyArguments {
  std::string run, other, weights = nn::RunFolder::kModel, prompt, of = "margin", out, head;
  std::optional<StudyExport> export_format;
  std::string at, cut;
  std::vector<std::string> more, formats;
  std::int64_t sample = 0;
  bool ascii = false, overwrite = false, over_time = false;
  HeadArguments heads;
  PathArguments paths;
  PatchingArguments patching;
  InterventionArguments interventions;
  CircuitArguments circuits;
};

// Returns the run, the sequence and the objective L that the arguments select.
Subject chosen_subject(const StudyArguments& a, const Command& c) {
  const std::filesystem::path folder = find_run(a.run);
  bool has_sequences = c.given("samples") || !c.given("prompt");
  const auto run = open_for_study(folder, a.weights, has_sequences);
  const nn::Task& task = *run->task;
  if (int(c.given("prompt")) + int(c.given("sample")) + int(c.given("repeat-random")) > 1)
    usage_error(
        "--prompt, --sample and --repeat-random all select a sequence; give only one of them");
  if (c.given("sample") && a.sample >= task.evaluation_size())
    usage_error("--sample: needs 0 to {}, got {}", task.evaluation_size() - 1, a.sample);
  nn::Generator generator(1);
  const nn::Batch sequence = c.given("prompt") ? task.prompt(a.prompt)
                             : c.given("repeat-random")
                                 ? repeated_sequences(task, repeated_tokens(a.heads, task), 1)
                             : c.given("sample") ? without_padding(task.evaluation(a.sample, 1))
                                                 : task.example(generator);
  const std::int64_t length = sequence.inputs.numel();
  if (length > task.info().context)
    usage_error("--prompt: {} tokens, but the model reads at most {}", length, task.info().context);
  nn::Objective objective = parse_objective(a.of, a.at, task.info(), length);
  if (!c.given("of") && a.over_time) {
    objective.kind = nn::Objective::kLogOdds;
  } else if (!c.given("of") && task.info().random_targets && !c.given("repeat-random")) {
    // No target is right or wrong. A prompt has the question why the model prefers its prediction.
    if (!c.given("prompt"))
      objective.kind = nn::Objective::kLogLikelihood;
    else if (a.at.empty())
      objective.positions = {length - 1};
  }
  Subject subject(folder, run, sequence, objective);
  subject.has_sequences = has_sequences;
  subject.source.formats = a.formats;
  return subject;
}

// Returns the head that --head selects, or no value if --head was not given.
std::optional<nn::HeadIndex> chosen_head(const StudyArguments& a, const Command& c,
                                         const nn::Transformer::Options& model) {
  if (!c.given("head")) return {};
  if (a.head == "all" || a.head.find(',') != std::string::npos)
    usage_error("--head: needs one head, such as L1H0, got '{}'", a.head);
  return nn::parse_heads("--head", a.head, model.layers, model.attention.heads)[0];
}

// ---- files of the study of one sequence

// Returns descriptions of the arrays, for the metadata of arrays.safetensors. A key is the end of
// the array's name. A gradient, whose name is the array's name and "_grad", has no entry of its
// own.
nn::Json schema() {
  nn::Json arrays = nn::Json::object();
  for (const nn::ArrayQuantity& q : nn::array_quantities())
    arrays.append(std::string(q.site),
                  nn::Json::object({{"title", q.title}, {"shape", q.shape}, {"what", q.what}}));
  return arrays;
}

void save_arrays(const std::filesystem::path& file, const Subject& s, const nn::Study& study) {
  std::map<std::string, std::string> metadata = s.texts.metadata();
  metadata["objective"] = s.objective_text();
  metadata["tokens"] = s.text();
  metadata["schema"] = schema().dump();
  metadata["value"] = fmt::format("{:.17g}", study.value);
  nn::save_safetensors(file.string(), to_named(study), metadata);
}

// The results of a study of one sequence.
struct StudyResult {
  nn::Study study;
  HeadStudy heads;
  std::vector<std::string> text;  // first_text()
  std::vector<nn::CellCut> cells;
  InterventionResults tables;
};

// Returns a pane for the sequence and, if `corrupt` is not empty, a second pane for the corrupt
// prompt.
std::vector<PagePane> panes_of(const Subject& s, const StudyResult& r, const std::string& corrupt) {
  PagePane pane = pane_of(s, r.study, corrupt.empty() ? "" : "clean prompt", &r.heads);
  pane.add_cells(r.cells);
  if (corrupt.empty()) return {pane};
  nn::Batch other = s.run->task->prompt(corrupt);
  other.targets = s.sequence.targets;  // so that L is the same as in patching()
  const Subject corrupted(s.source.run, s.run, other, s.objective);
  return {pane, pane_of(corrupted, corrupted.study(), "corrupt prompt")};
}

// Draws the pictures and writes the page.
std::vector<std::filesystem::path> write_study(const std::filesystem::path& out, const Subject& s,
                                               const StudyResult& r, const StudyArguments& a,
                                               std::optional<nn::HeadIndex> head) {
  // A thread draws while this one writes the page. If it cannot be started, get() does the work.
  auto drawn = std::async([&] { return draw_study(out, r.study, s.texts, s.source, head); });
  const std::filesystem::path page =
      write_page(out, fmt::format("{}: {}", s.source.run_name(), s.texts.objective),
                 panes_of(s, r, a.patching.corrupt), tables_json(r.tables.tables), head, r.text);
  Files files = drawn.get();
  append(files, draw_effects_of(out, s, r.heads, r.cells));
  append(files, r.tables.files);
  append(files, {page});
  return files;
}

// ---- result of the study of one sequence

constexpr Column kSample[] = {{"sequences"}, {"objective"}, {"value"}, {"without_heads"}};
constexpr Column kBaseline[] = {{"previous_token"}, {"duplicate_token"}, {"induction"}};

Columns study_keys() {
  static const Column all[] = {{"run"},
                               {"objective"},
                               {"value"},
                               {"tokens"},
                               rows("heads", head_columns()),
                               rows("claims", kClaim),
                               {"not_measured"},
                               fields("sample", kSample),
                               fields("baseline", kBaseline),
                               fields("tables", kTableKeys),
                               {"files"}};
  return all;
}

// Throws the errors of options that are used only after the heads have been measured.
void check_early(const StudyArguments& a, const Command& c, const Subject& s) {
  const nn::Transformer::Options& o = s.model().options;
  if (c.given("keep")) s.components("--keep", a.heads.keep);
  if (c.given("ablate") && a.heads.ablate != "all") s.components("--ablate", a.heads.ablate);
  if (c.given("cut"))
    nn::parse_cells("--cut", a.cut, o.layers, o.attention.heads, std::ssize(s.texts.tokens));
  check_paths(a.paths, c, s);
}

Report study_one(const StudyArguments& a, const Command& c) {
  if (a.ascii && (c.json || c.csv))
    usage_error("--ascii cannot be combined with --json or --csv, which print data only");
  Subject s = chosen_subject(a, c);
  const auto head = chosen_head(a, c, s.model().options);
  check_early(a, c, s);
  const auto pairs = chosen_pairs(a.patching, a.heads.samples, c, s);
  const auto out = open_study_folder(a.out, s.source.run / "study", a.overwrite);
  Progress progress(false);
  progress.at_work("Running the model forward and backward");
  StudyResult r;
  r.heads = study_heads(a.heads, c, s, progress);  // first, so that its arrays are freed
  r.study = s.study();
  const auto& [study, heads, text, cells, tables] = r;
  const std::filesystem::path arrays = out->staging() / "arrays.safetensors";
  // The arrays take hundreds of megabytes for 8 layers and 512 tokens, so a thread writes them. If
  // it cannot be started, get() does the work.
  auto saved = std::async([&] { save_arrays(arrays, s, r.study); });
  progress.at_work("Running interventions");
  r.text = first_text(heads, s);
  r.tables.tables = effect_tables(heads, a.heads, c, s);
  for (Table& t :
       path_tables(a.paths, a.heads, c, s, heads, out->staging(), progress, r.tables.files))
    r.tables.tables.push_back(std::move(t));
  if (pairs)
    for (Table& t : patching_tables(*pairs, s, out->staging(), progress, r.tables.files))
      r.tables.tables.push_back(std::move(t));
  if (c.given("cut")) r.tables.tables.push_back(cut_table(a.cut, s, study));
  r.cells = measure_notable_cells(s, study);
  r.tables.tables.push_back(cell_table(cells, s, study));
  run_interventions(a.interventions, s, study, c.given("samples") ? &*heads.sample : nullptr,
                    out->staging(), r.tables);
  progress.at_work("Drawing pictures and writing arrays");
  Files written = write_study(out->staging(), s, r, a, head);
  saved.get();
  append(written, {arrays});
  if (a.export_format) append(written, export_study(out->staging(), study, *a.export_format));
  const auto files = out->publish(written);
  progress.clear();

  Report report(study_keys());
  report.set("run", s.folder());
  report.set("objective", s.objective_text());
  report.set("value", study.value);
  report.set("tokens", s.text());
  report.set("not_measured", heads.not_measured.empty() ? Value() : Value(heads.not_measured));
  if (heads.measured)
    report.set("sample",
               object_of(kSample, {heads.measured->value.sequences, heads.sample->objective_text,
                                   heads.measured->value.mean,
                                   heads.measured->value.mean + heads.measured->no_heads.mean}));
  report.set("baseline",
             object_of(kBaseline, {study.uniform.previous_token, study.uniform.duplicate_token,
                                   study.uniform.induction}));
  report.set("tables", tables_json(tables.tables));
  for (std::size_t i = 0; i < text.size(); ++i)
    report.block(wrapped(text[i], i == 0 ? 0 : 2) + "\n");
  const std::string step = s.run->step ? fmt::format(", weights of step {}", *s.run->step) : "";
  report.line("\n{}: {} = {:.6f} on {}{}", s.folder(), s.objective_text(), study.value,
              counted(std::ssize(s.texts.tokens), "token"), step);
  report.line("L is {}", s.texts.objective);
  add_heads(report.table("heads"), study, heads);
  report.table("claims").rows = claims(heads).rows;
  if (a.ascii) report.block(drawn_weights(study, s.texts.tokens));
  for (const Table& table : tables.tables) report.text_table(table);
  report.files(files);
  return report;
}

// ---- many runs

Report study_runs(const StudyArguments& a, const Command& c) {
  if (a.other.empty()) usage_error("give the runs as arguments: heed study RUN RUN RUN");
  StudyArguments one = a;
  std::vector<Subject> runs{chosen_subject(one, c)};
  one.run = a.other;
  runs.push_back(chosen_subject(one, c));
  for (const Command::Value& more : c.values.at("more")) {
    one.run = more.text;
    runs.push_back(chosen_subject(one, c));
  }
  return run_roles(runs, a.heads, c);
}

}  // namespace

void study_command(Command& c) {
  c.name = "study", c.what = "what the heads do: effects, attention and its gradients";
  c.examples = kStudyExamples, c.notes = kStudyNotes;
  auto a = std::make_shared<StudyArguments>();
  c.arguments = 3;
  c.add("Options",
        {run_setting(a->run),
         nn::Setting("other", a->other, "DIR", "a second run, which is compared with the first")
             .shows(""),
         nn::Setting("more", a->more, {}, "further runs: prints the roles of the heads of each run")
             .shows("none"),
         nn::Setting("prompt", a->prompt, "TEXT", "the sequence").shows("the task's example"),
         nn::Setting("sample", a->sample, {0}, "the sequence, by its index in the evaluation set")
             .shows(""),
         {"of", a->of, "WHAT",
          "objective L: margin (logit of the right token minus the largest other logit of the "
          "unchanged model), loss, logprob "
          "(of the targets), logprob:C, logit:C (minus the mean logit) or diff:A-B"},
         nn::Setting("at", a->at, "POS,...", "positions of L, from 0; BOS counts")
             .shows("all with a target (margin: that count in the accuracy); for logits the last"),
         nn::Setting("out", a->out, "DIR", "directory for the files")
             .shows("study in the run, or the first free of study-2, ..."),
         nn::Setting("head", a->head, "LxHy", "also draws each picture for this head alone, large")
             .shows(""),
         {"export", a->export_format, "none", "also writes the numbers in another format"},
         format_setting(a->formats),
         {"overwrite", a->overwrite, "replaces the study in --out, or in study of the run"},
         {"weights", a->weights, "FILE", "weights file inside the run directory"},
         {"over-time", a->over_time, "studies every checkpoint of the run instead of one sequence"},
         {"ascii", a->ascii, "also draws the weights in the terminal"}});
  c.settings[3].may_be_empty = true;
  c.add("Effects", head_settings(a->heads));
  c.add("Effects", {nn::Setting("cut", a->cut, "CELLS",
                                "measures L if queries cannot read keys, such as L1H0[5,3] (query "
                                "5, key 3) or L1H0[*,0-3]")
                        .shows("")});
  c.add("Edges and paths", path_settings(a->paths));
  c.add("Patching", patching_settings(a->patching));
  c.add("Attribution", intervention_settings(a->interventions));
  c.add("Weights", circuit_settings(a->circuits));
  c.add_common(Command::kAll | Command::kCsv);
  c.modes = {
      {.key = "over-time",
       .accepts = c.only(
           {"run", "out", "overwrite", "format", "prompt", "sample", "of", "at", "repeat-random"}),
       .result = over_time_keys(),
       .run =
           [a](const Command& command) {
             StudyArguments last = *a;
             last.weights = last_checkpoint(a->run);
             return study_over_time(chosen_subject(last, command), a->heads, command, a->out,
                                    a->overwrite);
           }},
      {.key = "circuits",
       .accepts = c.only({"run", "distance", "weights", "out", "overwrite", "format"}),
       .result = circuit_keys(),
       .run =
           [a](const Command& command) {
             return study_circuits(a->circuits, command, a->run, a->weights, a->out, a->overwrite,
                                   a->formats);
           }},
      {.key = "more",
       .accepts = c.only({"run", "other", "more", "samples", "ablation", "weights"}),
       .result = run_role_keys(),
       .run = [a](const Command& command) { return study_runs(*a, command); }},
      {.key = "other",
       .accepts = c.all_but({"over-time", "circuits", "distance",     "more",      "head",
                             "export",    "ascii",    "ablate",       "ablation",  "samples",
                             "keep",      "cut",      "corrupt",      "attribute", "edges-into",
                             "edge",      "path",     "through-mlps", "pairs",     "corruption"}),
       .result = run_difference_keys(),
       .run =
           [a](const Command& command) {
             return run_differences(chosen_subject(*a, command), a->other, a->weights, a->out,
                                    a->overwrite);
           }},
      {.accepts = c.all_but({"over-time", "circuits", "distance", "other", "more"}),
       .result = study_keys(),
       .run = [a](const Command& command) { return study_one(*a, command); }}};
}

}  // namespace heed
