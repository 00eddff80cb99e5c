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
  if (s == sections.end() || s->tables.empty() || s->measured.empty()) return;
  Table t = s->tables.back();
  t.title = fmt::format("{}: {}", title, s->measured), t.note = "";
  t.rows.resize(std::min<std::size_t>(t.rows.size(), 5));
  lines.tables.push_back(std::move(t));
}

std::string introduction(const lab::ComponentStudy& s, const StudySample& sample) {
  return fmt::format(
      "L is {}: {:.4g} {} on {}{}; with all heads replaced {:.4g}{}. effect: change of L if the "
      "output is that on another sequence (mean of {}); accuracy: after that. path, gradient: "
      "predictions. role: a pattern that alone would keep L, and its mean weight.",
      sample.objective, s.value.mean, effect_unit(sample.run.objective), sample.sequences,
      accuracy_text(s.value), s.value.mean + s.no_heads.mean, accuracy_text(s.no_heads),
      sample.donors.rows.size());
}

// Returns the role of a component, or null if it is an MLP.
const lab::HeadRole* role_of(StudyContext& context, std::size_t row) {
  const auto role = std::ranges::find(context.roles(), row, &lab::HeadRole::row);
  return role == context.roles().end() ? nullptr : &*role;
}

Table components_table(const lab::ComponentStudy& s, StudyContext& context) {
  Table t = evidence_table("component", s.rows, s.judgement);
  t.columns.back() = {"role"};  // in place of notes
  const std::size_t shown = std::min(s.judgement.counted, kMostComponents);
  std::vector<std::vector<Value>> rows;
  for (std::size_t n = 0; n < t.rows.size() && rows.size() < shown; ++n) {
    const std::size_t i = s.judgement.order[n];
    if (!s.judgement.counts[i]) continue;
    const lab::HeadRole* role = role_of(context, i);
    rows.push_back(t.rows[n]);
    rows.back().back() =
        role && role->role ? fmt::format("{} {:.2f}", role->role->name(), role->score) : "";
  }
  t.rows = std::move(rows);
  if (shown < s.judgement.counted)
    t.note = fmt::format("And {} more that count; --show components.", s.judgement.counted - shown);
  return t;
}

Claim role_claim(const lab::HeadRole& r, const lab::ComponentStudy& s) {
  const lab::Evidence& row = s.rows[r.row];
  Claim c{.text = {}, .components = {row.place}, .role = r.role ? r.role->name() : "other"};
  if (r.role) {
    const bool back = r.role->kind == lab::Pattern::kBack;
    const std::string is =
        back ? "attends " + c.role
             : fmt::format("is {} {} head", c.role[0] == 'i' ? "an" : "a", c.role);
    c.text = fmt::format("{} {} ({:.2f}); with exactly this pattern L changes by {:+.1g}.",
                         row.place, is, r.score, r.imposed.mean);
    c.in_table = true;
  } else {
    c.text = fmt::format("{} has no simple role; its largest mean weights: {}.", row.place,
                         distances_text(r));
  }
  return c;
}

void add_components(FirstLines& lines, StudyContext& context) {
  const lab::ComponentStudy& s = *context.components();
  lines.tables.push_back(components_table(s, context));
  std::size_t shown = 0;
  for (const std::size_t i : s.judgement.order) {
    if (!s.judgement.counts[i] || shown++ >= kMostComponents) continue;
    const lab::HeadRole* role = role_of(context, i);
    lines.claims.push_back(
        role ? role_claim(*role, s)
             : Claim{.text = {}, .components = {s.rows[i].place}, .role = "other"});
    if (s.depends(i))
      lines.claims.push_back(
          {fmt::format("The effect of {} depends on the replacement: {:+.3g} by zero, {:+.3g} by "
                       "the mean.",
                       s.rows[i].place, s.zero[i].mean, s.mean[i].mean),
           {s.rows[i].place}});
  }
  if (s.judgement.counted == 0)
    lines.claims.push_back({fmt::format("No head or MLP alone changes L; all heads together: {}.",
                                        effect_text(s.no_heads))});
  for (const lab::Redundancy& r : s.redundant())
    lines.claims.push_back(
        {fmt::format("{0} is redundant with {1}: {2:+.2g} alone, {3:+.3g} once {1} is replaced.",
                     s.rows[r.row].place, s.rows[r.with].place, s.rows[r.row].effect.mean,
                     s.rows[r.row].effect.mean + r.interaction),
         {s.rows[r.row].place},
         "redundant"});
  if (const std::string text = agreement_text(s.judgement); !text.empty())
    for (const std::string& line : split(text, '\n')) lines.claims.push_back({line});
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
  add_largest(lines, sections, "edges", "largest edges (from:input:to)");
  add_largest(lines, sections, "cells", "largest cells of this string (pictures: weights, dA, dS)");
  return lines;
}

}  // namespace heed
