#include "tools/heed/study/interventions.h"

#include <algorithm>
#include <cmath>

#include "nn/study/attribution.h"
#include "nn/study/copying.h"
#include "nn/study/forward_passes.h"
#include "nn/study/lens.h"
#include "nn/study/patching.h"
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

// Returns the name of a patched activation: "L1 resid_pre at 3 (c)", or "L1H0" for a head.
std::string place_name(const nn::PatchMap& map, std::int64_t layer, std::int64_t column,
                       const std::vector<std::string>& tokens) {
  if (map.by_head) return nn::head_name({layer, column});
  return fmt::format("L{} {} at {} ({})", layer, map.site.substr(5), column,
                     tokens[std::size_t(column)]);
}

Table patching_table(const nn::Patching& p, const std::vector<std::string>& tokens) {
  Table t = titled(
      "Activation patching",
      fmt::format(
          "L is {:.4g} on the clean prompt, {:.4g} on the corrupt prompt. Effect: the share of "
          "the difference that the clean activation at one place restores. First and second "
          "order: its estimates from derivatives at the corrupt prompt",
          p.clean, p.corrupt),
      {{"", "place"}, {"", "effect"}, {"", "first order"}, {"", "second order"}});
  for (const nn::PatchMap& map : p.maps)
    for (std::size_t i = 0; i < map.effect.size(); ++i)
      t.add({place_name(map, std::int64_t(i) / map.columns, std::int64_t(i) % map.columns, tokens),
             map.effect[i], map.first_order[i], map.second_order[i]});
  std::stable_sort(t.rows.begin(), t.rows.end(), [](const auto& a, const auto& b) {
    return std::abs(a[1].number()) > std::abs(b[1].number());
  });
  return t;
}

Table estimates_table(const nn::Patching& p, const std::vector<std::string>& tokens) {
  Table t =
      titled("Attribution patching",
             "estimates compared with the effects above, over all places: correlation, slope, "
             "and the place with the largest difference",
             {{"", "estimate"},
              {"", "r"},
              {"", "slope"},
              {"", "worst place"},
              {"", "its effect"},
              {"", "its estimate"}});
  for (const auto& [name, a] :
       {std::pair{"first order", &p.first_order}, std::pair{"second order", &p.second_order}}) {
    const auto map = std::ranges::find(p.maps, a->worst.site, &nn::PatchMap::site);
    t.add({name, a->r, a->slope, place_name(*map, a->worst.layer, a->worst.column, tokens),
           a->worst.effect, a->worst.estimate});
  }
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
  const std::int64_t count = std::min(
      sample.batch.inputs.size(0), nn::sequences_at_once(s.model(), sample.batch.inputs.size(1)));
  const nn::Batch batch = nn::rows_of(sample.batch, 0, count);
  const nn::Study study = nn::study(s.model(), batch, nn::rows_of(sample.objective, 0, count));
  results.tables.push_back(sequences_table(study, objective_text(sample.objective, s.info())));
  append(results.files, draw_by_distance(out, study, batch, s.source));
}

// Returns a label for each position: "c" if the token is c in both prompts, or "c/d" if it is c in
// the clean prompt and d in the corrupt prompt.
std::vector<std::string> pair_labels(const std::vector<std::string>& clean,
                                     const std::vector<std::string>& corrupt) {
  std::vector<std::string> labels = clean;
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (clean[i] != corrupt[i]) labels[i] += "/" + corrupt[i];
  return labels;
}

void add_patching(InterventionResults& results, const std::string& text, const Subject& s,
                  const std::filesystem::path& out) {
  const nn::Batch corrupt = corrupt_prompt(text, s);
  const nn::Vocabulary& vocabulary = s.info().vocabulary;
  const auto labels =
      pair_labels(s.texts.tokens, vocabulary.labels(corrupt.inputs.to_vector<std::int64_t>()));
  const nn::Patching patching = nn::patching(s.model(), s.sequence, corrupt, s.objective);
  results.tables.push_back(patching_table(patching, labels));
  results.tables.push_back(estimates_table(patching, labels));
  append(results.files, draw_patching(out, patching, labels, s.source));
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

nn::Batch corrupt_prompt(const std::string& text, const Subject& s) {
  nn::Batch corrupt = s.run->task->prompt(text);
  if (corrupt.inputs.numel() != s.sequence.inputs.numel())
    usage_error(
        "--corrupt: {} tokens, but the sequence has {}; give equal numbers, so that positions "
        "correspond",
        corrupt.inputs.numel(), s.sequence.inputs.numel());
  return corrupt;
}

std::vector<nn::Setting> intervention_settings(InterventionArguments& a) {
  return {
      nn::Setting(
          "corrupt", a.corrupt, "TEXT",
          "a second prompt of the same length; measures which activations of the first prompt "
          "restore L in its run")
          .shows(""),
      {"attribute", a.attribute,
       "attributes L to tokens and parts: integrated gradients, rollout, logit lens; also copying "
       "(Olsson) and, for logits, direct logit attribution (both not with --norm post)"}};
}

void run_interventions(const InterventionArguments& a, const Command& c, const Subject& s,
                       const nn::Study& study, const HeadSample* sample,
                       const std::filesystem::path& out, InterventionResults& results) {
  if (s.objective.kind == nn::Objective::kMargin) results.tables.push_back(margin_table(s));
  if (sample) add_sample(results, *sample, s, out);
  if (c.given("corrupt")) add_patching(results, a.corrupt, s, out);
  if (a.attribute) add_attribution(results, s, study, out);
}

}  // namespace heed
