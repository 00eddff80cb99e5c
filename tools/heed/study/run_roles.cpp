#include "tools/heed/study/run_roles.h"

#include <map>

namespace heed {
namespace {

// Returns the columns of the roles: `run`, one for each role, `other`, `value` and `left_alone`.
Columns role_columns() {
  static const std::vector<Column> all = [] {
    std::vector<Column> columns{{"run", "run"}};
    for (const nn::Role& role : nn::roles()) columns.push_back({role.name, role.name});
    columns.insert(columns.end(), {{"other", "other"},
                                   {"value", "L", "", "{:.4g}"},
                                   {"left_alone", "left alone", "", "percent"}});
    return columns;
  }();
  return {all.data(), all.size()};
}

}  // namespace

Columns run_role_keys() {
  static const Column all[] = {rows("runs", role_columns())};
  return all;
}

Report run_roles(std::vector<Subject>& runs, const HeadArguments& a, const Command& c) {
  Report report(run_role_keys());
  Table& table = report.table("runs");
  table.note =
      "The heads that change L, by their main role, on sequences of each run's own task. L is the "
      "margin, or the log probability of the targets if the targets are random. left alone: the "
      "share of the difference that heads make to L, with these heads alone. heed study RUN "
      "explains one run.";
  Progress progress(false);
  for (Subject& s : runs) {
    const HeadStudy heads = study_heads(a, c, s, progress);
    std::map<std::string_view, std::string> by_role;
    for (const nn::HeadFinding& f : heads.summary.findings)
      if (f.matters())
        by_role[f.role()] += (by_role[f.role()].empty() ? "" : " ") + nn::head_name(f.head->report);
    std::vector<Value> row{s.folder()};
    for (const nn::Role& role : nn::roles()) row.push_back(by_role[role.name]);
    row.push_back(by_role["other"]);
    if (!heads.measured || !s.predicts)
      table.note = s.folder() + ": " + heads.not_measured + " " + table.note;
    row.push_back(heads.measured ? Value(heads.measured->value.mean) : Value());
    row.push_back(heads.summary.left_alone);
    table.add(std::move(row));
  }
  progress.clear();
  return report;
}

}  // namespace heed
