#include "tools/heed/study/interventions.h"

#include <algorithm>
#include <cmath>

#include "nn/study/attribution.h"
#include "nn/study/copying.h"
#include "nn/study/forward_passes.h"
#include "nn/study/lens.h"
#include "tools/heed/study/study_pictures.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

// ---- tables; their columns have labels and no keys, and tables_json() writes them as JSON

Table titled(std::string title, std::string note, const std::vector<Column>& columns) {
  Table t(columns);
  t.title = std::move(title), t.note = std::move(note), t.shown = 24;
  return t;
}

Table effects_table(std::string title, std::string note, std::string_view of) {
  return titled(std::move(title), std::move(note),
                {{"", of},
                 {"", "effect", "L"},
                 {"", "standard error", "L"},
                 {"", "mean |effect|", "L"},
                 {"", "sequences"}});
}
void add_effect(Table& t, const std::string& name, const nn::Effect& e) {
  t.add({name, e.mean, e.standard_error, e.mean_absolute, e.sequences});
}

// Returns a table with the numbers of each head, which are means over the sequences of the study.
Table sequences_table(const nn::Study& study, const std::string& objective) {
  std::vector<Column> shown{{"", "head"}};
  for (const nn::HeadQuantity& q : nn::head_quantities())
    if (q.text & q.kSequences)
      shown.push_back(
          {.key = "",
           .label = q.name,
           .unit = q.unit,
           .drop = int(q.name.size() + q.unit.size())});  // the widest column is omitted first
  Table t(shown);
  t.title = "Heads over sequences";
  t.note = fmt::format(
      "means over the first {} sequences of the evaluation set; L is {}; importance is dL/dg, "
      "absolute_importance is the mean of |dL/dg|",
      study.embed.size(0), objective);
  for (const nn::HeadReport& h : study.heads) {
    std::vector<Value> row{nn::head_name(h)};
    for (const nn::HeadQuantity& q : nn::head_quantities())
      if (q.text & q.kSequences) row.push_back(h.*q.value);
    t.add(std::move(row));
  }
  return t;
}

Table copying_table(const nn::Transformer& model) {
  Table t = titled("Copying (Olsson)",
                   "on random tokens that do not repeat: the share of the logits raised by a head "
                   "that belongs to the token it reads; -1 none, 1 half, 3 all",
                   {{"", "head"}, {"", "copying (Olsson)"}});
  const auto heads = nn::all_heads(model.options.layers, model.options.attention.heads);
  const std::vector<double> scores = nn::copying_scores(model);
  for (std::size_t i = 0; i < heads.size(); ++i) t.add({nn::head_name(heads[i]), scores[i]});
  return t;
}

Table token_table(const Subject& s, const nn::Study& study) {
  const auto a = nn::token_attribution(s.model(), s.sequence, s.objective, nn::Baseline::kMean,
                                       /*points=*/129);
  const nn::AttentionFlow flow = nn::attention_flow(study);
  const std::vector<std::string>& tokens = s.texts.tokens;
  const std::int64_t query =
      s.objective.positions.empty() ? std::ssize(tokens) - 1 : s.objective.positions.front();
  Table t = titled(
      "Tokens",
      fmt::format(
          "gradient: (embedding minus mean embedding) . dL/d(embedding). integrated: the same "
          "with dL/d(embedding) averaged on the line from the mean embedding; the sum is L "
          "minus L with mean embeddings, {:.4g}, up to {:.2g}. rollout and gradient x "
          "attention: from position {} through the attention patterns; they show which "
          "tokens are read, not which tokens L depends on",
          a.value - a.baseline_value, a.completeness_error, query),
      {{"", "position"},
       {"", "token"},
       {"", "gradient", "L"},
       {"", "integrated", "L"},
       {"", "rollout"},
       {"", "gradient x attention"}});
  for (std::size_t i = 0; i < tokens.size(); ++i)
    t.add({i, s.texts.visible_token(std::int64_t(i)), a.input_gradient[i], a.integrated[i],
           flow.rollout.at({query, std::int64_t(i)}), flow.relevance.at({query, std::int64_t(i)})});
  return t;
}

// Returns a table of the tokens that a margin compares, with the margin at each position.
Table margin_table(const Subject& s) {
  Table t =
      titled("Margin",
             "margin: the logit of the token in column first minus that of the token in column "
             "second; L is the mean. The first token is the target. At a position without a "
             "target, it is the most probable token. The second token has the largest other "
             "logit. All interventions keep these tokens",
             {{"", "position"}, {"", "token"}, {"", "first"}, {"", "second"}, {"", "margin"}});
  const autograd::NoGrad guard;
  const nn::Tensor logits = s.model()(s.sequence.inputs);  // [1, T, classes]
  const nn::Vocabulary& vocabulary = s.info().vocabulary;
  for (std::int64_t p = 0; p < logits.size(1); ++p) {
    const auto right = std::int64_t(s.objective.right.at({0, p})),
               wrong = std::int64_t(s.objective.wrong.at({0, p}));
    if (right != nn::kIgnored)
      t.add({p, s.texts.visible_token(p), plot::token_text(vocabulary.label(right)),
             plot::token_text(vocabulary.label(wrong)),
             logits.at({0, p, right}) - logits.at({0, p, wrong})});
  }
  return t;
}

Table lens_table(const Subject& s, const nn::LogitLens& lens) {
  const nn::Vocabulary& vocabulary = s.info().vocabulary;
  Table t =
      titled("Logit lens",
             "the prediction from the stream after each layer, through the final norm and head",
             {{"", "position"},
              {"", "token"},
              {"", "layer"},
              {"", "of"},
              {"", "probability"},
              {"", "rank"},
              {"", "likeliest"},
              {"", "its probability"}});
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

// ---- interventions

// Adds to `results` the numbers of the heads, as means over the sequences in `sample`, and draws
// by_distance.png.
void add_sample(InterventionResults& results, const HeadSample& sample, const Subject& s,
                const std::filesystem::path& out) {
  // The arrays of more sequences would not fit into memory.
  const std::int64_t count =
      std::min(sample.run.batch.inputs.size(0),
               nn::sequences_at_once(s.model(), sample.run.batch.inputs.size(1)));
  const nn::BaseRun rows = sample.run.rows(0, count);
  const nn::Study study = nn::study(s.model(), rows.batch, rows.objective);
  results.tables.push_back(sequences_table(study, objective_text(sample.run.objective, s.info())));
  append(results.files, draw_by_distance(out, study, rows.batch, s.source));
}

void add_attribution(InterventionResults& results, const Subject& s, const nn::Study& study,
                     const std::filesystem::path& out) {
  results.tables.push_back(token_table(s, study));
  const nn::LogitLens lens = nn::logit_lens(s.model(), study, s.sequence, s.objective);
  results.tables.push_back(lens_table(s, lens));
  append(results.files, draw_lens(out, lens, s.info().vocabulary, s.texts.tokens, s.source));
  if (s.model().options.norm == nn::NormPlacement::kPost)
    return;  // the stream is not the sum of the outputs of heads and MLPs
  results.tables.push_back(copying_table(s.model()));
  if (!s.objective.is_linear()) return;
  Table parts =
      effects_table("Direct logit attribution",
                    "the contribution of each part's output to L, with the scale of the final "
                    "norm held constant; they sum to L",
                    "part");
  const auto contributions = nn::logit_attribution(s.model(), study, s.objective);
  for (const nn::Contribution& part : contributions) add_effect(parts, part.name, part.effect);
  results.tables.push_back(parts);
  append(results.files, draw_attribution(out, contributions, s.source));
}

}  // namespace

std::vector<nn::Setting> intervention_settings(InterventionArguments& a) {
  return {
      {"attribute", a.attribute,
       "attributes L to tokens and parts: integrated gradients, rollout, logit lens; also copying "
       "(Olsson) and, for logits, direct logit attribution (both not with --norm post)"}};
}

void run_interventions(const InterventionArguments& a, const Subject& s, const nn::Study& study,
                       const HeadSample* sample, const std::filesystem::path& out,
                       InterventionResults& results) {
  if (s.objective.kind == nn::Objective::kMargin) results.tables.push_back(margin_table(s));
  if (sample) add_sample(results, *sample, s, out);
  if (a.attribute) add_attribution(results, s, study, out);
}

}  // namespace heed
