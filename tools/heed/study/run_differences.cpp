#include "tools/heed/study/run_differences.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/ops.h"
#include "nn/study/matching.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/study/page_data.h"
#include "tools/heed/study/study_files.h"
#include "tools/heed/study/study_pictures.h"

namespace heed {
namespace {

struct StudiedPair {
  const Subject &a, &b;
  nn::Study study_a, study_b;
  bool equal_start;                    // the runs begin with equal weights
  std::vector<nn::HeadMatch> matches;  // by patterns, unless equal_start
  nn::Study difference;                // B minus A
};

void check_same_tokens(const Subject& a, const std::string& b_folder, const nn::TaskInfo& y) {
  const nn::TaskInfo& x = a.info();
  if (x.vocabulary.symbols() != y.vocabulary.symbols())
    usage_error("{} reads {}, but {} reads {}; give runs with the same vocabulary", a.folder(),
                x.vocabulary.summary(), b_folder, y.vocabulary.summary());
  if (x.classes != y.classes)
    usage_error("{} predicts {} tokens, but {} predicts {}; give runs that predict the same tokens",
                a.folder(), x.classes, b_folder, y.classes);
  if (const std::int64_t length = a.sequence.inputs.numel(); length > y.context)
    usage_error(
        "the sequence has {} tokens, but {} reads at most {}; give a shorter sequence with "
        "--prompt",
        length, b_folder, y.context);
}

// ---- pictures

// Returns which heads correspond to each other, as sentences.
std::string matches_text(const StudiedPair& s) {
  if (s.equal_start)
    return "Both runs begin with equal weights, so heads with the same number correspond.";
  std::vector<std::string> close, apart;
  for (const nn::HeadMatch& m : s.matches) {
    if (!m.b) continue;
    (m.is_close ? close : apart)
        .push_back(
            fmt::format("{} ~ {} ({:.2f})", nn::head_name(m.a), nn::head_name(*m.b), m.cosine));
  }
  std::string text =
      "Heads of A and B are matched by the cosine of their mean attention patterns: " +
      (close.empty() ? "none is close" : heed::join(close, ", ")) + ".";
  if (!apart.empty()) text += " Not subtracted, below 0.7: " + heed::join(apart, ", ") + ".";
  return text;
}

Picture picture_of(std::string file, plot::HeatmapGrid grid, const StudiedPair& s) {
  grid.row_labels = grid.col_labels = s.a.texts.tokens;
  grid.masked = "hidden by the mask";
  return {std::move(file), std::move(grid),
          fmt::format("Run A is {}, run B is {} (weights {}). L is {}. {}", s.a.folder(),
                      s.b.folder(), s.b.source.weights, s.a.texts.objective, matches_text(s)),
          true};
}

std::string runs_text(const StudiedPair& s) {
  return fmt::format("A: {}; B: {}.", s.a.source.run_name(), s.b.source.run_name());
}

// Returns the title of the panel of a match: "L1H0", or "L1H0 ~ L1H1" if the numbers differ.
std::string title_of(const nn::HeadMatch& m) {
  const std::string name = nn::head_name(m.a);
  return !m.b || *m.b == m.a ? name : fmt::format("{} ~ {}", name, nn::head_name(*m.b));
}

// Returns the attention weights of matched heads side by side, with a row of panels for each layer.
Picture both_weights(const StudiedPair& s) {
  const auto grid_of = [](const nn::Study& study) {
    return heads_grid(study.by_layer(&nn::LayerStudy::pattern),
                      study.by_layer(&nn::LayerStudy::scores));
  };
  plot::HeatmapGrid grid = grid_of(s.study_a);
  const std::vector<plot::Panel> of_a = std::move(grid.panels), of_b = grid_of(s.study_b).panels;
  grid.panels.clear();
  const auto panel = [&](const std::vector<plot::Panel>& panels, const nn::HeadIndex& h,
                         const char* run) {
    grid.panels.push_back(*std::ranges::find(panels, nn::head_name(h), &plot::Panel::title));
    grid.panels.back().title += run;
  };
  for (const nn::HeadMatch& m : s.matches) {
    if (!m.b) continue;
    panel(of_a, m.a, ", run A");
    panel(of_b, *m.b, ", run B");
  }
  grid.panel_columns *= 2;
  grid.title = "Attention weights in two runs";
  grid.caption = runs_text(s);
  if (2 * std::max(s.study_a.heads.size(), s.study_b.heads.size()) > grid.panels.size())
    grid.caption += " Only heads that both runs have.";
  grid.value_name = "attention weight";
  grid.limit = 1;
  return picture_of("weights", std::move(grid), s);
}

Picture difference_picture(const StudiedPair& s, const nn::MapQuantity& quantity) {
  plot::HeatmapGrid grid = heads_grid(s.difference.by_layer(quantity.values),
                                      s.difference.by_layer(&nn::LayerStudy::scores));
  for (std::size_t i = 0; i < grid.panels.size(); ++i)
    grid.panels[i].title = title_of(s.matches[i]) + (s.matches[i].is_close ? "" : ", no match");
  grid.scale = plot::ColorScale::kDiverging;
  grid.title = fmt::format("{}: run B minus run A", quantity.picture.value_name);
  grid.caption = runs_text(s) + " Orange: larger in B; blue: larger in A.";
  grid.limit = largest_magnitude(grid);
  grid.value_name = "run B - run A";
  return picture_of(fmt::format("{}_difference", quantity.picture.file), std::move(grid), s);
}

Section section_of(const StudiedPair& s) {
  Section section{.key = "runs",
                  .title = fmt::format("Heads of two runs. {}", runs_text(s)),
                  .sentences = {fmt::format("L is {}{}.", s.a.texts.objective,
                                            s.a.objective.kind == nn::Objective::kMargin
                                                ? "; B is measured with the tokens of A"
                                                : ""),
                                matches_text(s)},
                  .pictures = {both_weights(s)}};
  for (const nn::MapQuantity& q : nn::map_quantities())
    if (!q.picture.file.empty()) section.pictures.push_back(difference_picture(s, q));
  return section;
}

constexpr Column kComparison[] = {
    {"format"}, {"runs"}, {"objective"}, {"values"}, fields("sections", kSectionKeys), {"files"}};

// Returns sequences of run A's task that both models can read, [B, T].
nn::Tensor sequences_of_both(const Subject& a, const Subject& b) {
  if (!a.has_sequences) return a.sequence.inputs;
  constexpr std::int64_t kSequences = 32;
  const nn::Task& task = *a.run->task;
  const nn::Tensor inputs = task.evaluation(0, std::min(kSequences, task.evaluation_size())).inputs;
  return slice(inputs, 1, 0, std::min(inputs.size(1), b.info().context));
}

}  // namespace

Columns run_difference_keys() { return kComparison; }

Report run_differences(const Subject& a, const std::string& other, const std::string& weights,
                       const std::string& out, bool overwrite) {
  const std::filesystem::path b_folder = find_run(other);
  const auto run = std::make_shared<nn::LoadedRun>(open_run(b_folder, weights, nn::Use::kPrompts));
  check_same_tokens(a, b_folder.string(), run->task->info());
  const Subject b(b_folder, run, a.sequence, a.objective);
  const auto folder = open_study_folder(out, a.source.run / "compared", overwrite);
  Progress progress(false);
  progress.at_work("Running both models forward and backward");
  StudiedPair s{a, b, a.study(), b.study(), false, {}, {}};
  s.equal_start = nn::equal_at_start(a.run->config, *a.run->task, b.run->config, *b.run->task);
  s.matches = nn::match_heads(a.model(), b.model(), sequences_of_both(a, b), s.equal_start);
  s.difference = nn::difference_of(s.study_a, s.study_b, s.matches);
  progress.at_work("Drawing pictures");
  const std::vector<Section> sections{section_of(s)};
  const Files files = write_document(
      *folder, a.source,
      fmt::format("{} and {}: {}", a.source.run_name(), b.source.run_name(), a.texts.objective),
      sections, pane_data({pane_of(a, s.study_a), pane_of(b, s.study_b)}));
  folder->complete();
  Report report(kComparison);
  report.set("format", kStudyFormat);
  report.set("runs", std::vector<std::string>{a.folder(), b.folder()});
  report.set("objective", a.objective_text());
  report.set("values", std::vector<double>{s.study_a.value, s.study_b.value});
  report.set("sections", sections_json(sections));
  report.line("A {}: {} = {:.6f}", a.folder(), a.objective_text(), s.study_a.value);
  report.line("B {}: {} = {:.6f}", b.folder(), a.objective_text(), s.study_b.value);
  add_section(report, sections[0], true);
  report.files(files);
  return report;
}

}  // namespace heed
