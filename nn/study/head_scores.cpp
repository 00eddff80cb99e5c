#include "nn/study/head_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/base/error.h"

namespace heed::nn {

namespace {

using R = HeadReport;
using Q = HeadQuantity;

// Each entry has the fields name, unit, what, value, text, column and panel of HeadQuantity.
constexpr HeadQuantity kQuantities[] = {
    {"entropy",
     "nats",
     "entropy of the weights, mean over queries",
     &R::entropy,
     Q::kComparison,
     {"entropy"},
     {"entropy of the weights (nats)", Q::Panel::kFromZero}},
    {"relative_entropy", "of log(visible keys)",
     "entropy of the weights as a share of the largest possible entropy, mean over queries that "
     "may "
     "read more than one key",
     &R::relative_entropy, Q::kSequences},
    {"largest_weight", "", "largest weight of a query, mean over queries", &R::largest_weight},
    {"previous_token",
     "",
     "mean weight on the token before, over queries from 1 on",
     &R::previous_token,
     Q::kSequences + Q::kComparison,
     {"prev"},
     {"previous-token score: weight on the token before", Q::Panel::kShare}},
    {"duplicate_token",
     "",
     "mean weight on earlier copies of the query's own token",
     &R::duplicate_token,
     Q::kNowhere,
     {"dup", "{:.3f}", 1}},
    {"induction",
     "",
     "mean weight on the tokens that followed earlier copies of the query's own token",
     &R::induction,
     Q::kSequences + Q::kComparison,
     {"ind"},
     {"induction score: weight on tokens that followed earlier copies of the token",
      Q::Panel::kShare}},
    {"detect_induction", "",
     "share of all weight that is on the tokens that followed earlier copies of the query's own "
     "token "
     "(TransformerLens: detect_head, error_measure mul)",
     &R::detect_induction},
    {"first_token", "", "mean weight on the first token, over queries from 1 on", &R::first_token},
    {"current_token", "", "mean weight on the query's own token, over queries from 1 on",
     &R::current_token},
    {"softmax_gain",
     "",
     "sum over keys of A (1 - A), mean over queries that may read more than one key: how far the "
     "softmax passes gradients on; 0 for one-hot weights, 1 - 1/n for equal weights on n keys",
     &R::softmax_gain,
     Q::kSequences,
     {"gain", "{:.3f}", 2}},
    {"saturation", "",
     "|dL/dS| / |dL/dA|, a number of earlier versions of heed; softmax_gain replaces it",
     &R::saturation},
    {"importance",
     "of L",
     "dL/dg of a gate g = 1 on the head's output z, which equals z . dL/dz",
     &R::importance,
     Q::kSequences,
     {},
     {"dL/dg: positive where a larger output of the head would raise L"}},
    {"absolute_importance", "of L", "mean over sequences of |dL/dg| (Michel et al. 2019)",
     &R::absolute_importance, Q::kSequences},
    {"dq",
     "",
     "norm of dL/dq",
     &R::dq,
     Q::kSequences,
     {"|dL/dq|", "{:.2g}"},
     {"|dL/dQ|: norm of the gradient that reaches the head's queries", Q::Panel::kLog}},
    {"dk",
     "",
     "norm of dL/dk; for shared keys that of all heads which share them",
     &R::dk,
     Q::kSequences,
     {"|dL/dk|", "{:.2g}", 3},
     {"|dL/dK|: norm of the gradient that reaches the head's keys", Q::Panel::kLog}},
    {"dv",
     "",
     "norm of dL/dv; for shared values that of all heads which share them",
     &R::dv,
     Q::kSequences,
     {"|dL/dv|", "{:.2g}"},
     {"|dL/dV|: norm of the gradient that reaches the head's values", Q::Panel::kLog}},
    {"dz", "", "norm of dL/dz", &R::dz},
    {"dW_Q", "", "norm of the gradient of the head's block of W_Q, the weights of queries",
     &R::dW_Q},
    {"dW_K", "", "norm of the gradient of the head's block of W_K, the weights of keys", &R::dW_K},
    {"dW_V", "", "norm of the gradient of the head's block of W_V, the weights of values",
     &R::dW_V},
    {"dW_O", "",
     "norm of the gradient of the head's block of W_O, the weights of the output projection",
     &R::dW_O}};

double mean_or_nan(double sum, double count) {
  return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}

double row_entropy(std::span<const double> row) {
  double entropy = 0;
  for (const double w : row)
    if (w > 0) entropy -= double(w) * std::log(double(w));
  return entropy;
}

}  // namespace

std::span<const HeadQuantity> head_quantities() { return kQuantities; }

HeadReport head_scores(std::span<const double> pattern, std::span<const std::int64_t> tokens,
                       std::span<const std::int64_t> visible) {
  const std::size_t n = tokens.size();
  heed::check(pattern.size() == n * n, "head_scores", "needs ", n, " x ", n, " weights, got ",
              pattern.size());
  heed::check(visible.empty() || visible.size() == n, "head_scores", "needs ", n,
              " numbers of visible keys, got ", visible.size());
  double entropy = 0, relative = 0, largest = 0, total = 0;
  double previous = 0, duplicate = 0, induction = 0, first = 0, current = 0, gain = 0;
  std::int64_t repeats = 0, choices = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::span<const double> row = pattern.subspan(i * n, n);
    const double own = row_entropy(row);
    const std::int64_t keys = visible.empty() ? std::int64_t(i) + 1 : visible[i];
    entropy += own;
    if (keys > 1) relative += own / std::log(double(keys)), ++choices;
    for (const double w : row) {
      total += double(w);
      if (keys > 1) gain += double(w) * (1 - double(w));
    }
    if (i > 0) first += double(row[0]), current += double(row[i]);
    largest += double(*std::max_element(row.begin(), row.end()));
    if (i > 0) previous += double(row[i - 1]);
    bool seen = false;
    for (std::size_t j = 0; j < i; ++j) {
      if (tokens[j] != tokens[i]) continue;
      seen = true;
      duplicate += double(row[j]);
      induction += double(row[j + 1]);
    }
    repeats += seen;
  }
  HeadReport r{};
  r.entropy = mean_or_nan(entropy, double(n));
  r.relative_entropy = mean_or_nan(relative, double(choices));
  r.softmax_gain = mean_or_nan(gain, double(choices));
  r.first_token = mean_or_nan(first, double(n) - 1);
  r.current_token = mean_or_nan(current, double(n) - 1);
  r.largest_weight = mean_or_nan(largest, double(n));
  r.previous_token = mean_or_nan(previous, double(n) - 1);
  r.duplicate_token = mean_or_nan(duplicate, double(repeats));
  r.induction = mean_or_nan(induction, double(repeats));
  r.detect_induction = repeats > 0 ? induction / total : mean_or_nan(0, 0);
  return r;
}

}  // namespace heed::nn
