// `heed study`: attention and its gradients on one sequence, as pictures, arrays and numbers.
#include <algorithm>
#include <filesystem>
#include <future>
#include <map>

#include "nn/io/safetensors.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/output.h"
#include "tools/heed/study/analysis.h"
#include "tools/heed/study/first_lines.h"
#include "tools/heed/study/head_table.h"
#include "tools/heed/study/over_time.h"
#include "tools/heed/study/page/page.h"
#include "tools/heed/study/study_help.h"
#include "tools/heed/study/study_pictures.h"

namespace heed {
namespace {

// ---- arguments: a run, a sequence, an objective L and further outputs

struct StudyArguments {
  std::string run, weights = nn::RunFolder::kState, prompt, of = "margin", out, at;
  std::vector<std::string> formats, show;
  std::int64_t sample = 0;
  bool over_time = false;
  HeadArguments heads;
  // Not read: an option of a single analysis needs a variable. The analysis reads the value from
  // the command.
  std::string text;
};

// Returns the run, the sequence and the objective L that the arguments select.
Subject chosen_subject(const StudyArguments& a, const Command& c) {
  check_out(a.out);
  const std::filesystem::path folder = find_run(a.run);
  bool has_sequences = c.given("samples") || !c.given("prompt");
  const auto run = open_for_study(folder, a.weights, has_sequences);
  const nn::Task& task = *run->task;
  if (c.given("prompt") && c.given("sample"))
    usage_error("--prompt and --sample both select a sequence; give only one of them");
  if (c.given("sample") && a.sample >= task.evaluation_size())
    usage_error("--sample: needs 0 to {}, got {}", task.evaluation_size() - 1, a.sample);
  nn::Generator generator(1);
  const nn::Batch sequence = c.given("prompt")   ? task.prompt(a.prompt)
                             : c.given("sample") ? without_padding(task.evaluation(a.sample, 1))
                                                 : task.example(generator);
  const std::int64_t length = sequence.inputs.numel();
  if (length > task.info().context)
    usage_error("--prompt: {} tokens, but at most {} are possible; shorten it", length,
                task.info().context);
  nn::Objective objective = parse_objective(a.of, a.at, task.info(), length);
  if (!c.given("of") && a.over_time) {
    objective.kind = nn::Objective::kLogOdds;
  } else if (!c.given("of") && task.info().random_targets) {
    // The targets of random texts are not right or wrong, so L is their log probability. For a
    // prompt, L remains a margin, because it explains the prediction.
    if (!c.given("prompt"))
      objective.kind = nn::Objective::kLogLikelihood;
    else if (a.at.empty())
      objective.positions = {length - 1};
  }
  Subject subject(folder, run, sequence, objective);
  subject.has_sequences = has_sequences;
  if (!a.formats.empty()) subject.source.formats = a.formats;
  return subject;
}

// ---- files of the study of one sequence

// Writes the arrays with their descriptions. A key of the metadata "schema" is the end of an
// array's name. A gradient, whose name is the array's name and "_grad", has no entry of its own.
void save_arrays(const std::string& file, const Subject& s, const nn::Study& study) {
  nn::Json schema = nn::Json::object();
  for (const nn::ArrayQuantity& q : nn::array_quantities())
    schema.append(std::string(q.site),
                  nn::Json::object({{"title", q.title}, {"shape", q.shape}, {"what", q.what}}));
  std::map<std::string, std::string> metadata = s.texts.metadata();
  metadata["objective"] = s.objective_text();
  metadata["tokens"] = s.text();
  metadata["schema"] = schema.dump();
  metadata["value"] = fmt::format("{:.17g}", study.value);
  nn::save_safetensors(file, to_named(study), metadata);
}

// ---- result of the study of one sequence

const Analysis& analysis_named(const std::string& key) {
  return **std::ranges::find(analyses(), key, &Analysis::key);
}

// Returns the text for a section of --show that was not computed.
std::string not_computed(const std::string& key) {
  return fmt::format("--show {}: this section was not computed; {}", key,
                     analysis_named(key).advice());
}

// Adds the sections as text. The sections of --show, and those whose option is given, are complete.
// Each other section is one line.
void add_sections(Out& out, const StudyArguments& a, const std::vector<Section>& sections,
                  const StudyContext& context) {
  const auto is_shown = [&](const Section& s) {
    const auto analysis = std::ranges::find(analyses(), s.key, &Analysis::key);
    return std::ranges::count(a.show, "all") + std::ranges::count(a.show, s.key) > 0 ||
           (analysis != analyses().end() && (*analysis)->is_asked(context));
  };
  for (const bool whole : {true, false})
    for (const Section& s : sections)
      if (is_shown(s) == whole) add_section(out, s, whole);
  for (const std::string& key : a.show)
    if (key != "all" && std::ranges::count(sections, key, &Section::key) == 0)
      print_error("warning: " + not_computed(key));
}

Value claims_json(const std::vector<Claim>& claims) {
  Value list = Value::array();
  for (const Claim& claim : claims) {
    Value numbers = Value::object();
    for (const auto& [name, value] : claim.numbers) numbers.append(name, value);
    list.push_back(Value::object({{"text", claim.text},
                                  {"components", claim.components},
                                  {"role", claim.role},
                                  {"numbers", numbers}}));
  }
  return list;
}

// Sets all keys except "files".
void set_keys(Out& out, StudyContext& c, const std::vector<Section>& sections,
              const std::vector<Claim>& claims) {
  const Subject& s = c.subject;
  const nn::HeadReport uniform = c.uniform();
  out.set("format", kStudyFormat);
  out.set("run", s.folder());
  out.set("objective", s.objective_text());
  out.set("value", c.study().value);
  out.set("tokens", s.text());
  out.set("heads", heads_json(c));
  out.set("claims", claims_json(claims));
  out.set("not_measured", c.heads.not_measured.empty() ? Value() : Value(c.heads.not_measured));
  Value sample;
  if (const auto& m = c.heads.measured)
    sample = Value::object({{"sequences", m->value.sequences},
                            {"objective", c.heads.sample->objective_text},
                            {"value", m->value.mean},
                            {"without_heads", m->value.mean + m->no_heads.mean}});
  out.set("sample", sample);
  out.set("baseline", Value::object({{"previous_token", uniform[nn::kPreviousToken]},
                                     {"duplicate_token", uniform[nn::kDuplicateToken]},
                                     {"induction", uniform[nn::kInduction]}}));
  out.set("sections", sections_json(sections));
}

// Returns the result. `claims` are the first lines, and `files` those that were written.
Out out_of(const StudyArguments& a, StudyContext& c, const std::vector<Section>& sections,
           const std::vector<Claim>& claims, const Files& files) {
  const Subject& s = c.subject;
  Out out;
  set_keys(out, c, sections, claims);
  for (const Claim& claim : claims) out.block(wrapped(claim.text, 2) + "\n");
  const std::string step = s.run->step ? fmt::format(", step {}", *s.run->step) : "";
  add_section(out,
              {.key = {},
               .title = fmt::format("{}: {} = {:.6f} on the sequence shown ({}{})", s.folder(),
                                    s.objective_text(), c.study().value,
                                    counted(std::ssize(s.texts.tokens), "token"), step),
               .tables = {head_table(c)}},
              true);
  add_sections(out, a, sections, c);
  out.files(files);
  return out;
}

Out study_one(const StudyArguments& a, const Command& c) {
  Subject s = chosen_subject(a, c);
  Progress progress(false);
  HeadStudy heads;
  const StudyContext early(c, a.heads, s, heads, progress);
  for (const Analysis* analysis : analyses())
    if (analysis->check) analysis->check(early);  // before the heads are measured
  ResultFolder out(a.out, s.source.run / "study");
  progress.at_work("Running the model forward and backward");
  heads = study_heads(a.heads, c, s, progress);  // first, so that its arrays are freed
  StudyContext context(c, a.heads, s, heads, progress);
  const std::string arrays = out.file("arrays.safetensors").string();
  // The arrays take hundreds of megabytes for 8 layers and 512 tokens, so a thread writes them. If
  // it cannot be started, get() does the work.
  const nn::Study& study = context.study();
  auto saved = std::async([&] { save_arrays(arrays, s, study); });
  std::vector<Section> sections;
  std::vector<std::string> answers;
  for (const Analysis* analysis : analyses()) {
    if (!analysis->runs(context)) continue;
    progress.at_work("Running interventions");
    sections.push_back(analysis->run(context));
    answers.insert(answers.end(), sections.back().answers.begin(), sections.back().answers.end());
  }
  const std::vector<Claim> lines = first_lines(heads, s.predicts, answers);
  progress.at_work("Drawing pictures and writing arrays");
  Page page{fmt::format("{}: {}", s.source.run_name(), s.texts.objective), {}, sections};
  for (const Claim& line : lines) page.summary.push_back(line.text);
  page.sections.insert(page.sections.begin(), {.key = "numbers",
                                               .title = "Numbers of the heads",
                                               .tables = {head_table(context)},
                                               .pictures = map_pictures(study, s.texts)});
  Files written = write_page(out, s.source, page);
  saved.get();
  written.emplace_back(arrays);
  out.complete();
  progress.clear();
  return out_of(a, context, sections, lines, written);
}

// Returns the keys of the quantities of a head, or of those that are measured over time.
std::string quantity_names(bool over_time) {
  std::string names;
  for (const nn::HeadQuantity& q : nn::head_quantities())
    if (!over_time || q.is_over_time()) names += " " + std::string(q.name);
  return names;
}

// Adds the settings of all modes, and the notes of the analyses.
void add_settings(Command& c, const std::shared_ptr<StudyArguments>& a) {
  std::vector<std::string> sections{"all"};
  for (const Analysis* analysis : analyses()) sections.emplace_back(analysis->key);
  c.add("Options",
        {run_setting(a->run),
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
             .shows("study in the run, then study-2, ..."),
         format_setting(a->formats),
         {"weights", a->weights, "FILE", "weights file inside the run directory"},
         nn::Setting("show", a->show, sections, "sections that text prints in full, or all")
             .shows("those whose options are given")});
  c.mark(&nn::Setting::may_be_empty, {"prompt"});
  c.add("Heads", head_settings(a->heads));
  for (const Analysis* analysis : analyses()) {
    for (const Analysis::Option& o : analysis->options)
      c.add(analysis->group, {{o.key, a->text, o.unit, o.help}});
    if (*analysis->notes) c.notes += fmt::format("\n[{}]\n{}\n", analysis->group, analysis->notes);
  }
  c.add("Time", {{"over-time", a->over_time, "studies every checkpoint of the run"}});
  c.add_common(Command::kThreads | Command::kJson);
  c.mark(&nn::Setting::common, {"run", "prompt", "sample", "of", "at", "out", "show", "ablate",
                                "keep", "samples", "over-time"});
}

}  // namespace

void study_command(Command& c) {
  c.name = "study", c.what = "what the heads do: effects, attention and its gradients";
  c.examples = kStudyExamples, c.notes = kStudyNotes;
  auto a = std::make_shared<StudyArguments>();
  c.arguments = 1;
  add_settings(c, a);
  std::vector<std::string> over_time{"run", "out", "format",  "prompt", "sample",
                                     "of",  "at",  "samples", "keep",   "ablate"};
  for (const Analysis* analysis : analyses())
    for (const Analysis::Option& o : analysis->options) over_time.emplace_back(o.key);
  c.modes = {
      {.key = "over-time",
       .accepts = c.only(std::move(over_time)),
       .keys =
           "format run sequences optimal_loss steps values loss counted_loss heads (layer head" +
           quantity_names(true) +
           ") layers (layer resid_pre_grad resid_post_grad) steepest_fall sections (" +
           kSectionKeys + ") files",
       .run =
           [a](const Command& command) {
             StudyArguments last = *a;
             last.weights = last_checkpoint(a->run);
             return study_over_time(chosen_subject(last, command), a->heads, command, a->out);
           }},
      {.accepts = c.all_but({"over-time"}),
       .keys = "format run objective value tokens heads (layer head" + quantity_names(false) +
               " mark) claims (text components role numbers) not_measured sample (sequences "
               "objective value without_heads) baseline (previous_token duplicate_token "
               "induction) sections (" +
               kSectionKeys + ") files",
       .run = [a](const Command& command) { return study_one(*a, command); }}};
}

}  // namespace heed
