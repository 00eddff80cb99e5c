#include "nn/study/copying.h"

#include <algorithm>
#include <cmath>

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
  const Tensor wide = to(raised, float64), read = gather(tokens, 1, argmax(pattern, -1));
  const double of_read = sum(gather(wide, 2, unsqueeze(read, -1))).item(),
               of_all = sum(gather(wide, 2, expand(unsqueeze(tokens, 1), pattern.shape()))).item();
  return of_all > 0 ? 4 * of_read / of_all - 1 : NAN;
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
