// Attribution of L to tokens and parts of the model (--attribute).
#include "nn/study/attribution.h"

#include <algorithm>
#include <cmath>

#include "nn/study/lens.h"
#include "tools/heed/study/analysis.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

Table copying_table(const nn::Transformer& model) {
  Table t({{"head", "head"}, {"copying_Olsson", "copying (Olsson)"}}, "Copying (Olsson)", 24);
  t.note =
      "on random tokens that do not repeat: the share of the logits raised by a head that belongs "
      "to the token it reads; -1 none, 1 half, 3 all";
  const auto heads = nn::all_heads(model.options.layers, model.options.attention.heads);
  const std::vector<double> scores = nn::copying_scores(model);
  for (std::size_t i = 0; i < heads.size(); ++i) t.add({nn::head_name(heads[i]), scores[i]});
  return t;
}

Table token_table(const Subject& s, const nn::Study& study) {
  const auto a = nn::token_attribution(s.model(), s.sequence, s.objective, nn::Baseline::kMean,
                                       /*points=*/129);
  const auto patterns = study.by_layer(&nn::LayerStudy::pattern);
  const nn::Tensor rollout = nn::attention_rollout(patterns),
                   relevance = nn::attention_relevance(
                       patterns, study.by_layer(&nn::LayerStudy::pattern_grad));
  const std::vector<std::string>& tokens = s.texts.tokens;
  const std::int64_t query =
      s.objective.positions.empty() ? std::ssize(tokens) - 1 : s.objective.positions.front();
  Table t({{"position", "position"},
           {"token", "token"},
           {"gradient", "gradient", "L"},
           {"integrated", "integrated", "L"},
           {"rollout", "rollout"},
           {"gradient_x_attention", "gradient x attention"}},
          "Tokens", 24);
  t.note = fmt::format(
      "gradient: (embedding minus mean embedding) . dL/d(embedding). integrated: the same with "
      "dL/d(embedding) averaged on the line from the mean embedding; the sum is L minus L with "
      "mean embeddings, {:.4g}, up to {:.2g}. rollout and gradient x attention: from position {} "
      "through the attention patterns; they show which tokens are read, not which tokens L depends "
      "on",
      a.value - a.baseline_value, a.completeness_error, query);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    t.add({i, s.texts.visible_token(std::int64_t(i)), a.input_gradient[i], a.integrated[i],
           rollout.at({query, std::int64_t(i)}), relevance.at({query, std::int64_t(i)})});
  return t;
}

Table lens_table(const Subject& s, const nn::LogitLens& lens) {
  const nn::Vocabulary& vocabulary = s.info().vocabulary;
  Table t({{"position", "position"},
           {"token", "token"},
           {"layer", "layer"},
           {"of", "of"},
           {"probability", "probability"},
           {"rank", "rank"},
           {"likeliest", "likeliest"},
           {"its_probability", "its probability"}},
          "Logit lens", 24);
  t.note = "the prediction from the stream after each layer, through the final norm and head";
  for (std::int64_t p = lens.length - 1; p >= 0; --p)
    for (std::int64_t layer = 0; layer < lens.layers; ++layer) {
      const nn::LensCell& cell = lens.at(layer, p);
      const bool known = cell.token != nn::kIgnored;
      t.add({p, s.texts.visible_token(p), layer,
             known ? plot::token_text(vocabulary.label(cell.token)) : "", cell.probability,
             known ? Value(cell.rank) : Value(), plot::token_text(vocabulary.label(cell.top)),
             cell.top_probability});
    }
  return t;
}

Picture lens_picture(const Subject& s, const nn::LogitLens& lens) {
  plot::Panel panel{.title = "", .rows = int(lens.layers), .cols = int(lens.length), .values = {}};
  for (const nn::LensCell& cell : lens.cells) {
    panel.values.push_back(float(cell.probability));
    panel.texts.push_back(plot::token_text(s.info().vocabulary.label(cell.top)));
  }
  plot::HeatmapGrid grid{.title = "Logit lens", .panels = {std::move(panel)}};
  for (std::int64_t l = 0; l < lens.layers; ++l) grid.row_labels.push_back(fmt::format("L{}", l));
  grid.col_labels = s.texts.tokens;
  grid.row_axis = "layer", grid.col_axis = "token";
  grid.caption = "Color: probability of the right token. Text: the likeliest token.";
  grid.gray = "no right token";
  grid.print_values = true, grid.limit = 1;
  return {
      "lens", std::move(grid),
      "The predictions are those of the residual stream after each layer, through the final norm "
      "and the output head."};
}

Section attributed(StudyContext& c) {
  const Subject& subject = c.subject;
  Section s{.key = "attribution", .title = "Attribution of L to tokens and parts"};
  s.tables.push_back(token_table(subject, c.study()));
  const nn::LogitLens lens =
      nn::logit_lens(c.model(), c.study(), subject.sequence, subject.objective);
  s.tables.push_back(lens_table(subject, lens));
  s.pictures.push_back(lens_picture(subject, lens));
  s.finding = fmt::format("{} and {} rows of tokens and layers", s.tables[0].rows.size(),
                          s.tables[1].rows.size());
  if (c.model().options.norm == nn::NormPlacement::kPost)
    return s;  // the stream is not the sum of the outputs of heads and MLPs
  s.tables.push_back(copying_table(c.model()));
  if (!subject.objective.is_linear()) return s;
  const auto parts = nn::logit_attribution(c.model(), c.study(), subject.objective);
  const nn::Judgement j = c.judge(parts, subject.objective);
  Table table = evidence_table("part", parts, j, false, true);
  table.title = "Direct logit attribution";
  table.note =
      "the contribution of each part's output to L, with the scale of the final norm held "
      "constant; "
      "they sum to L";
  s.tables.push_back(std::move(table));
  constexpr std::size_t kMostBars = 40;
  plot::ChartStack bars = evidence_chart(parts, j, kMostBars);
  double sum = 0;
  for (const nn::Evidence& part : parts) sum += part.effect.mean;
  bars.title = "Direct logit attribution";
  bars.caption =
      fmt::format("The {} parts sum to L = {}.", parts.size(), plot::format_number(sum, 4));
  bars.panels[0].x_name = "contribution to L";
  s.pictures.push_back({"attribution", std::move(bars),
                        "The contribution of each part's output to L, with the scale of the final "
                        "norm held constant."});
  return s;
}

const Analysis kAttribution{
    .key = "attribution",
    .order = 80,
    .options =
        {{"attribute", "",
          "attributes L to tokens and parts: integrated gradients, rollout, logit lens; also "
          "copying (Olsson) and, for logits, direct logit attribution (both not with --norm "
          "post)"}},
    .group = "Attribution",
    .run = attributed};

}  // namespace
}  // namespace heed
