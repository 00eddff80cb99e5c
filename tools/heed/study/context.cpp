#include "tools/heed/study/context.h"

#include <fmt/format.h>

#include <algorithm>

#include "autograd/base/text.h"
#include "tools/heed/study/analysis.h"

namespace heed {
namespace {

std::vector<const Analysis*>& registered() {
  static std::vector<const Analysis*> all;
  return all;
}

}  // namespace

// `analysis` is under construction. `registration` is its last member, so all other members have
// their values.
Registration::Registration(const Analysis& analysis) {
  std::vector<const Analysis*>& all = registered();
  all.insert(std::ranges::upper_bound(all, analysis.order, {}, &Analysis::order), &analysis);
}

const std::vector<const Analysis*>& analyses() { return registered(); }

bool Analysis::is_asked(const StudyContext& context) const {
  if (by_shared && by_shared(context)) return true;
  return std::ranges::any_of(options, [&](const Option& o) { return context.given(o.key); });
}

bool Analysis::runs(StudyContext& context) const {
  if (is_asked(context)) return true;
  return by_default ? by_default(context) : options.empty() && !by_shared;
}

std::string Analysis::advice() const {
  std::vector<std::string> keys;
  for (const Option& o : options) keys.push_back(std::string("--") + o.key);
  if (*shared) keys.emplace_back(shared);
  return "add " + heed::join(keys, " or ");
}

nn::ProgressCallback StudyContext::counting(std::string what) const {
  return [what = std::move(what), this](std::int64_t done, std::int64_t total) {
    progress.at_work(fmt::format("{}: {} of {}", what, done, total));
  };
}

const nn::Study& StudyContext::study() {
  if (!computed.study) computed.study = subject.study();
  return *computed.study;
}

std::vector<nn::HeadReport> StudyContext::reports() {
  std::vector<nn::HeadReport> all = study().heads;
  for (std::size_t i = 0; heads.measured && i < all.size(); ++i)
    heads.add_measured(all[i], heads.measured->reports[i]);
  return all;
}

nn::HeadReport StudyContext::uniform() {
  nn::HeadReport equal = study().uniform;
  if (heads.measured) heads.add_measured(equal, heads.measured->uniform);
  return equal;
}

Value StudyContext::mark(std::size_t head) const {
  if (!heads.measured || !has_marks(*heads.sample)) return {};
  return nn::mark_text(heads.summary.judgement.rows[head]);
}

const HeadSample& StudyContext::sample() {
  if (!computed.sample) computed.sample = effect_sample(heads, arguments, command, subject);
  return *computed.sample;
}

const NotableCells& StudyContext::cells() {
  if (computed.cells) return *computed.cells;
  // A pass over a long sequence takes long. At most 2 * count cells are cut, and the text shows 20.
  const std::int64_t count = std::ssize(subject.texts.tokens) > 128 ? 12 : 32;
  NotableCells& all = computed.cells.emplace(NotableCells{nn::notable_cells(study(), count)});
  std::vector<std::vector<nn::Cell>> sets;
  for (const nn::Cell& cell : all.cells) sets.push_back({cell});
  all.evidence = nn::cut_cells(subject.base(), study(), sets);
  all.judgement = judge(all.evidence, subject.objective);
  return all;
}

}  // namespace heed
