#include "nn/study/head_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/base/error.h"

namespace heed::nn {

namespace {

using R = HeadReport;
using Panel = HeadQuantity::Panel;

constexpr HeadQuantity kQuantities[] = {
    {.name = "entropy",
     .unit = "nats",
     .what = "of the weights, mean over queries",
     .value = &R::entropy,
     .column = {"entropy"},
     .compared = true,
     .panel = {"entropy of the weights (nats)", Panel::kFromZero}},
    {.name = "relative_entropy",
     .unit = "of log(visible keys)",
     .what = "entropy of the weights as a share of the largest one possible, mean over queries "
             "that may read more than one key",
     .value = &R::relative_entropy,
     .over_sequences = true},
    {.name = "largest_weight",
     .what = "mean over queries of the largest weight",
     .value = &R::largest_weight},
    {.name = "previous_token",
     .what = "mean weight on the token before, over queries from 1 on",
     .value = &R::previous_token,
     .column = {"previous"},
     .over_sequences = true,
     .compared = true,
     .panel = {"previous-token score: weight on the token before", Panel::kShare}},
    {.name = "duplicate_token",
     .what = "mean weight on earlier copies of the query's own token",
     .value = &R::duplicate_token,
     .column = {"duplicate", "{:.3f}", 1}},
    {.name = "induction",
     .what = "mean weight on what followed earlier copies of the query's own token",
     .value = &R::induction,
     .column = {"induction"},
     .over_sequences = true,
     .compared = true,
     .panel = {"induction score: weight on what followed earlier copies of the token",
               Panel::kShare}},
    {.name = "detect_induction",
     .what = "share of all weight that lies on what followed earlier copies of the query's own "
             "token (TransformerLens: detect_head, error_measure mul)",
     .value = &R::detect_induction},
    {.name = "saturation",
     .what = "|dL/dS| / |dL/dA|: how much of what weights want reaches the scores; 0 where weights "
             "are one-hot",
     .value = &R::saturation,
     .over_sequences = true},
    {.name = "importance",
     .unit = "of L",
     .what = "dL/dg of a gate g = 1 on the head's output z: z . dL/dz",
     .value = &R::importance,
     .over_sequences = true,
     .panel = {"dL/dg (nats): importance of the head, whose output g scales; negative: it lowers "
               "the loss",
               Panel::kSigned}},
    {.name = "absolute_importance",
     .unit = "of L",
     .what = "mean over sequences of |dL/dg| (Michel et al. 2019)",
     .value = &R::absolute_importance,
     .over_sequences = true},
    {.name = "dq",
     .what = "norm of dL/dq",
     .value = &R::dq,
     .column = {"|dL/dq|", "{:.2g}"},
     .over_sequences = true,
     .panel = {"|dL/dQ|: norm of the gradient that reaches the head's queries", Panel::kLog}},
    {.name = "dk",
     .what = "norm of dL/dk, of shared keys that of all heads which share them",
     .value = &R::dk,
     .column = {"|dL/dk|", "{:.2g}"},
     .over_sequences = true,
     .panel = {"|dL/dK|: its keys", Panel::kLog}},
    {.name = "dv",
     .what = "norm of dL/dv, of shared values likewise",
     .value = &R::dv,
     .column = {"|dL/dv|", "{:.2g}"},
     .over_sequences = true,
     .panel = {"|dL/dV|: its values", Panel::kLog}},
    {.name = "dz", .what = "norm of dL/dz", .value = &R::dz},
    {.name = "dW_Q",
     .what = "norm of the gradient of the head's block of the weights of queries",
     .value = &R::dW_Q},
    {.name = "dW_K", .what = "the same of keys", .value = &R::dW_K},
    {.name = "dW_V", .what = "the same of values", .value = &R::dW_V},
    {.name = "dW_O", .what = "the same of the output projection", .value = &R::dW_O}};

double mean_or_nan(double sum, double count) {
  return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}

double row_entropy(std::span<const float> row) {
  double entropy = 0;
  for (const float w : row)
    if (w > 0) entropy -= double(w) * std::log(double(w));
  return entropy;
}

}  // namespace

std::span<const HeadQuantity> head_quantities() { return kQuantities; }

HeadReport head_scores(std::span<const float> pattern, std::span<const std::int64_t> tokens,
                       std::span<const std::int64_t> visible) {
  const std::size_t n = tokens.size();
  autograd::check(pattern.size() == n * n, "head_scores", "needs ", n, " x ", n, " weights, got ",
                  pattern.size());
  autograd::check(visible.empty() || visible.size() == n, "head_scores", "needs ", n,
                  " numbers of visible keys, got ", visible.size());
  double entropy = 0, relative = 0, largest = 0, total = 0;
  double previous = 0, duplicate = 0, induction = 0;
  std::int64_t repeats = 0, choices = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::span<const float> row = pattern.subspan(i * n, n);
    const double own = row_entropy(row);
    const std::int64_t keys = visible.empty() ? std::int64_t(i) + 1 : visible[i];
    entropy += own;
    if (keys > 1) relative += own / std::log(double(keys)), ++choices;
    for (const float w : row) total += double(w);
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
  r.largest_weight = mean_or_nan(largest, double(n));
  r.previous_token = mean_or_nan(previous, double(n) - 1);
  r.duplicate_token = mean_or_nan(duplicate, double(repeats));
  r.induction = mean_or_nan(induction, double(repeats));
  r.detect_induction = repeats > 0 ? induction / total : mean_or_nan(0, 0);
  return r;
}

}  // namespace heed::nn
