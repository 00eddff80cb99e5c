#include "nn/study/head_scores.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/error.h"

namespace heed::nn {

namespace {

using Q = HeadQuantity;

// Each entry has the fields of HeadQuantity, in their order.
constexpr HeadQuantity kQuantities[] = {
    Q(kEntropy, "entropy", "nats", "entropy of the weights, mean over queries", {"entropy"},
      {"entropy of the weights (nats)", Q::Panel::kFromZero}),
    Q(kRelativeEntropy, "relative_entropy", "of log(visible keys)",
      "entropy of the weights as a share of the largest possible entropy, mean over queries "
      "that may read more than one key"),
    Q(kLargestWeight, "largest_weight", "", "largest weight of a query, mean over queries"),
    Q(kPreviousToken, "previous_token", "",
      "mean weight on the token before, over queries from 1 on", {"prev"},
      {"previous-token score: weight on the token before", Q::Panel::kShare}),
    Q(kDuplicateToken, "duplicate_token", "",
      "mean weight on earlier copies of the query's own token", {"dup", "{:.3f}", false}),
    Q(kInduction, "induction", "",
      "mean weight on the tokens that followed earlier copies of the query's own token", {"ind"},
      {"induction score: weight on tokens that followed earlier copies of the token",
       Q::Panel::kShare}),
    Q(kDetectInduction, "detect_induction", "",
      "share of all weight that is on the tokens that followed earlier copies of the query's "
      "own token (TransformerLens: detect_head, error_measure mul)"),
    Q(kFirstToken, "first_token", "", "mean weight on the first token, over queries from 1 on"),
    Q(kCurrentToken, "current_token", "",
      "mean weight on the query's own token, over queries from 1 on"),
    Q(kSoftmaxGain, "softmax_gain", "",
      "sum over keys of A (1 - A), mean over queries that may read more than one key: how far "
      "the softmax passes gradients on; 0 for one-hot weights, 1 - 1/n for equal weights on n keys",
      {"gain", "{:.3f}", false}),
    Q(kImportance, "importance", "of L",
      "dL/dg of a gate g = 1 on the head's output z, which equals z . dL/dz", {},
      {"dL/dg, a slope: positive where a slightly larger output of the head would raise L"}),
    Q(kAbsoluteImportance, "absolute_importance", "of L",
      "mean over sequences of |dL/dg| (Michel et al. 2019)"),
    Q(kDq, "dq", "", "norm of dL/dq", {"|dL/dq|", "{:.2g}"},
      {"|dL/dQ|: norm of the gradient that reaches the head's queries", Q::Panel::kLog}),
    Q(kDk, "dk", "", "norm of dL/dk; for shared keys that of all heads which share them",
      {"|dL/dk|", "{:.2g}", false},
      {"|dL/dK|: norm of the gradient that reaches the head's keys", Q::Panel::kLog}),
    Q(kDv, "dv", "", "norm of dL/dv; for shared values that of all heads which share them",
      {"|dL/dv|", "{:.2g}"},
      {"|dL/dV|: norm of the gradient that reaches the head's values", Q::Panel::kLog}),
    Q(kDz, "dz", "", "norm of dL/dz"),
    Q(kDWQ, "dW_Q", "", "norm of the gradient of the head's block of W_Q, the weights of queries"),
    Q(kDWK, "dW_K", "", "norm of the gradient of the head's block of W_K, the weights of keys"),
    Q(kDWV, "dW_V", "", "norm of the gradient of the head's block of W_V, the weights of values"),
    Q(kDWO, "dW_O", "",
      "norm of the gradient of the head's block of W_O, the weights of the output projection"),
    Q(kNeeded, "needed", "of L", "L without the head, minus L", {"needed", "{:+.2g}"},
      {"needed: L without the head, minus L"}, Q::kEffects),
    Q(kSuffices, "suffices", "of L",
      "L if the head is the only one in its layer, minus L without all heads of the layer",
      {"suffices", "{:+.2g}"}, {}, Q::kMeasure),
    Q(kPredicted, "predicted", "of L", "prediction of needed by dL/dz", {}, {}, Q::kEffects),
    Q(kSoftmaxExact, "softmax_exact", "of L",
      "prediction of needed by dL/dz, with the softmax of later heads exact", {}, {}, Q::kMeasure),
    Q(kIntegrated, "integrated", "of L",
      "prediction of needed by the mean of dL/dz on the way to the replacement", {}, {},
      Q::kMeasure)};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kQuantityCount; ++i)
    if (kQuantities[i].quantity != i) return false;
  return std::size(kQuantities) == kQuantityCount;
}
static_assert(in_order());

double row_entropy(std::span<const double> row) {
  double entropy = 0;
  for (const double w : row)
    if (w > 0) entropy -= double(w) * std::log(double(w));
  return entropy;
}

}  // namespace

std::span<const HeadQuantity> head_quantities() { return kQuantities; }

HeadReport mean_report(std::span<const HeadReport> reports, std::span<const double> weights) {
  HeadReport mean = reports.front();
  for (std::size_t q = 0; q < kQuantityCount; ++q) {
    double sum = 0, total = 0;
    for (std::size_t i = 0; i < reports.size(); ++i) {
      const double weight = weights.empty() ? 1 : weights[i];
      if (!std::isnan(reports[i].values[q])) sum += weight * reports[i].values[q], total += weight;
    }
    mean.values[q] = sum / total;  // NaN if it is NaN in all reports
  }
  return mean;
}

HeadReport head_scores(std::span<const double> pattern, std::span<const std::int64_t> tokens,
                       std::span<const std::int64_t> visible) {
  const std::size_t n = tokens.size();
  heed::check(pattern.size() == n * n, "head_scores", "needs ", n, " x ", n, " weights, got ",
              pattern.size());
  heed::check(visible.empty() || visible.size() == n, "head_scores", "needs ", n,
              " numbers of visible keys, got ", visible.size());
  const double queries = double(n), later = double(n) - 1;
  double repeats = 0, choices = 0, total = 0;
  HeadReport r;
  for (const Quantity q : {kEntropy, kRelativeEntropy, kSoftmaxGain, kFirstToken, kCurrentToken,
                           kLargestWeight, kPreviousToken, kDuplicateToken, kInduction})
    r[q] = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::span<const double> row = pattern.subspan(i * n, n);
    const double own = row_entropy(row);
    const std::int64_t keys = visible.empty() ? std::int64_t(i) + 1 : visible[i];
    r[kEntropy] += own;
    if (keys > 1) r[kRelativeEntropy] += own / std::log(double(keys)), ++choices;
    for (const double w : row) {
      total += w;
      if (keys > 1) r[kSoftmaxGain] += w * (1 - w);
    }
    r[kLargestWeight] += std::ranges::max(row);
    if (i > 0)
      r[kFirstToken] += row[0], r[kCurrentToken] += row[i], r[kPreviousToken] += row[i - 1];
    bool seen = false;
    for (std::size_t j = 0; j < i; ++j) {
      if (tokens[j] != tokens[i]) continue;
      seen = true;
      r[kDuplicateToken] += row[j], r[kInduction] += row[j + 1];
    }
    repeats += seen;
  }
  if (repeats > 0) r[kDetectInduction] = r[kInduction] / total;
  // A mean over no queries, 0 / 0, is NaN.
  for (const auto& [q, count] :
       {std::pair{kEntropy, queries}, std::pair{kLargestWeight, queries},
        std::pair{kRelativeEntropy, choices}, std::pair{kSoftmaxGain, choices},
        std::pair{kFirstToken, later}, std::pair{kCurrentToken, later},
        std::pair{kPreviousToken, later}, std::pair{kDuplicateToken, repeats},
        std::pair{kInduction, repeats}})
    r[q] /= count;
  return r;
}

}  // namespace heed::nn
