#include "tools/heed/study/over_time.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "nn/io/safetensors.h"
#include "nn/layers/sites.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/study/analysis.h"
#include "tools/heed/study/page/page.h"
#include "tools/heed/study/study_pictures.h"

namespace heed {
namespace {

// ---- JSON

// Returns an object for each place that has these quantities.
nn::Json curves_json(const nn::OverTime& study, const std::vector<std::string_view>& quantities) {
  std::map<nn::HeadIndex, nn::Json> rows;
  for (const std::string_view quantity : quantities)
    for (const auto& [place, values] : study.curves(quantity)) {
      const auto [row, is_new] =
          rows.try_emplace(place, nn::Json::object({{"layer", place.layer}}));
      if (is_new && place.head >= 0) row->second.append("head", place.head);
      row->second.append(std::string(quantity), values);
    }
  nn::Json list = nn::Json::array();
  for (auto& [_, row] : rows) list.push_back(std::move(row));
  return list;
}

nn::Json over_time_json(const nn::OverTime& study, const std::string& run) {
  std::vector<std::string_view> of_heads;
  for (const nn::HeadQuantity& q : nn::head_quantities())
    if (q.is_over_time()) of_heads.push_back(q.name);
  nn::Json fall_json;
  if (const auto fall = nn::steepest_fall(study))
    fall_json = std::vector<std::int64_t>{fall->from, fall->to};
  return nn::Json::object({{"run", run},
                           {"sequences", study.sequences},
                           {"optimal_loss", study.of_model("optimal_loss")[0]},
                           {"steps", study.steps},
                           {"values", study.of_model("value")},
                           {"loss", study.of_model("loss")},
                           {"counted_loss", study.of_model("counted_loss")},
                           {"heads", curves_json(study, of_heads)},
                           {"layers", curves_json(study, {"resid_pre_grad", "resid_post_grad"})},
                           {"steepest_fall", fall_json}});
}

// ---- text

// Returns a table with a row for each checkpoint: the losses, and `score` of four heads. These are
// the heads with the largest maximum of `score` over all checkpoints.
std::optional<Table> score_table(const nn::OverTime& study, const char* title, nn::Quantity score) {
  constexpr std::size_t kMost = 4;
  std::vector<nn::OverTime::Curve> heads = study.curves(nn::head_quantities()[score].name);
  const auto largest = [](const nn::OverTime::Curve& head) {
    double best = -1;  // remains if all scores of the head are NaN
    for (const double x : head.values)
      if (x > best) best = x;
    return best;
  };
  std::erase_if(heads, [&](const auto& head) { return largest(head) < 0; });
  if (heads.empty()) return {};
  std::ranges::stable_sort(heads, std::greater<>(), largest);
  heads.resize(std::min(heads.size(), kMost));
  std::ranges::sort(heads, {}, &nn::OverTime::Curve::place);
  std::vector<std::string> names;
  for (const auto& head : heads) names.push_back(nn::head_name(head.place));
  Table table{.columns = {{"step"}, {"loss", "", "{:.3f}"}, {"counted", "", "{:.3f}"}},
              .title = title};
  for (const std::string& name : names) table.columns.push_back({name, "", "{:.2f}"});
  const std::vector<double> loss = study.of_model("loss"), counted = study.of_model("counted_loss");
  for (std::size_t i = 0; i < study.steps.size(); ++i) {
    std::vector<Value> row{study.steps[i], loss[i], counted[i]};
    for (const auto& head : heads) row.push_back(head.values[i]);
    table.rows.push_back(std::move(row));
  }
  return table;
}

Section time_section(const nn::OverTime& study, const Subject& s, const std::string& sequences) {
  Section section{
      .key = "time",
      .title = fmt::format("{}: {} checkpoints on {}", s.folder(), study.steps.size(), sequences)};
  const std::vector<double> values = study.of_model("value");
  const double optimal = study.of_model("optimal_loss")[0];
  section.sentences = {fmt::format(
      "L is {}; it is {:.3g} at the first checkpoint and {:.3g} at the last. The optimal loss is "
      "{}.",
      s.texts.objective, values.front(), values.back(),
      std::isfinite(optimal) ? fmt::format("{:.4f}", optimal) : "unknown")};
  if (const auto fall = nn::steepest_fall(study))
    section.sentences.push_back(
        fmt::format("The loss falls fastest between steps {} and {}.", fall->from, fall->to));
  if (std::string forms = induction_forms(study); !forms.empty())
    section.sentences.push_back(std::move(forms));
  for (const auto& [title, score] :
       {std::pair{"previous token", nn::kPreviousToken}, std::pair{"induction", nn::kInduction},
        std::pair{"entropy, nats", nn::kEntropy}})
    if (auto table = score_table(study, title, score); table && section.tables.size() < 2)
      section.tables.push_back(std::move(*table));
  section.pictures.push_back({"over_time",
                              over_time_chart(study, s.info(), s.texts.objective, sequences),
                              "All checkpoints are studied on the same sequences."});
  return section;
}

// ---- analyses at every checkpoint

// Adds the first table of an analysis at one checkpoint to its table over time.
void add_rows(Section& over_time, std::int64_t step, const Section& s) {
  if (s.tables.empty()) return;
  if (over_time.tables.empty()) {
    over_time.title = s.title + ", over time", over_time.sentences = s.sentences;
    Table& table = over_time.tables.emplace_back(Table{.columns = {{"step"}}, .shown = 24});
    table.columns.insert(table.columns.end(), s.tables[0].columns.begin(),
                         s.tables[0].columns.end());
  }
  for (std::vector<Value> row : s.tables[0].rows) {
    row.insert(row.begin(), step);
    over_time.tables[0].rows.push_back(std::move(row));
  }
}

// Adds a chart to the section: the first number of each place of its table over training, for the
// kMostLines places where its magnitude is largest.
void add_chart(Section& s) {
  constexpr std::size_t kMostLines = 8;
  if (s.tables.empty()) return;
  std::map<std::string, plot::Series> by_place;
  for (const std::vector<Value>& row : s.tables[0].rows) {
    const std::string place = row[1].as<std::string>() ? *row[1].as<std::string>() : row[1].dump();
    for (std::size_t i = 2; i < row.size(); ++i) {
      const auto number = row[i].as<double>();
      if (!number) continue;
      plot::Series& line = by_place[place];
      line.name = place, line.x.push_back(double(*row[0].as<std::uint64_t>())),
      line.y.push_back(*number);
      break;
    }
  }
  plot::LineChart chart{.title = s.title, .x_name = "training step", .height = 300};
  for (auto& [_, line] : by_place) chart.series.push_back(std::move(line));
  std::ranges::stable_sort(chart.series, std::greater<>(), [](const plot::Series& line) {
    return std::abs(std::ranges::max(line.y, {}, [](double y) { return std::abs(y); }));
  });
  chart.series.resize(std::min(chart.series.size(), kMostLines));
  if (!chart.series.empty())
    s.pictures.push_back(
        {s.key + "_over_time", {plot::ChartStack{.title = s.title, .panels = {std::move(chart)}}}});
}

// Returns the sample for the checkpoint of `s`: the same sequences and L, but an unchanged run and
// replacements that are computed with the weights of this checkpoint.
HeadSample on_sample(const Subject& s, const HeadSample& sample) {
  HeadSample here = sample;
  here.run = nn::BaseRun(s.model(), sample.run.batch, sample.run.objective);
  here.replaced = nn::replacement(s.model(), sample.run.batch, sample.replaced.how);
  return here;
}

// Runs analyses at every checkpoint: those whose options are given, and those that need no option.
// An analysis without Analysis::repeats runs only if its options are given.
std::vector<Section> repeated_analyses(const Subject& last, const HeadArguments& arguments,
                                       const Command& c, Progress& progress,
                                       const std::vector<nn::CheckpointFile>& checkpoints) {
  std::vector<const Analysis*> chosen;
  std::vector<Section> sections;
  const auto context_of = [&](const Subject& s, const HeadStudy& heads) {
    return StudyContext(c, arguments, s, heads, progress);
  };
  HeadStudy none;
  StudyContext first = context_of(last, none);
  for (const Analysis* a : analyses()) {
    if (a->check) a->check(first);
    if (!a->is_asked(first) && !(a->repeats && a->runs(first))) continue;
    chosen.push_back(a), sections.emplace_back().key = a->key;
  }
  if (chosen.empty()) return sections;
  const HeadSample sample = sample_of(arguments, c, last);  // defines the rivals of a margin
  for (const nn::CheckpointFile& checkpoint : checkpoints) {
    const auto file = std::filesystem::relative(checkpoint.file, last.source.run).string();
    const auto run =
        std::make_shared<nn::LoadedRun>(open_run(last.source.run, file, nn::Use::kSequences));
    const Subject s(last.source.run, run, last.sequence, last.objective);
    HeadStudy heads;
    heads.sample = on_sample(s, sample);
    StudyContext context = context_of(s, heads);
    for (std::size_t i = 0; i < chosen.size(); ++i)
      add_rows(sections[i], checkpoint.step, chosen[i]->run(context));
  }
  return sections;
}

// ---- sequences

// The sequences and L that are studied, and a description of the sequences.
struct StudiedSequences {
  nn::OverTimeSubject subject;
  std::string text;
};

StudiedSequences sequences_of(const Subject& s, const Command& c) {
  const nn::Batch batch = nn::evaluation_over_time(s.model(), *s.run->task);
  if (c.given("prompt") || c.given("sample"))
    return {{s.sequence, s.objective, batch}, "one sequence"};
  nn::Objective o = s.objective;
  if (o.kind == nn::Objective::kMargin) o = nn::margin(s.model(), batch, o.positions);
  return {{batch, o, batch}, fmt::format("{} sequences", batch.inputs.size(0))};
}

}  // namespace

std::string induction_forms(const nn::OverTime& study) {
  constexpr double kHalfScore = 0.5;  // an induction head has at least this induction score
  std::map<std::int64_t, std::int64_t> reached;  // by layer, the first step
  for (const nn::TimedNumber& n : study.numbers)
    if (n.quantity == nn::head_quantities()[nn::kInduction].name && n.value >= kHalfScore)
      reached.try_emplace(n.place.layer, n.step);
  for (const auto& [layer, step] : reached)
    if (step > study.steps[0])
      return fmt::format("Layer {}: the induction score of a head first reaches {} at step {}.",
                         layer, kHalfScore, step);
  return "";
}

std::string last_checkpoint(const std::string& run) {
  const std::filesystem::path folder = find_run(run);
  const auto checkpoints = nn::RunFolder(folder).checkpoints();
  heed::check<autograd::IoError>(
      !checkpoints.empty(), "over-time", folder.string(),
      " has no checkpoints; train with --save-every, for example heed train --save-every 10");
  return std::filesystem::relative(checkpoints.back().file, folder).string();
}

Out study_over_time(const Subject& subject, const HeadArguments& heads, const Command& c,
                    const std::string& out_name) {
  const std::filesystem::path folder = subject.source.run;
  const std::vector<nn::CheckpointFile> checkpoints = nn::RunFolder(folder).checkpoints();
  ResultFolder out(out_name, folder / "over-time");
  const auto [studied, sequences] = sequences_of(subject, c);
  nn::Transformer model = nn::clone(subject.model());
  Progress progress(false);
  const nn::OverTime study =
      nn::over_time(model, checkpoints, studied, [&](std::int64_t done, std::int64_t total) {
        progress.at_work(fmt::format("Studying checkpoints: {} of {}", done, total));
      });

  std::vector<Section> sections{time_section(study, subject, sequences)};
  for (Section& s : repeated_analyses(subject, heads, c, progress, checkpoints)) {
    add_chart(s);
    sections.push_back(std::move(s));
  }
  progress.at_work("Writing the page");
  const Files files = write_page(
      out, subject.source,
      {fmt::format("{}: {} over time", subject.source.run_name(), subject.texts.objective),
       {},
       sections});
  out.complete();

  Out result;
  result.set("format", kStudyFormat);
  result.set_all(over_time_json(study, folder.string()));
  result.set("sections", sections_json(sections));
  for (const Section& s : sections) add_section(result, s, true);
  result.files(files);
  return result;
}

}  // namespace heed
