#include "tools/heed/study/page_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/ops/ops.h"
#include "nn/study/head_importance.h"
#include "tools/heed/report/output.h"
#include "tools/heed/study/page/page.h"

namespace heed {
namespace {

constexpr std::int64_t kCells = 128;  // of a side of a map

struct PageMap {
  const char *site, *title;
  bool is_signed, of_checkpoints;
  const char* what;
};
constexpr PageMap kMaps[] = {
    {"hook_pattern", "A", false, true, "The weights: how much each query reads of each key."},
    {"hook_pattern_grad", "dL/dA", true, false,
     "What more weight there would do to L. It is not 0 where the mask hides a key."},
    {"hook_attn_scores_grad", "dL/dS", true, true,
     "What a higher score before the softmax would do to L. Each row, with its sink "
     "if there is one, sums to 0."},
    {"hook_pattern_x_grad", "A * dL/dA", true, false,
     "Each weight times its gradient: to first order, what L owes to it."}};

// How many tokens a cell stands for, so that a map has at most kCells a side.
std::int64_t block_of(std::int64_t length) { return (length + kCells - 1) / kCells; }

// What a block of cells is shown as, of those that the mask does not hide.
enum class Blocking {
  kLargest,  // the one of the largest magnitude
  kSum
};

// A head's map [T, T].
struct Blocks {
  std::int64_t size;
  std::vector<double> values;
  std::vector<std::uint8_t> hidden;
};
Blocks reduced(const float* map, const float* scores, std::int64_t length, Blocking how) {
  const std::int64_t block = block_of(length), size = (length + block - 1) / block;
  Blocks r{size, std::vector<double>(std::size_t(size * size), 0.0),
           std::vector<std::uint8_t>(std::size_t(size * size), 1)};
  for (std::int64_t i = 0; i < length; ++i)
    for (std::int64_t j = 0; j < length; ++j) {
      if (std::isinf(scores[i * length + j])) continue;
      const auto cell = std::size_t(i / block * size + j / block);
      const double x = double(map[i * length + j]);
      if (how == Blocking::kSum)
        r.values[cell] += x;
      else if (r.hidden[cell] || std::abs(x) > std::abs(r.values[cell]))
        r.values[cell] = x;
      r.hidden[cell] = 0;
    }
  return r;
}

// The maps [1, H, T, T] of one layer, added to `list`.
void add_maps(nn::Json& list, std::int64_t layer, const nn::Tensor& maps, const nn::Tensor& scores,
              Blocking how) {
  const std::int64_t heads = maps.size(1), length = maps.size(2);
  const nn::Tensor values = contiguous(to(maps, autograd::float32)),
                   shown = contiguous(to(scores, autograd::float32));
  for (std::int64_t h = 0; h < heads; ++h) {
    const std::int64_t first = h * length * length;
    const Blocks r =
        reduced(values.data<float>() + first, shown.data<float>() + first, length, how);
    nn::Json one = nn::Json::object({{"layer", layer}, {"head", h}});
    one.update(encode_map(r.values, r.size, true, r.hidden));
    list.push_back(one);
  }
}

// Of numbers by token, the sum of each block.
std::vector<double> block_sums(const std::vector<double>& x) {
  const auto length = std::int64_t(x.size()), block = block_of(length);
  std::vector<double> sums(std::size_t((length + block - 1) / block), 0.0);
  for (std::int64_t t = 0; t < length; ++t) sums[std::size_t(t / block)] += x[std::size_t(t)];
  return sums;
}

nn::Json routes_json(const nn::Routes& r, const nn::Tensor& scores, bool with_from) {
  const nn::Tensor wide = to(r.total, autograd::float64);
  const auto total = sqrt(sum(wide * wide, {-1})).to_vector<double>();  // [T]
  const auto shares = r.shares().to_vector<double>();                   // [P, T]
  const std::vector<double> sums = block_sums(total);
  nn::Json parts = nn::Json::array();
  for (std::size_t p = 0; p < r.parts.size(); ++p) {
    std::vector<double> lengths;
    for (std::size_t t = 0; t < total.size(); ++t)
      lengths.push_back(total[t] > 0 ? shares[p * total.size() + t] * total[t] : 0);
    std::vector<double> share = block_sums(lengths);
    for (std::size_t i = 0; i < share.size(); ++i) share[i] = sums[i] > 0 ? share[i] / sums[i] : 0;
    parts.push_back(nn::Json::object({{"name", r.parts[p]}, {"share", share}}));
  }
  nn::Json from = nn::Json::array();
  if (with_from) add_maps(from, r.layer, r.from, scores, Blocking::kSum);
  return nn::Json::object({{"total", sums}, {"parts", parts}, {"from", from}});
}

std::string site_of(std::int64_t layer, const std::string& site) {
  return fmt::format("blocks.{}.attn.{}", layer, site);
}

}  // namespace

void PagePane::add_moment(std::optional<std::int64_t> step, const nn::Study& study,
                          const nn::RouteStudy& routes, bool all,
                          const std::vector<nn::Effect>& cuts) {
  nn::Json heads = nn::Json::array(), maps = nn::Json::object(), blocks = nn::Json::array(),
           edges = nn::Json::array();
  for (std::size_t i = 0; i < study.heads.size(); ++i) {
    const nn::HeadReport& h = study.heads[i];
    std::vector<double> values;
    for (const nn::HeadQuantity& q : nn::head_quantities()) values.push_back(h.*q.value);
    heads.push_back(nn::Json::object(
        {{"layer", h.layer},
         {"head", h.head},
         {"values", values},
         {"cut", cuts.empty() ? nn::Json() : nn::Json(cuts[i].mean)},
         {"saturated",
          cuts.empty() ? nn::Json() : nn::Json(nn::is_saturated(h.importance, cuts[i].mean))},
         {"importance", h.importance}}));
  }
  for (const PageMap& m : kMaps) {
    if (!all && !m.of_checkpoints) continue;
    nn::Json list = nn::Json::array();
    for (const nn::LayerFlow& f : study.flow)
      add_maps(list, f.layer, study.array(site_of(f.layer, m.site)),
               study.array(site_of(f.layer, "hook_attn_scores")), Blocking::kLargest);
    maps.append(m.site, list);
  }
  for (const nn::Routes& r : routes.blocks)
    blocks.push_back(routes_json(r, study.array(site_of(r.layer, "hook_attn_scores")), all));
  for (const nn::RouteEdge& e : routes.edges)
    edges.push_back(nn::Json::object(
        {{"from", fmt::format("L{}H{}", e.layer, e.head)}, {"to", e.to}, {"value", e.value}}));
  moments.push_back(nn::Json::object({{"step", step},
                                      {"value", study.value},
                                      {"heads", heads},
                                      {"maps", maps},
                                      {"routes", blocks},
                                      {"edges", edges}}));
}

nn::Json PagePane::json(std::int64_t layers, std::int64_t heads) const {
  const auto length = std::int64_t(tokens.size()), block = block_of(length);
  std::vector<std::string> labels;
  for (std::int64_t t = 0; t < length; t += block)
    labels.push_back(block == 1 ? tokens[std::size_t(t)]
                                : fmt::format("{}-{}", t, std::min(t + block, length) - 1));
  nn::Json pane = nn::Json::object({{"name", name},
                                    {"hash", hash},
                                    {"objective", objective},
                                    {"tokens", labels},
                                    {"length", length},
                                    {"block", block},
                                    {"layers", layers},
                                    {"heads", heads},
                                    {"checkpoints", checkpoints},
                                    {"moments", moments}});
  if (block > 1)
    pane.append(
        "block_rule",
        "the largest in magnitude of its cells that the mask does not hide; of routes, their sum");
  return pane;
}

nn::Json page_data(const std::string& title, const std::string& command,
                   const std::vector<nn::Json>& panes, const nn::Json& tables,
                   std::optional<nn::HeadIndex> chosen) {
  nn::Json quantities = nn::Json::array(), columns = nn::Json::array();
  for (const PageMap& m : kMaps)
    quantities.push_back(nn::Json::object({{"name", m.site},
                                           {"title", m.title},
                                           {"unit", ""},
                                           {"signed", m.is_signed},
                                           {"what", m.what}}));
  for (const nn::HeadQuantity& q : nn::head_quantities())
    columns.push_back(nn::Json::object({{"name", q.name}, {"unit", q.unit}, {"what", q.what}}));
  return nn::Json::object(
      {{"heed", version_text()},
       {"title", title},
       {"command", command},
       {"quantities", quantities},
       {"head_columns", columns},
       {"panes", panes},
       {"tables", tables},
       {"chosen", chosen ? nn::Json::object({{"layer", chosen->layer}, {"head", chosen->head}})
                         : nn::Json()}});
}

}  // namespace heed
