#include "tools/heed/sweep/sweep_progress.h"

#include <algorithm>
#include <cmath>

#include "tools/heed/report/output.h"

namespace heed {

// nn::flops_per_token needs the model, whose vocabulary a task knows when its data is
// read: more than a sweep does for runs that wait. Only ratios of these numbers count, and only for
// the time that is left.
double work_of(const nn::RunConfig& c) {
  constexpr double kVocabulary = 64;
  const double width = double(c.model.attention.d_model),
               tokens = double(c.batch) * double(c.model.context);
  const double of_mlp = c.model.mlp ? 2 * c.model.mlp_ratio : 0;
  const double of_layer = width * width * (4 + of_mlp) + 2 * double(c.model.context) * width;
  return double(c.steps) * tokens * (double(c.model.layers) * of_layer + kVocabulary * width);
}

double SweepPace::left(double waiting, const std::vector<RunningWork>& running,
                       std::size_t jobs) const {
  const double pace = work_ / seconds_;  // NaN before the first
  double longest = 0, all = waiting;
  for (const RunningWork& run : running) {
    const double rest = std::max(run.work - run.seconds * pace, 0.0);
    all += rest;
    longest = std::max(longest, rest);
  }
  return std::max(all / double(jobs), longest) / pace;
}

std::string progress_text(const SweepCounts& counts, double seconds_left) {
  std::string text = fmt::format("{} of {} runs done", counts.done, counts.runs);
  if (counts.failed > 0) text += fmt::format(", {} failed", counts.failed);
  if (counts.running > 0) text += fmt::format(", {} at work", counts.running);
  if (counts.elsewhere > 0) text += fmt::format(", {} at work in another heed", counts.elsewhere);
  if (std::isfinite(seconds_left) && counts.done < counts.runs)
    text += fmt::format(", {} left", short_duration(seconds_left));
  return text;
}

}  // namespace heed
