// `heed study`: what the heads and MLPs of a model do, as numbers, pictures and arrays.
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
#include "tools/heed/study/over_time.h"
#include "tools/heed/study/page/page.h"
#include "tools/heed/study/study_pictures.h"

namespace heed {
namespace {

// Returns L on the sequence shown: that of --of and --at or, by default, the log probability of the
// right tokens; for a prompt, and for a sequence without one, that of its answer.
lab::Objective shown_objective(const StudyOptions& o, const lab::LoadedRun& run,
                               const lab::Batch& sequence) {
  const Index length = sequence.inputs.numel();
  lab::Objective given =
      parse_objective(o.of.empty() ? "logprob" : o.of, o.at, run.task->info(), length);
  if (!o.of.empty() || !o.at.empty()) return given;
  if (o.has_prompt || lab::counts_of(given, sequence)[0] == 0)
    return lab::prompt_objective(run.model, sequence);
  return given;
}

// Returns the run, the sequence and the objective L that the options select.
Subject chosen_subject(const StudyOptions& o) {
  check_out(o.out);
  const std::filesystem::path folder = find_run(o.run);
  bool has_sequences = o.samples > 0 || !o.has_prompt;
  const auto run = open_for_study(folder, o.weights, has_sequences);
  const lab::Task& task = *run->task;
  if (o.has_prompt && o.has_sample)
    usage_error("--prompt and --sample both select a sequence; give only one of them");
  if (o.has_sample && o.sample >= task.evaluation_size())
    usage_error("--sample: needs 0 to {}, got {}", task.evaluation_size() - 1, o.sample);
  nn::Generator generator(1);
  const lab::Batch sequence = o.has_prompt   ? task.prompt(o.prompt)
                              : o.has_sample ? without_padding(task.evaluation(o.sample, 1))
                                             : task.example(generator);
  const Index length = sequence.inputs.numel();
  if (length > task.info().context)
    usage_error("--prompt: {} tokens, but at most {} are possible; shorten it", length,
                task.info().context);
  Subject subject(folder, run, sequence, shown_objective(o, *run, sequence));
  subject.has_sequences = has_sequences;
  if (!o.formats.empty()) subject.source.formats = o.formats;
  return subject;
}

// Writes the arrays with their descriptions. A key of the metadata "schema" is the end of an
// array's name. A gradient, whose name is the array's name and "_grad", has no entry of its own.
void save_arrays(const std::string& file, const Subject& s, const lab::Study& study) {
  nn::Json schema = nn::Json::object();
  for (const lab::ArrayQuantity& q : lab::array_quantities())
    schema.append(std::string(q.site),
                  nn::Json::object({{"title", q.title}, {"shape", q.shape}, {"what", q.what}}));
  std::map<std::string, std::string> metadata = s.texts.metadata();
  metadata["objective"] = s.objective_text();
  metadata["tokens"] = s.text();
  metadata["schema"] = schema.dump();
  metadata["value"] = fmt::format("{:.17g}", study.value);
  nn::save_safetensors(file, to_named(study), metadata);
}

// ---- result

Value claims_json(const std::vector<Claim>& claims) {
  Value list = Value::array();
  for (const Claim& claim : claims)
    list.push_back(Value::object(
        {{"text", claim.text}, {"components", claim.components}, {"role", claim.role}}));
  return list;
}

// Sets all keys except "files".
void set_keys(Out& out, StudyContext& c, const std::vector<Section>& sections,
              const FirstLines& lines) {
  const Subject& s = c.subject;
  out.set("format", kStudyFormat);
  out.set("run", s.folder());
  out.set("objective", s.objective_text());
  out.set("value", c.study().value);
  out.set("tokens", s.text());
  out.set("claims", claims_json(lines.claims));
  const std::string not_measured = c.not_measured();
  out.set("not_measured", not_measured.empty() ? Value() : Value(not_measured));
  Value sample, donors = Value::array();
  if (const lab::ComponentStudy* m = c.components()) {
    for (const nn::Tensor& rows : c.task_sample()->donors.rows)
      donors.push_back(rows.to_vector<std::int64_t>());
    sample = Value::object({{"sequences", m->value.sequences},
                            {"donors", donors},
                            {"objective", c.task_sample()->objective},
                            {"value", m->value.mean},
                            {"accuracy", m->value.accuracy},
                            {"without_heads", m->value.mean + m->no_heads.mean}});
  }
  out.set("sample", sample);
  out.set("sections", sections_json(sections));
}

// Adds the first lines, and the sections of --show and those whose options are given.
void add_text(Out& out, StudyContext& c, const std::vector<Section>& sections,
              const FirstLines& lines) {
  const Subject& s = c.subject;
  const std::string step = s.run->step ? fmt::format(", step {}", *s.run->step) : "";
  out.text("{}{}; pictured sequence: {}, {} = {:.6f}", s.folder(), step,
           counted(std::ssize(s.texts.tokens), "token"), s.objective_text(), c.study().value);
  if (!lines.introduction.empty()) out.text("{}", lines.introduction);
  for (const Table& table : lines.tables) add_table(out, table);
  out.gap();
  for (const Claim& claim : lines.claims)
    if (!claim.text.empty() && !claim.in_table) out.block(wrapped(claim.text, 2) + "\n");
  for (const Analysis* a : kAnalyses) {
    const auto section = std::ranges::find(sections, a->key, &Section::key);
    if (section == sections.end()) {
      if (std::ranges::count(c.options.show, a->key) > 0)
        print_error(fmt::format("warning: --show {}: this section was not computed{}{}", a->key,
                                *a->advice ? "; " : "", a->advice));
    } else if (a->is_asked(c.options) || c.options.shows(a->key)) {
      add_section(out, *section);
    }
  }
}

Out study_one(const StudyOptions& o) {
  const Subject s = chosen_subject(o);
  Progress progress(false);
  StudyContext context(o, s, progress);
  for (const Analysis* analysis : kAnalyses)
    if (analysis->check) analysis->check(context);  // before anything is measured
  if (o.samples > 0) context.task_sample();         // throws the errors of --samples
  ResultFolder out(o.out, s.source.run / "study");
  progress.at_work("Running the model forward and backward");
  const std::string arrays = out.file("arrays.safetensors").string();
  // The arrays take hundreds of megabytes for 8 layers and 512 tokens, so a thread writes them. If
  // it cannot be started, get() does the work.
  const lab::Study& study = context.study();
  auto saved = std::async([&] { save_arrays(arrays, s, study); });
  // First those that are asked for, whose options may have errors that only their run finds.
  std::map<std::size_t, Section> found;
  for (const bool asked : {true, false})
    for (std::size_t i = 0; i < kAnalyses.size(); ++i) {
      progress.at_work("Running interventions");
      if (kAnalyses[i]->is_asked(o) == asked && kAnalyses[i]->runs(context))
        found.emplace(i, kAnalyses[i]->run(context));
    }
  std::vector<Section> sections;
  for (auto& [_, section] : found) sections.push_back(std::move(section));
  const FirstLines lines = first_lines(context, sections);
  progress.at_work("Drawing pictures and writing arrays");
  Page page{fmt::format("{}: {}", s.source.run_name(), s.texts.objective), {}, sections};
  if (!lines.introduction.empty()) page.summary.push_back(lines.introduction);
  for (const Claim& claim : lines.claims)
    if (!claim.text.empty()) page.summary.push_back(claim.text);
  page.sections.insert(page.sections.begin(),
                       {.key = "maps",
                        .title = fmt::format("Attention and its gradients on the sequence shown: L "
                                             "= {:.6f}",
                                             study.value),
                        .pictures = map_pictures(study, s.texts)});
  Files written = write_page(out, s.source, page);
  saved.get();
  written.emplace_back(arrays);
  out.complete();
  progress.clear();
  Out result;
  set_keys(result, context, sections, lines);
  add_text(result, context, sections, lines);
  result.files(written);
  return result;
}

}  // namespace

void study_command(Command& c) {
  c.name = "study", c.what = "what the heads do: effects, attention and its gradients";
  auto o = std::make_shared<StudyOptions>();
  add_study_settings(c, *o);
  const auto parsed = [o](const Command& command) {
    o->has_prompt = command.given("prompt"), o->has_sample = command.given("sample");
    return *o;
  };
  c.modes = {
      {.key = "over-time",
       .accepts = c.only({"run", "out", "format", "prompt", "sample", "of", "at", "samples"}),
       .keys = "format run sequences optimal_loss steps values accuracy loss counted_loss layers "
               "components (name pattern counts" +
               curve_names() + ") steepest_fall files",
       .run =
           [parsed](const Command& command) {
             StudyOptions last = parsed(command);
             last.weights = last_checkpoint(last.run);
             return study_over_time(chosen_subject(last), last);
           }},
      {.accepts = c.all_but({"over-time"}),
       .keys = "format run objective value tokens claims (text components role) "
               "not_measured sample (sequences donors objective value accuracy without_heads) "
               "sections (" +
               kSectionKeys + ") files",
       .run = [parsed](const Command& command) { return study_one(parsed(command)); }}};
}

}  // namespace heed
