#include "nn/study/roles.h"

#include <algorithm>

#include "nn/study/forward_passes.h"

namespace heed::nn {

namespace {

constexpr Role kRoles[] = {
    {"induction", "the tokens that followed earlier copies of the current token", kInduction},
    {"previous-token", "the token before", kPreviousToken},
    {"duplicate-token", "earlier copies of the current token", kDuplicateToken},
    {"first-token", "the first token", kFirstToken},
    {"current-token", "the current token itself", kCurrentToken},
    {"uniform", "all tokens about equally", kRelativeEntropy}};
constexpr const Role& kUniform = kRoles[std::size(kRoles) - 1];

}  // namespace

std::vector<const Role*> roles_of(const HeadReport& head, const HeadReport& uniform) {
  std::vector<const Role*> found;
  for (const Role& role : kRoles) {
    if (&role == &kUniform) continue;
    const double score = head[role.score];
    if (score >= kLeastScore && score >= 3 * uniform[role.score]) found.push_back(&role);
  }
  if (found.empty() && head[kUniform.score] >= 0.9) found.push_back(&kUniform);
  std::ranges::stable_sort(found, std::greater<>(), [&](const Role* r) { return head[r->score]; });
  return found;
}

KeptShare kept_share(const BaseRun& run, const std::vector<Component>& cut,
                     const Replacement& replaced, bool with_mlps) {
  std::vector<Component> all = other_components(run.model(), {});
  for (std::int64_t layer = 0; with_mlps && layer < run.model().options.layers; ++layer)
    all.push_back(Component::mlp(layer));
  double accuracy = NAN;
  const auto none = values_without(run, all, replaced),
             left = values_without(run, cut, replaced, &accuracy);
  double gained = 0, kept = 0;
  for (std::size_t b = 0; b < left.size(); ++b)
    gained += run.values[b] - none[b], kept += left[b] - none[b];
  const bool counts = std::abs(gained) >= smallest_effect(run.objective) * double(left.size());
  KeptShare share{effect_of(run.changes(left)), counts ? kept / gained : NAN};
  share.effect.accuracy = accuracy;
  return share;
}

HeadSummary summarize_heads(const BaseRun& run, const Replacement& replaced,
                            const MeasuredHeads& measured, bool predicts) {
  HeadSummary s;
  s.judgement = judge(measured.effects, predicts ? smallest_effect(run.objective) : HUGE_VAL,
                      measured.reports.size());
  for (std::size_t i = 0; i < measured.effects.size(); ++i) {
    const Judgement::Row& row = s.judgement.rows[i];
    Finding& f = s.findings.emplace_back(Finding{i, {}, {}, row.counts, row.suffices_counts});
    if (i >= measured.reports.size()) continue;  // an MLP has no report
    f.head = measured.reports[i];
    if (predicts) f.roles = roles_of(measured.reports[i], measured.uniform);
    if (f.matters()) s.named.push_back(*f.head);
  }
  for (const Role& role : kRoles) {
    std::vector<HeadIndex> heads;
    for (const Finding& f : s.findings)
      if (f.matters() && !f.roles.empty() && f.roles[0] == &role) heads.push_back(*f.head);
    if (!heads.empty())
      s.by_role.push_back({&role, heads, ablate(run, components(heads), replaced)});
  }
  const double floor = s.judgement.floor_of(measured.no_heads),
               difference = std::abs(measured.no_heads.mean);
  s.heads_change_L =
      !s.named.empty() || difference >= floor * std::sqrt(double(measured.reports.size()));
  if (s.named.empty() || difference < floor) return s;
  const std::vector<Component> named = components(s.named);
  s.left_without = kept_share(run, named, replaced).left;
  s.left_alone = kept_share(run, other_components(run.model(), named), replaced).left;
  return s;
}

}  // namespace heed::nn
