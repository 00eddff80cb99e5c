#include "nn/study/copying.h"

#include <algorithm>
#include <limits>

#include "nn/layers/sites.h"
#include "nn/study/forward_passes.h"

namespace heed::nn {

using namespace autograd;

namespace {

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

// Returns the score of one head. `raised` has the raise of each logit, [B, T, classes], `pattern`
// has the attention weights, [B, T, T], and `tokens` is [B, T].
double copying_score(const Tensor& raised, const Tensor& pattern, const Tensor& tokens) {
  const auto boosts = to_doubles(raised);
  const auto read = argmax(pattern, -1).to_vector<std::int64_t>();
  const auto ids = tokens.to_vector<std::int64_t>();
  const std::int64_t length = tokens.size(1), classes = raised.size(2);
  double read_token = 0, all = 0;
  for (std::size_t row = 0; row < ids.size(); ++row) {
    const std::size_t first = row - row % std::size_t(length);  // position 0 of this sequence
    const double* boost = boosts.data() + row * std::size_t(classes);
    read_token += boost[ids[first + std::size_t(read[row])]];
    for (std::size_t t = first; t < first + std::size_t(length); ++t) all += boost[ids[t]];
  }
  return all > 0 ? 4 * read_token / all - 1 : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

std::vector<double> copying_scores(const Transformer& model, std::int64_t seed,
                                   std::int64_t sequences) {
  const Transformer::Options& o = model.options;
  check<ValueError>(
      o.norm != NormPlacement::kPost, "copying_scores",
      "this model normalizes the stream after each sum, so the output of a head cannot "
      "be separated");
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
    const Tensor logits = linear(without_division(model.ln, written),
                                 model.head ? model.head->weight : model.tok.weight);
    const Tensor raised = relu(logits - mean(logits, {-1}, true));
    scores.push_back(copying_score(raised, select(run.at[1][l], 1, h.head), tokens));
  }
  return scores;
}

}  // namespace heed::nn
