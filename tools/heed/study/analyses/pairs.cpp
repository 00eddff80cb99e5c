// Pairs of heads that are cut together (--ablate all).
#include "tools/heed/study/analysis.h"

namespace heed {
namespace {

constexpr std::size_t kMostHeads = 8;

Section pairs_of_heads(StudyContext& c) {
  const HeadSample& sample = *c.heads.sample;
  const auto rows = nn::pair_effects(sample.run, sample.replaced, *c.heads.measured);
  const nn::Judgement j = c.judge(rows, sample.run.objective);
  return {.key = "pairs",
          .title = "Pairs of heads, means over " + sample.sequences,
          .sentences = {"effect: L without both heads, minus L. sum: needed of one plus needed of "
                        "the other. The effect is larger if the heads stand in for each other."},
          .tables = {evidence_table("heads", rows, j, false, true)},
          .finding = finding_of(rows, j)};
}

const Analysis kPairs{.key = "pairs",
                      .order = 30,
                      .by_shared =
                          [](const StudyContext& c) {
                            return c.arguments.ablate == "all" && c.heads.measured &&
                                   c.heads.measured->reports.size() <= kMostHeads;
                          },
                      .shared = "--ablate all (up to 8 heads)",
                      .repeats = false,
                      .run = pairs_of_heads};

}  // namespace
}  // namespace heed
