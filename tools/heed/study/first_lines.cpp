#include "tools/heed/study/first_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/heed/study/analysis.h"

namespace heed {
namespace {

constexpr std::size_t kMostComponents = 10;

// Returns the first rows and columns of a section's last table of evidence.
void add_largest(FirstLines& lines, const std::vector<Section>& sections, const char* key,
                 const std::string& title) {
  const auto s = std::ranges::find(sections, key, &Section::key);
  if (s == sections.end() || s->tables.empty() || s->finding.empty()) return;
  Table t = s->tables.back();
  t.title = fmt::format("{}: {}", title, s->finding), t.note = "";
  t.rows.resize(std::min<std::size_t>(t.rows.size(), 5));
  lines.tables.push_back(std::move(t));
}

std::string introduction(const nn::ComponentStudy& s, const StudySample& sample) {
  return fmt::format(
      "L is {}: {:.4g} {} on {}{}; without heads {:.4g}{}. effect: change of L with a donor's "
      "output ({} donors).",
      sample.objective, s.value.mean, effect_unit(sample.run.objective), sample.sequences,
      accuracy_text(s.value), s.value.mean + s.no_heads.mean, accuracy_text(s.no_heads),
      sample.donors.rows.size());
}

Table components_table(const nn::ComponentStudy& s) {
  Table t = evidence_table("component", s.rows, s.judgement);
  t.columns.pop_back();  // notes
  const std::size_t shown = std::min(s.judgement.counted, kMostComponents);
  std::vector<std::vector<Value>> rows;
  for (std::size_t n = 0; n < t.rows.size() && rows.size() < shown; ++n)
    if (s.judgement.counts[s.judgement.order[n]]) {
      rows.push_back(t.rows[n]);
      rows.back().pop_back();
    }
  t.rows = std::move(rows);
  if (shown < s.judgement.counted)
    t.note = fmt::format("And {} more that count; --show components.", s.judgement.counted - shown);
  return t;
}

Claim role_claim(const nn::HeadRole& r, const nn::ComponentStudy& s) {
  const nn::Evidence& row = s.rows[r.row];
  Claim c{.text = {}, .components = {row.place}, .role = r.role ? r.role->name() : "other"};
  if (r.role) {
    const bool back = r.role->kind == nn::Pattern::kBack;
    const std::string is =
        back ? "attends " + c.role
             : fmt::format("is {} {} head", c.role[0] == 'i' ? "an" : "a", c.role);
    c.text = fmt::format("{} {} ({:.2f}); its exact pattern changes L by {:+.1g}.", row.place, is,
                         r.score, r.imposed.mean);
  } else {
    c.text = fmt::format("{} has no simple role; where it matters it attends to {}.", row.place,
                         distances_text(r));
  }
  return c;
}

void add_components(FirstLines& lines, StudyContext& context) {
  const nn::ComponentStudy& s = *context.components();
  lines.tables.push_back(components_table(s));
  std::size_t shown = 0;
  for (const std::size_t i : s.judgement.order) {
    if (!s.judgement.counts[i] || shown++ == kMostComponents) continue;
    const auto role = std::ranges::find(context.roles(), i, &nn::HeadRole::row);
    Claim c = role == context.roles().end()
                  ? Claim{.text = {}, .components = {s.rows[i].place}, .role = "other"}
                  : role_claim(*role, s);
    if (s.depends(i))
      c.text +=
          fmt::format("{}{} depends on the replacement: {:+.3g} by zero, {:+.3g} by the mean.",
                      c.text.empty() ? "" : " ",
                      c.text.empty() ? "The effect of " + s.rows[i].place : "Its effect",
                      s.zero[i].mean, s.mean[i].mean);
    lines.claims.push_back(std::move(c));
  }
  if (s.judgement.counted == 0)
    lines.claims.push_back({fmt::format("No head or MLP alone changes L; all heads together: {}.",
                                        effect_text(s.no_heads))});
  for (const nn::Redundancy& r : s.redundant())
    lines.claims.push_back(
        {fmt::format(
             "{} is redundant with {}: alone {:+.2g}; both together {:+.3g} beside the sum.",
             s.rows[r.row].place, s.rows[r.with].place, s.rows[r.row].effect.mean, r.interaction),
         {s.rows[r.row].place},
         "redundant"});
  if (const std::string text = agreement_text(s.judgement); !text.empty())
    lines.claims.push_back({text});
}

}  // namespace

FirstLines first_lines(StudyContext& context, const std::vector<Section>& sections) {
  FirstLines lines;
  if (context.components())
    lines.introduction = introduction(*context.components(), *context.task_sample());
  if (const std::string text = context.not_measured(); !text.empty())
    lines.claims.push_back({text});
  if (context.components() && context.predicts()) add_components(lines, context);
  for (const Section& s : sections)
    for (const std::string& answer : s.answers) lines.claims.push_back({answer});
  if (!context.predicts()) return lines;
  add_largest(lines, sections, "edges", "edges");
  add_largest(lines, sections, "cells", "cells of this string alone (pictures: weights, dA, dS)");
  return lines;
}

}  // namespace heed
