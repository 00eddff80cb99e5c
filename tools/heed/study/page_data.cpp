#include "tools/heed/study/page_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "autograd/base/files.h"
#include "nn/study/blocks.h"
#include "tools/heed/report/output.h"
#include "tools/heed/study/page/page.h"
#include "tools/heed/study/study_pictures.h"

namespace heed {
namespace {

// Adds the maps [1, H, T, T] of one layer to `list`. In long sequences, blocks of cells are reduced
// to one cell by `rule`.
void add_maps(nn::Json& list, std::int64_t layer, const nn::Tensor& maps, const nn::Tensor& scores,
              nn::BlockRule rule) {
  const std::vector<nn::BlockMap> heads = nn::block_maps(maps, scores, rule);
  for (std::size_t h = 0; h < heads.size(); ++h) {
    nn::Json entry = nn::Json::object({{"layer", layer}, {"head", h}});
    entry.update(encode_map(heads[h].values, heads[h].size, true, heads[h].hidden));
    list.push_back(entry);
  }
}

// Returns the values with seven significant digits, which take half the space of all digits. The
// page shows at most six.
std::vector<double> rounded(std::vector<double> values) {
  for (double& x : values) x = std::strtod(fmt::format("{:.7g}", x).c_str(), nullptr);
  return values;
}

// Returns the routes of one layer as JSON. They include the maps Routes::from if `with_from` is
// set.
nn::Json routes_json(const nn::Routes& r, const nn::Tensor& scores, bool with_from) {
  const nn::BlockRoutes blocks = nn::block_routes(r);
  nn::Json parts = nn::Json::array(), from = nn::Json::array();
  for (std::size_t p = 0; p < r.parts.size(); ++p)
    parts.push_back(nn::Json::object({{"name", r.parts[p]}, {"share", rounded(blocks.shares[p])}}));
  if (with_from) add_maps(from, r.layer, r.from, scores, nn::BlockRule::kSum);
  return nn::Json::object({{"total", rounded(blocks.total)}, {"parts", parts}, {"from", from}});
}

}  // namespace

void PagePane::add_checkpoint(std::optional<std::int64_t> step, const nn::Transformer* model,
                              const nn::Study& study, bool complete, StudyContext* context) {
  nn::Json rows = nn::Json::array(), maps = nn::Json::object(), blocks = nn::Json::array();
  const std::vector<nn::HeadReport> reports = context ? context->reports() : study.heads;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const nn::HeadReport& h = reports[i];
    nn::Json row =
        nn::Json::object({{"layer", h.layer},
                          {"head", h.head},
                          {"values", std::vector<double>(h.values.begin(), h.values.end())}});
    if (context && context->heads.measured) row.append("mark", context->mark(i));
    rows.push_back(row);
  }
  for (const nn::MapQuantity& m : nn::map_quantities()) {
    if (!complete && !m.for_every_checkpoint) continue;
    nn::Json list = nn::Json::array();
    for (std::size_t l = 0; l < study.layers.size(); ++l)
      add_maps(list, std::int64_t(l), study.layers[l].*m.values, study.layers[l].scores,
               nn::BlockRule::kLargest);
    maps.append(std::string(m.name), list);
  }
  for (std::int64_t l = 0; model && l < std::ssize(study.layers); ++l)
    blocks.push_back(
        routes_json(nn::routes(*model, study, l), study.layers[std::size_t(l)].scores, complete));
  checkpoints.push_back(nn::Json::object({{"step", step},
                                          {"value", study.value},
                                          {"heads", rows},
                                          {"maps", maps},
                                          {"routes", blocks}}));
}

void PagePane::add_cells(const NotableCells& cuts) {
  for (std::size_t i = 0; i < cuts.cells.size(); ++i) {
    const nn::Cell& c = cuts.cells[i];
    cells.push_back(nn::Json::object({{"layer", c.head.layer},
                                      {"head", c.head.head},
                                      {"query", c.query},
                                      {"key", c.key},
                                      {"effect", cuts.evidence[i].effect.mean}}));
  }
}

nn::Json PagePane::json() const {
  const auto length = std::int64_t(tokens.size()), block = nn::block_length(length);
  nn::Json pane = nn::Json::object({{"name", name},
                                    {"hash", hash},
                                    {"objective", objective},
                                    {"tokens", block_labels(tokens)},
                                    {"length", length},
                                    {"block", block},
                                    {"layers", layers},
                                    {"heads", heads},
                                    {"saved_checkpoints", saved_checkpoints},
                                    {"checkpoints", checkpoints}});
  if (!cells.items().empty()) pane.append("cells", cells);
  if (!loss_curve.empty()) {
    nn::Json curve = nn::Json::array();
    for (const auto& [step, loss] : loss_curve)
      curve.push_back(std::vector<double>{double(step), loss});
    pane.append("loss_curve", curve);
  }
  if (block > 1) {
    pane.append("texts", tokens);
    pane.append("block_rule",
                "the value of the largest magnitude among the cells that the mask does not hide; "
                "for routes, "
                "the sum");
  }
  return pane;
}

PagePane make_pane(const Subject& s, const std::string& label) {
  const std::string run = s.source.run_name();
  const nn::Transformer::Options& o = s.model().options;
  return {label.empty() ? run : run + ", " + label,
          s.source.weights,
          s.texts.objective,
          s.texts.tokens,
          o.layers,
          o.attention.heads};
}

PagePane pane_of(const Subject& s, const nn::Study& study, const std::string& label,
                 StudyContext* context) {
  PagePane pane = make_pane(s, label);
  pane.add_checkpoint(s.run->step, &s.model(), study, true, context);
  return pane;
}

Files write_document(const std::filesystem::path& folder, const PictureSource& source,
                     const std::string& title, const std::vector<Section>& sections,
                     nn::Json page) {
  Files files = draw_sections(folder, sections, source);
  for (const Section& s : sections) append(files, s.files);
  page.update(nn::Json::object({{"title", title},
                                {"sections", sections_json(sections)},
                                {"heed", version_text()},
                                {"command", typed_command()}}));
  files.push_back(folder / "report.html");
  autograd::write_file(files.back().string(), study_page(page));
  return files;
}

nn::Json pane_data(const std::vector<PagePane>& panes) {
  nn::Json quantities = nn::Json::array(), columns = nn::Json::array(), shown = nn::Json::array();
  for (const PagePane& pane : panes) shown.push_back(pane.json());
  for (const nn::MapQuantity& m : nn::map_quantities())
    quantities.push_back(nn::Json::object({{"name", m.name},
                                           {"title", m.title},
                                           {"unit", ""},
                                           {"signed", m.is_signed},
                                           {"what", m.what}}));
  for (const nn::HeadQuantity& q : nn::head_quantities())
    columns.push_back(nn::Json::object({{"name", q.name},
                                        {"unit", q.unit},
                                        {"what", q.what},
                                        {"main", !q.column.heading.empty()}}));
  return nn::Json::object(
      {{"quantities", quantities}, {"head_columns", columns}, {"panes", shown}});
}

}  // namespace heed
