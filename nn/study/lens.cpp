#include "nn/study/lens.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/engine/engine.h"
#include "nn/layers/sites.h"
#include "nn/study/forward_passes.h"

namespace heed::nn {

using namespace autograd;

namespace {

const Tensor& output_weight(const Transformer& model) {  // [classes, d_model]
  return model.head ? model.head->weight : model.tok.weight;
}

LensCell read_cell(const double* logits, std::int64_t classes, std::int64_t token) {
  double largest = -HUGE_VAL, total = 0;
  LensCell cell{token, std::numeric_limits<double>::quiet_NaN(), 0, 0, 0};
  for (std::int64_t c = 0; c < classes; ++c)
    if (logits[c] > largest) largest = logits[c], cell.top = c;
  for (std::int64_t c = 0; c < classes; ++c) total += std::exp(logits[c] - largest);
  cell.top_probability = 1 / total;
  if (token == kIgnored) return cell;
  cell.probability = std::exp(logits[token] - largest) / total;
  cell.rank = 1;
  for (std::int64_t c = 0; c < classes; ++c) cell.rank += logits[c] > logits[token];
  return cell;
}

// L as a linear function of the residual stream x, [B, T, d_model]: the sum of direction * x, plus
// bias. operator() returns the sum without the bias, so that it can be applied to parts of x. The
// final norm divides by constant scales: those of the stream given to linear_at().
struct LinearObjective {
  Tensor direction;          // [B, T, d_model], float64
  std::vector<double> bias;  // [B], of the final norm; empty if it has none

  std::vector<double> operator()(const Tensor& x) const {
    return to_doubles(sum(to(x, float64) * direction, {1, 2}));
  }
};
LinearObjective linear_at(const Transformer& model, const Objective& o, const Tensor& stream) {
  const GradMode recording(true);
  const Tensor wide = to(stream.detach(), float64), x = zeros_like(wide).requires_grad_();
  const auto* layer = model.ln ? std::get_if<LayerNorm>(&model.ln->norm) : nullptr;
  const bool has_bias = layer && layer->bias.defined();
  Tensor y = without_division(model.ln, x);
  if (model.ln) {
    const double eps = layer ? layer->options.eps : std::get<RMSNorm>(model.ln->norm).options.eps;
    y = y * rsqrt((layer ? var(wide, {2}, {.correction = 0, .keepdim = true})
                         : mean(wide * wide, {2}, true)) +
                  eps);
  }
  if (has_bias) y = y + to(layer->bias, float64);
  const Tensor values = objective_values(linear(y, to(output_weight(model), float64)), {}, o);
  return {grad(sum(values), x), has_bias ? to_doubles(values) : std::vector<double>()};
}

// Returns tokens [sequences, T]. Each row is the beginning of a random permutation of the tokens
// that the model predicts, so that its tokens are distinct.
Tensor distinct_tokens(const Transformer::Options& o, std::int64_t seed, std::int64_t sequences) {
  const std::int64_t length = std::min(o.context, o.classes);
  Generator random{std::uint64_t(seed)};
  std::vector<Tensor> rows;
  for (std::int64_t b = 0; b < sequences; ++b)
    rows.push_back(slice(randperm(o.classes, random), 0, 0, length));
  return contiguous(stack(rows, 0));
}

// Returns the score of one head. `raised` contains the change of each logit by the head, [B, T,
// classes], `pattern` the attention weights, [B, T, T], and `tokens` the tokens, [B, T].
double copying_score(const Tensor& raised, const Tensor& pattern, const Tensor& tokens) {
  const Tensor wide = to(raised, float64), read = gather(tokens, 1, argmax(pattern, -1));
  const double of_read = sum(gather(wide, 2, unsqueeze(read, -1))).item(),
               of_all = sum(gather(wide, 2, expand(unsqueeze(tokens, 1), pattern.shape()))).item();
  return of_all > 0 ? 4 * of_read / of_all - 1 : NAN;
}

}  // namespace

LogitLens logit_lens(const Transformer& model, const Study& study, const Batch& sequence,
                     const Objective& objective) {
  check_one_sequence("logit_lens", sequence);
  const NoGrad guard;
  const std::int64_t length = sequence.inputs.size(1), classes = output_weight(model).size(0);
  std::vector<std::int64_t> tokens = sequence.targets.to_vector<std::int64_t>();
  if (objective.kind == Objective::kMargin)
    tokens = objective.right.to_vector<std::int64_t>();
  else if (!objective.is_of_targets())
    tokens.assign(std::size_t(length), objective.a);
  for (const std::int64_t token : tokens)
    check<ValueError>(token == kIgnored || (token >= 0 && token < classes), "logit_lens", "token ",
                      token, " is not one of the ", classes, " tokens that the model predicts");
  LogitLens lens{model.options.layers, length, {}};
  for (const LayerStudy& layer : study.layers) {
    const Tensor& stream = layer.resid_post;
    const std::vector<double> logits =
        to_doubles(linear(model.ln ? (*model.ln)(stream) : stream, output_weight(model)));
    for (std::int64_t t = 0; t < length; ++t)
      lens.cells.push_back(read_cell(logits.data() + t * classes, classes, tokens[std::size_t(t)]));
  }
  return lens;
}

std::vector<Evidence> logit_attribution(const Transformer& model, const Study& study,
                                        const Objective& objective) {
  const Transformer::Options& o = model.options;
  check<ValueError>(objective.is_linear(), "logit_attribution",
                    "needs a margin, a logit or a difference of logits, got a loss, a log "
                    "probability or log odds, which is not a sum of parts");
  check_separable(model, "logit_attribution");
  const NoGrad guard;
  const LinearObjective L = linear_at(model, objective, study.layers.back().resid_post);
  std::vector<Evidence> parts;
  const auto add = [&](const std::string& name, const Tensor& written) {
    parts.push_back({name, effect_of(L(written))});
  };
  add("embedding", study.embed);
  if (o.positions == Positions::kLearned || o.positions == Positions::kSinusoidal)
    add("position", study.layers[0].resid_pre - study.embed);
  for (std::int64_t layer = 0; layer < o.layers; ++layer) {
    const Block& block = model.blocks[std::size_t(layer)];
    const AttentionWeights w =
        convert(block.attn.weights, block.attn.options, AttentionForm::kPerHead);
    const LayerStudy& at = study.layers[std::size_t(layer)];
    for (std::int64_t h = 0; h < o.attention.heads; ++h)
      add(head_name({layer, h}),
          matmul(select(at.z, 2, h), select(w.W_O, 0, h)) * block.residual_scale);
    const std::string name = "L" + std::to_string(layer);
    if (w.b_O.defined())
      add(name + " bias", expand(w.b_O * block.residual_scale, study.embed.shape()));
    if (o.mlp) add(name + " MLP", at.mlp_out);
  }
  if (!L.bias.empty()) parts.push_back({"norm's bias", effect_of(L.bias)});
  return parts;
}

std::vector<double> copying_scores(const Transformer& model, std::int64_t seed,
                                   std::int64_t sequences) {
  const Transformer::Options& o = model.options;
  check_separable(model, "copying_scores");
  const NoGrad guard;
  const Tensor tokens = distinct_tokens(o, seed, sequences);
  const RecordedForward run = record_forward(model, tokens, {"attn.hook_z", "attn.hook_pattern"});
  std::vector<double> scores;
  for (const HeadIndex& h : all_heads(o.layers, o.attention.heads)) {
    const auto l = std::size_t(h.layer);
    const MultiHeadAttention& attn = model.blocks[l].attn;
    const AttentionWeights w = convert(attn.weights, attn.options, AttentionForm::kPerHead);
    const Tensor written = matmul(select(run.at[0][l], 2, h.head), select(w.W_O, 0, h.head));
    // Up to a positive factor at each position, because the final norm's division is left out.
    const Tensor logits = linear(without_division(model.ln, written), output_weight(model));
    const Tensor raised = relu(logits - mean(logits, {-1}, true));
    scores.push_back(copying_score(raised, select(run.at[1][l], 1, h.head), tokens));
  }
  return scores;
}

}  // namespace heed::nn
