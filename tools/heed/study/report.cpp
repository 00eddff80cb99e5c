#include "tools/heed/study/report.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "autograd/base/files.h"
#include "nn/io/safetensors.h"
#include "nn/study/routes.h"
#include "tools/heed/report/output.h"
#include "tools/heed/study/page/page.h"
#include "tools/heed/study/page_data.h"

namespace heed {
namespace {

PagePane empty_pane(const ReportPane& pane) {
  const std::string run = pane.source.run_name();
  return {pane.what.empty() ? run : run + ", " + pane.what, pane.source.weights,
          pane.words.objective, pane.words.tokens};
}

nn::Json pane_json(const PagePane& pane, const nn::Transformer& model) {
  return pane.json(model.options.layers, model.options.attention.heads);
}

// The first, the last and, of the others, those nearest to the steepest fall, by step.
std::vector<nn::CheckpointFile> telling_moments(const std::vector<nn::CheckpointFile>& all,
                                                const nn::OverTime& study) {
  constexpr std::size_t kMost = 8;
  std::vector<nn::CheckpointFile> chosen = all;
  const auto fall = nn::steepest_fall(study);
  const double middle = fall ? fall->middle() : 0;  // without a fall the earliest
  const std::int64_t first = all.front().step, last = all.back().step;
  const auto rank = [&](const nn::CheckpointFile& c) {
    return c.step == first || c.step == last ? -1.0 : std::abs(double(c.step) - middle);
  };
  std::sort(chosen.begin(), chosen.end(), [&](const auto& a, const auto& b) {
    return std::pair(rank(a), a.step) < std::pair(rank(b), b.step);
  });
  if (chosen.size() > kMost) chosen.resize(kMost);
  std::sort(chosen.begin(), chosen.end(),
            [](const auto& a, const auto& b) { return a.step < b.step; });
  return chosen;
}

}  // namespace

std::vector<nn::Effect> cut_heads(const nn::Transformer& model, const nn::Batch& one,
                                  const nn::Objective& objective) {
  constexpr double kMostFlops = 2e10;
  const double passes = double(model.options.layers * model.options.attention.heads);
  const double flops = 2 * double(nn::count_parameters(model)) * double(one.inputs.numel());
  if (passes * flops > kMostFlops) return {};
  return nn::ablate_each(model, one, objective, nn::Ablation::kZero);
}

nn::Json pane_now(const ReportPane& pane, const nn::Transformer& model, const nn::Study& study,
                  std::optional<std::int64_t> step, const std::vector<nn::Effect>& cuts) {
  PagePane page = empty_pane(pane);
  page.add_moment(step, study, nn::routes(model, study), true, cuts);
  return pane_json(page, model);
}

nn::Json pane_over_time(const ReportPane& pane, nn::Transformer& model,
                        const std::vector<nn::CheckpointFile>& checkpoints,
                        const nn::OverTime& study) {
  PagePane page = empty_pane(pane);
  page.checkpoints = std::int64_t(checkpoints.size());
  const std::vector<nn::CheckpointFile> moments = telling_moments(checkpoints, study);
  for (const nn::CheckpointFile& c : moments) {
    nn::load_parameters(parameters(model), nn::load_safetensors(c.file.string()));
    const nn::Study now = nn::study(model, pane.one, pane.objective);
    page.add_moment(c.step, now, nn::routes(model, now), c.step == moments.back().step);
  }
  return pane_json(page, model);
}

std::filesystem::path write_report(const std::filesystem::path& folder, const std::string& title,
                                   const std::vector<nn::Json>& panes, const nn::Json& tables,
                                   std::optional<nn::HeadIndex> chosen) {
  const std::filesystem::path file = folder / "report.html";
  autograd::write_file(file.string(),
                       study_page(page_data(title, typed_command(), panes, tables, chosen)));
  return file;
}

}  // namespace heed
