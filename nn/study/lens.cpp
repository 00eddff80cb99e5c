#include "nn/study/lens.h"

#include <cmath>
#include <limits>

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

// Returns the direction in the stream after the final norm whose dot product with the stream is L,
// float64. Its shape is [n, T, d_model] for a margin of n sequences, otherwise [1, 1, d_model].
Tensor direction_of(const Transformer& model, const Objective& o) {
  const Tensor rows = to(output_weight(model), float64);  // [classes, d_model]
  if (o.kind != Objective::kMargin) {
    const Tensor other = o.kind == Objective::kDifference ? select(rows, 0, o.b) : mean(rows, {0});
    return reshape(select(rows, 0, o.a) - other, {1, 1, -1});
  }
  const Tensor measured = ne(o.right, double(kIgnored));
  const auto rows_of = [&](const Tensor& tokens) {
    return embedding(rows, masked_fill(tokens, logical_not(measured), 0));
  };
  // L is a mean over the measured positions, but StreamReader computes a mean over all positions.
  const Tensor one = to(measured, float64);
  return (rows_of(o.right) - rows_of(o.wrong)) * unsqueeze(one / mean(one, {1}, true), -1);
}

// Computes L from a residual stream. At each position, L is the dot product of the stream and a
// direction, divided by a scale, plus a bias. The scale is computed by the final norm from the
// whole stream. It stays constant for parts of the stream.
class StreamReader {
 public:
  StreamReader(const Transformer& model, const Objective& o, const Tensor& stream)
      : direction_(direction_of(model, o)) {
    std::vector<std::int64_t> positions = o.positions;
    if (positions.empty()) positions = {stream.size(1) - 1};
    positions_ = o.kind == Objective::kMargin ? arange(stream.size(1))
                                              : from_data(positions, {std::ssize(positions)});
    inverse_scale_ = ones({1, 1}, float64);
    if (model.ln) read_norm(*model.ln, at_positions(stream));
  }
  // Returns the contribution of a part of the stream, [B, T, d_model], to L without the bias: [B].
  std::vector<double> read(const Tensor& stream) const {
    const Tensor dots = sum(at_positions(stream) * direction_, {2});  // [B, P]
    return to_doubles(mean(dots * inverse_scale_, {1}));
  }
  // Returns the part of L that is the bias of the final norm, of each sequence; empty without bias.
  std::vector<double> bias(std::int64_t sequences) const {
    return bias_.defined() ? to_doubles(expand(bias_, {sequences})) : std::vector<double>();
  }

 private:
  Tensor at_positions(const Tensor& stream) const {
    return to(index_select(stream, 1, positions_), float64);
  }
  void read_norm(const Norm& norm, const Tensor& stream) {
    const auto* layer = std::get_if<LayerNorm>(&norm.norm);
    const Tensor weight = layer ? layer->weight : std::get<RMSNorm>(norm.norm).weight;
    if (layer && layer->bias.defined())
      bias_ = mean(sum(to(layer->bias, float64) * direction_, {2}), {1});
    if (weight.defined()) direction_ = direction_ * to(weight, float64);
    const double eps = layer ? layer->options.eps : std::get<RMSNorm>(norm.norm).options.eps;
    const Tensor square = layer ? var(stream, {2}, {.correction = 0}) : mean(stream * stream, {2});
    inverse_scale_ = rsqrt(square + eps);
    // Because (x - mean(x)) . d = x . (d - mean(d)), read() need not subtract the mean of a stream.
    if (layer) direction_ = direction_ - mean(direction_, {2}, true);
  }

  Tensor direction_;  // [B or 1, T or 1, d_model]
  Tensor positions_, inverse_scale_;
  Tensor bias_;  // [B or 1]; undefined without bias
};

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
                    "needs a margin, a logit or a difference of logits, got a loss or a log "
                    "probability, which is not a sum of parts");
  check<ValueError>(
      o.norm != NormPlacement::kPost, "logit_attribution",
      "this model normalizes the stream after each sum, so the logits are not a sum of "
      "the outputs of its parts");
  const NoGrad guard;
  const StreamReader reader(model, objective, study.layers.back().resid_post);
  std::vector<Evidence> parts;
  const auto add = [&](const std::string& name, const Tensor& written) {
    parts.push_back({name, effect_of(reader.read(written))});
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
  const std::vector<double> bias = reader.bias(study.embed.size(0));
  if (!bias.empty()) parts.push_back({"norm's bias", effect_of(bias)});
  return parts;
}

}  // namespace heed::nn
