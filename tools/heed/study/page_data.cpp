#include "tools/heed/study/page_data.h"

#include <fmt/format.h>

#include <cstdlib>

#include "autograd/base/files.h"
#include "nn/study/blocks.h"
#include "nn/study/routes.h"
#include "tools/heed/report/output.h"
#include "tools/heed/study/page/page.h"
#include "tools/heed/study/study_pictures.h"
#include "tools/plot/plot.h"

namespace heed {
namespace {

// Adds the maps [1, H, T, T] of one layer to `list`. In long sequences, blocks of cells are reduced
// to one cell by `rule`.
void add_maps(nn::Json& list, std::int64_t layer, const nn::Tensor& maps, const nn::Tensor& scores,
              nn::BlockRule rule) {
  const std::vector<nn::BlockMap> heads =
      nn::block_maps(maps, scores, nn::block_length(maps.size(2)), rule);
  for (std::size_t h = 0; h < heads.size(); ++h) {
    nn::Json entry = nn::Json::object({{"layer", layer}, {"head", h}});
    entry.update(encode_map(heads[h]));
    list.push_back(entry);
  }
}

// Returns the values with seven significant digits, which take half the space of all digits. The
// page shows at most six.
std::vector<double> rounded(std::vector<double> values) {
  for (double& x : values) x = std::strtod(fmt::format("{:.7g}", x).c_str(), nullptr);
  return values;
}

nn::Json routes_json(const nn::Routes& r) {
  const nn::BlockRoutes blocks = nn::block_routes(r);
  nn::Json parts = nn::Json::array();
  for (std::size_t p = 0; p < r.parts.size(); ++p)
    parts.push_back(
        nn::Json::object({{"name", r.parts[p]}, {"values", rounded(blocks.values[p])}}));
  return nn::Json::object({{"total", rounded(blocks.total)}, {"parts", parts}});
}

// Returns the description of a map for the page.
nn::Json quantity_json(std::string_view name, std::string_view title, bool is_signed,
                       std::string_view what) {
  return nn::Json::object(
      {{"name", name}, {"title", title}, {"signed", is_signed}, {"what", what}});
}

// Returns the charts and networks of each section, which the page shows as SVG.
nn::Json pictures_json(const std::vector<Section>& sections) {
  nn::Json by_section = nn::Json::object();
  for (const Section& s : sections) {
    nn::Json list = nn::Json::array();
    for (const Picture& p : s.pictures) {
      if (std::holds_alternative<plot::HeatmapGrid>(p.drawing)) continue;
      list.push_back(std::visit(
          [&](const auto& drawing) {
            plot::SvgCanvas svg;
            draw(drawing, svg);
            return nn::Json::object({{"title", drawing.title},
                                     {"what", description_of(p)},
                                     {"svg", svg.encode(drawing.title, description_of(p))}});
          },
          p.drawing));
    }
    by_section.append(s.key, list);
  }
  return by_section;
}

constexpr const char* kRoutesFrom = "routes_from";  // the map Routes::from

}  // namespace

nn::Json checkpoint_json(std::optional<std::int64_t> step, const nn::Transformer& model,
                         const nn::Study& study, bool complete) {
  nn::Json maps = nn::Json::object(), routes = nn::Json::array(), from = nn::Json::array();
  for (const nn::MapQuantity& m : nn::map_quantities()) {
    if (!complete && !m.for_every_checkpoint) continue;
    nn::Json list = nn::Json::array();
    for (std::size_t l = 0; l < study.layers.size(); ++l)
      add_maps(list, std::int64_t(l), study.layers[l].*m.values, study.layers[l].scores,
               nn::BlockRule::kLargest);
    maps.append(std::string(m.name), list);
  }
  for (std::int64_t l = 0; l < std::ssize(study.layers); ++l) {
    const nn::Routes r = nn::routes(model, study, l);
    routes.push_back(routes_json(r));
    if (complete)
      add_maps(from, l, r.from, study.layers[std::size_t(l)].scores, nn::BlockRule::kSum);
  }
  maps.append(kRoutesFrom, from);
  return nn::Json::object(
      {{"step", step}, {"value", study.value}, {"maps", maps}, {"routes", routes}});
}

nn::Json cells_json(const NotableCells& cuts) {
  nn::Json cells = nn::Json::array();
  for (std::size_t i = 0; i < cuts.cells.size(); ++i) {
    const nn::Cell& c = cuts.cells[i];
    cells.push_back(nn::Json::object({{"layer", c.head.layer},
                                      {"head", c.head.head},
                                      {"query", c.query},
                                      {"key", c.key},
                                      {"effect", cuts.evidence[i].effect.mean}}));
  }
  return cells;
}

nn::Json sequence_json(const std::vector<std::string>& tokens) {
  const auto length = std::int64_t(tokens.size()), block = nn::block_length(length);
  nn::Json keys =
      nn::Json::object({{"tokens", block_labels(tokens)}, {"length", length}, {"block", block}});
  if (block > 1) keys.append("texts", tokens);
  return keys;
}

nn::Json make_pane(const Subject& s, const std::string& label) {
  const std::string run = s.source.run_name();
  nn::Json pane = nn::Json::object({{"name", label.empty() ? run : run + ", " + label},
                                    {"hash", s.source.weights},
                                    {"objective", s.texts.objective},
                                    {"layers", s.model().options.layers},
                                    {"heads", s.model().options.attention.heads},
                                    {"checkpoints", nn::Json::array()}});
  pane.update(sequence_json(s.texts.tokens));
  return pane;
}

nn::Json pane_of(const Subject& s, const nn::Study& study, const std::string& label) {
  nn::Json pane = make_pane(s, label);
  pane["checkpoints"].push_back(checkpoint_json(s.run->step, s.model(), study, true));
  return pane;
}

Files write_document(ResultFolder& folder, const PictureSource& source, const std::string& title,
                     const std::vector<Section>& sections, nn::Json page) {
  Files files;
  for (const Section& s : sections) append(files, draw_pictures(folder, s.pictures, source));
  page.update(nn::Json::object({{"title", title},
                                {"sections", sections_json(sections)},
                                {"pictures", pictures_json(sections)},
                                {"heed", version_text()},
                                {"command", typed_command()}}));
  files.push_back(folder.file("report.html"));
  autograd::write_file(files.back().string(), study_page(page));
  return files;
}

nn::Json pane_data(const std::vector<nn::Json>& panes) {
  nn::Json quantities = nn::Json::array(), columns = nn::Json::array();
  for (const nn::MapQuantity& m : nn::map_quantities())
    quantities.push_back(quantity_json(m.name, m.title, m.is_signed, m.what));
  quantities.push_back(quantity_json(
      kRoutesFrom, "dL/dx through K and V", true,
      "the part of the gradient at a token (column) that comes from a query (row) through a head's "
      "keys and values"));
  for (const nn::HeadQuantity& q : nn::head_quantities())
    columns.push_back(
        nn::Json::object({{"name", q.column.heading.empty() ? q.name : q.column.heading},
                          {"unit", q.unit},
                          {"what", q.what}}));
  return nn::Json::object(
      {{"quantities", quantities}, {"head_columns", columns}, {"panes", panes}});
}

}  // namespace heed
