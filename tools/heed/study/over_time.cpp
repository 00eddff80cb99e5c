#include "tools/heed/study/over_time.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/files.h"
#include "tools/heed/find_run.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/study/report.h"
#include "tools/heed/study/study_folder.h"
#include "tools/plot/plot.h"

namespace heed {
namespace {

constexpr const char* kCsvFile = "over_time.csv";
constexpr double kHalf = 0.5;  // of a score: a head that does this, more than not

// The heads whose score is largest at any time, at most four, by layer and head.
std::vector<std::size_t> strongest_heads(const nn::OverTime& study, double nn::HeadReport::*score) {
  constexpr std::size_t kMost = 4;
  std::vector<std::pair<double, std::size_t>> by_score;
  for (std::size_t i = 0; i < study.moments[0].heads.size(); ++i) {
    double best = -1;
    for (const nn::Moment& m : study.moments)
      if (const double x = m.heads[i].*score; x > best) best = x;
    if (best >= 0) by_score.emplace_back(-best, i);
  }
  std::sort(by_score.begin(), by_score.end());
  std::vector<std::size_t> heads;
  for (std::size_t i = 0; i < std::min(kMost, by_score.size()); ++i)
    heads.push_back(by_score[i].second);
  std::sort(heads.begin(), heads.end());
  return heads;
}

struct Columns {
  std::string title;
  double nn::HeadReport::*score;
  std::vector<std::size_t> heads;
  std::size_t width() const { return std::max(6 * heads.size(), title.size()); }
  /// What stands before the first head: space between groups, and below a title that is wider.
  std::string indent() const { return std::string(2 + width() - 6 * heads.size(), ' '); }
};

std::string cell_text(double x, int width, int digits) {
  return std::isfinite(x) ? fmt::format("{:>{}.{}f}", x, width, digits)
                          : fmt::format("{:>{}}", "-", width);
}

// Two groups of scores at most, in 80 columns.
std::vector<Columns> columns_of(const nn::OverTime& study) {
  std::vector<Columns> groups;
  for (const auto& [title, score] : {std::pair{"previous token", &nn::HeadReport::previous_token},
                                     std::pair{"induction", &nn::HeadReport::induction},
                                     std::pair{"entropy, nats", &nn::HeadReport::entropy}}) {
    std::vector<std::size_t> heads = strongest_heads(study, score);
    if (!heads.empty() && groups.size() < 2) groups.push_back({title, score, std::move(heads)});
  }
  return groups;
}

void print_moments(const nn::OverTime& study) {
  const std::vector<Columns> groups = columns_of(study);
  print("{:24}", "");
  for (const Columns& g : groups) print("  {:^{}}", g.title, g.width());
  print("\n{:>8}{:>8}{:>8}", "step", "loss", "counted");
  for (const Columns& g : groups) {
    print("{}", g.indent());
    for (const std::size_t i : g.heads) {
      const nn::HeadReport& h = study.moments[0].heads[i];
      print("{:>6}", nn::head_name({h.layer, h.head}));
    }
  }
  print("\n");
  for (const nn::Moment& m : study.moments) {
    print("{:>8}{}{}", m.step, cell_text(m.loss, 8, 3), cell_text(m.counted_loss, 8, 3));
    for (const Columns& g : groups) {
      print("{}", g.indent());
      for (const std::size_t i : g.heads) print("{}", cell_text(m.heads[i].*g.score, 6, 2));
    }
    print("\n");
  }
}

// When a layer's induction score comes to one half, of the first layer where it does.
std::optional<std::pair<std::int64_t, std::int64_t>> induction_forms(const nn::OverTime& study) {
  std::int64_t layers = 0;
  for (const nn::HeadReport& h : study.moments[0].heads) layers = std::max(layers, h.layer + 1);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto step = nn::first_reached(study, &nn::HeadReport::induction, layer, kHalf);
    if (step && *step > study.moments[0].step) return std::pair{layer, *step};
  }
  return {};
}

void print_events(const nn::OverTime& study) {
  std::string text;
  if (const auto fall = nn::steepest_fall(study))
    text += fmt::format("the loss falls fastest between steps {} and {}\n", fall->from, fall->to);
  if (const auto forms = induction_forms(study))
    text += fmt::format("layer {}: a head's induction score is {} or more from step {} on\n",
                        forms->first, kHalf, forms->second);
  if (!text.empty()) print("\n{}", text);
}

nn::Json series_json(const nn::OverTime& study, const auto& value) {
  nn::Json list = nn::Json::array();
  for (const nn::Moment& m : study.moments) list.push_back(value(m));
  return list;
}

nn::Json over_time_json(const nn::OverTime& study, const std::string& run) {
  nn::Json heads = nn::Json::array(), layers = nn::Json::array();
  for (std::size_t i = 0; i < study.moments[0].heads.size(); ++i) {
    const nn::HeadReport& first = study.moments[0].heads[i];
    nn::Json head = nn::Json::object({{"layer", first.layer}, {"head", first.head}});
    for (const nn::HeadQuantity& q : nn::head_quantities())
      head.append(std::string(q.name),
                  series_json(study, [&](const nn::Moment& m) { return m.heads[i].*q.value; }));
    heads.push_back(std::move(head));
  }
  for (std::size_t i = 0; i < study.moments[0].flow.size(); ++i)
    layers.push_back(nn::Json::object(
        {{"layer", study.moments[0].flow[i].layer},
         {"resid_pre_grad",
          series_json(study, [&](const nn::Moment& m) { return m.flow[i].resid_pre_grad; })},
         {"resid_post_grad",
          series_json(study, [&](const nn::Moment& m) { return m.flow[i].resid_post_grad; })}}));
  nn::Json json = nn::Json::object(
      {{"run", run},
       {"sequences", study.sequences},
       {"optimal_loss", study.optimal},
       {"steps", series_json(study, [](const nn::Moment& m) { return m.step; })},
       {"loss", series_json(study, [](const nn::Moment& m) { return m.loss; })},
       {"counted_loss", series_json(study, [](const nn::Moment& m) { return m.counted_loss; })},
       {"heads", heads},
       {"layers", layers}});
  const auto fall = nn::steepest_fall(study);
  json.append("steepest_fall",
              fall ? nn::Json(std::vector<std::int64_t>{fall->from, fall->to}) : nn::Json());
  return json;
}

}  // namespace

int study_over_time(const OverTimeArguments& a) {
  const std::filesystem::path folder = find_run(a.run);
  const std::vector<nn::CheckpointFile> checkpoints = nn::RunFolder(folder).checkpoints();
  heed::check<autograd::IoError>(
      !checkpoints.empty(), "over-time", folder.string(),
      " has no checkpoints; train with --save-every, as heed train --save-every 10 does");
  const auto first = std::filesystem::relative(checkpoints[0].file, folder);
  nn::LoadedRun run = open_run(folder, first.string(), nn::Use::kSequences);
  const nn::TaskFacts& facts = run.task->facts();
  const auto out = open_study_folder(a.out, folder / "over-time", a.overwrite);
  Progress progress(false);
  const nn::OverTime study = nn::over_time(
      run.model, checkpoints, nn::batch_over_time(run.model, *run.task),
      [&](std::int64_t done, std::int64_t total) {
        progress.at_work(fmt::format("studies the checkpoints: {} of {}", done, total));
      });

  const auto file = [&](const char* name) { return (out->staging() / name).string(); };
  autograd::write_file(file(kCsvFile), std::string_view(nn::over_time_csv(study)));
  nn::Json json = over_time_json(study, folder.string());
  autograd::write_file(file("over_time.json"), std::string_view(json.dump() + "\n"));
  const PictureSource source = source_of(folder, run.model);
  const plot::ChartStack chart = over_time_chart(study, facts, source.run_name());
  plot::write_png(file("over_time.png"), plot::draw_chart_stack(chart),
                  fmt::format("{}. {}", chart.title, chart.caption), png_facts(source));
  progress.at_work("draws the page");
  nn::Generator generator(1);
  const nn::Batch one = run.task->example(generator);
  const nn::Objective loss;
  const auto labels = facts.vocabulary.labels(one.inputs.to_vector<std::int64_t>());
  const StudyWords words = study_words(source, loss, labels, facts);
  const auto page = write_report(
      out->staging(), fmt::format("{}: {} over time", source.run_name(), words.objective),
      {pane_over_time({source, words, one, loss}, run.model, checkpoints, study)},
      nn::Json::array());
  progress.clear();

  std::vector<std::string> files;
  for (const auto& moved :
       out->publish({file(kCsvFile), file("over_time.json"), file("over_time.png"), page}))
    files.push_back(moved.string());
  if (a.json) {
    json.append("files", nn::Json(files));
    print_json(json);
    return kOk;
  }
  print("{}: {} checkpoints on {} sequences, best possible loss {}\n\n", folder.string(),
        checkpoints.size(), study.sequences,
        std::isfinite(study.optimal) ? fmt::format("{:.4f}", study.optimal) : "unknown");
  print_moments(study);
  print_events(study);
  print("\n");
  for (const std::string& name : files) print("{}\n", name);
  return kOk;
}

}  // namespace heed
