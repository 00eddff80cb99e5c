#include "tools/heed/study/path_evidence.h"

#include <fmt/format.h>

namespace heed {

nn::PathCutter path_cutter(StudyContext& c) {
  const HeadSample& e = c.sample();
  return {e.run, e.replaced, c.flag("through-mlps")};
}

void check_has_edges(const StudyContext& c) {
  const nn::Transformer::Options& o = c.model().options;
  if (o.norm == nn::NormPlacement::kPost)
    usage_error(
        "edges and paths: this model normalizes the stream after each sum (norm = post), "
        "so a receiver cannot read the output of one component alone");
  if (c.flag("through-mlps") && !o.mlp)
    usage_error("--through-mlps: this model does not have MLPs");
}

void add_cuts(Section& s, const std::string& title, const std::vector<nn::Evidence>& rows,
              StudyContext& c, const std::string& file) {
  const HeadSample& e = c.sample();
  const nn::Judgement j = c.judge(rows, e.run.objective);
  if (s.sentences.empty())
    s.sentences = {fmt::format(
        "L0H0:K:L1H1: the keys of L1H1 read the stream with the output of L0H0 replaced by {}; "
        "only "
        "the last receiver of a path changes the run. L is {}. gradient: the prediction through "
        "this path alone.{}",
        e.replacement, e.objective_text,
        c.flag("through-mlps") ? " MLPs between the two are computed again." : "")};
  s.tables.push_back(evidence_table("cut", rows, j, c.has_marks(e), true));
  const std::string what = fmt::format("{}: change of L in {}, means over {}", title,
                                       effect_unit(e.run.objective), e.sequences);
  if (s.tables.size() > 1) s.tables.back().title = what;
  s.tables.back().note = c.has_marks(e) ? agreement_text(j) : "";
  if (s.tables.size() == 1) s.title = what;
  s.finding = finding_of(rows, j);
  if (file.empty()) return;
  plot::ChartStack chart = evidence_chart(rows, j);
  chart.title = title;
  chart.caption += " Means over " + e.sequences + ". L is " + e.objective_text + ".";
  s.pictures.push_back({file, std::move(chart),
                        "Each bar is the change of L if one receiver reads the stream with the "
                        "component's output replaced."});
}

}  // namespace heed
