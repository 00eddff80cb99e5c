#include "tools/peers/gradchecker_cases.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace heed::peers {
namespace {

using Size = std::size_t;
using Values = std::vector<double>;
using Backward = decltype(GradientCase::backward);

// Returns n pseudo-random numbers in [-2, 2]. They are the same on every machine.
Values numbers(Size n, unsigned seed) {
  Values out;
  for (Size k = 0; k < n; ++k) {
    seed = seed * 1664525u + 1013904223u;
    out.push_back(double(seed >> 8) / (1 << 22) - 2);
  }
  return out;
}

// ---- softmax over the rows of [rows, columns]; T is the type of the arithmetic

template <class T>
Values softmax_rows(const Values& x, Size columns) {
  Values y(x.size());
  for (Size row = 0; row < x.size(); row += columns) {
    T total = 0;
    for (Size c = 0; c < columns; ++c) total += std::exp(T(x[row + c]));
    for (Size c = 0; c < columns; ++c) y[row + c] = double(std::exp(T(x[row + c])) / total);
  }
  return y;
}
// Returns y (v - mean * <y, v>) for each row. This is the correct gradient if mean = 1.
template <class T>
Values softmax_rows_backward(const Values& y, const Values& v, Size columns, double mean = 1) {
  Values g(y.size());
  for (Size row = 0; row < y.size(); row += columns) {
    T dot = 0;
    for (Size c = 0; c < columns; ++c) dot += T(y[row + c]) * T(v[row + c]);
    for (Size c = 0; c < columns; ++c)
      g[row + c] = double(T(y[row + c]) * (T(v[row + c]) - T(mean) * dot));
  }
  return g;
}

// Returns the case of the function scale * softmax. Its gradient is multiplied by `factor`.
template <class T = double>
GradientCase softmax_case(const std::string& what, double factor, double scale = 1,
                          double mean = 1) {
  constexpr Size kColumns = 5;
  const auto times = [](Values values, double by) {
    for (double& e : values) e *= by;
    return values;
  };
  return {.op = "softmax",
          .what = what,
          .x = {numbers(3 * kColumns, 1)},
          .forward = [=](const Vectors& x) -> Vectors {
            return {times(softmax_rows<T>(x[0], kColumns), scale)};
          },
          .backward = [=](const Vectors& x, const Vectors& v) -> Vectors {
            const Values y = softmax_rows<T>(x[0], kColumns);
            return {times(softmax_rows_backward<T>(y, v[0], kColumns, mean), factor * scale)};
          }};
}

// Returns a softmax case. Its backward pass is correct, but receives cotangents changed by
// change().
GradientCase softmax_of_cotangents(const std::string& what, double (*change)(double)) {
  GradientCase c = softmax_case(what, 1);
  c.backward = [right = c.backward, change](const Vectors& x, Vectors v) {
    for (double& e : v[0]) e = change(e);
    return right(x, v);
  };
  return c;
}

// ---- causal attention of one head: q, k, v [tokens, width]

constexpr Size kTokens = 4, kWidth = 3;
const double kScale = 1 / std::sqrt(double(kWidth));

struct AttentionBug {
  bool mask_forgotten = false, no_scale = false, dk_row_off = false, only_v = false,
       transposed = false;
};

// Returns the product of a [m, k] and b [k, n]. With `transposed_a`, a is stored as [k, m]. With
// `transposed_b`, b is stored as [n, k].
Values product(const Values& a, bool transposed_a, const Values& b, bool transposed_b, Size m,
               Size n) {
  const Size k = a.size() / m;
  Values c(m * n);
  for (Size i = 0; i < m; ++i)
    for (Size j = 0; j < n; ++j)
      for (Size l = 0; l < k; ++l)
        c[i * n + j] +=
            a[transposed_a ? l * m + i : i * k + l] * b[transposed_b ? j * k + l : l * n + j];
  return c;
}

Values attention_weights(const Vectors& x, bool masked) {
  Values scores = product(x[0], false, x[1], true, kTokens, kTokens);
  for (Size i = 0; i < kTokens; ++i)
    for (Size j = 0; j < kTokens; ++j)
      scores[i * kTokens + j] = masked && j > i ? -HUGE_VAL : scores[i * kTokens + j] * kScale;
  return softmax_rows<double>(scores, kTokens);
}

Vectors attention_forward(const Vectors& x) {
  return {product(attention_weights(x, true), false, x[2], false, kTokens, kWidth)};
}

Vectors attention_backward(const Vectors& x, const Vectors& v, const AttentionBug& bug) {
  const Values p = attention_weights(x, !bug.mask_forgotten);
  const Values dp = product(v[0], false, x[2], true, kTokens, kTokens);
  const Values ds = softmax_rows_backward<double>(p, dp, kTokens);
  Values dq = product(ds, false, x[1], false, kTokens, kWidth),
         dk = product(ds, !bug.transposed, x[0], false, kTokens, kWidth);
  for (double& e : dq) e *= bug.no_scale ? 1 : kScale;
  for (double& e : dk) e *= kScale;
  if (bug.dk_row_off) std::rotate(dk.begin(), dk.begin() + kWidth, dk.end());
  if (bug.only_v) dq.assign(dq.size(), 0), dk.assign(dk.size(), 0);
  return {dq, dk, product(p, true, v[0], false, kTokens, kWidth)};
}

GradientCase attention_case(std::string what, AttentionBug bug) {
  return {.op = "masked attention",
          .what = std::move(what),
          .x = {numbers(kTokens * kWidth, 2), numbers(kTokens * kWidth, 3),
                numbers(kTokens * kWidth, 4)},
          .forward = attention_forward,
          .backward = [bug](const Vectors& x, const Vectors& v) {
            return attention_backward(x, v, bug);
          }};
}

// ---- layer norm of [3, 4] with gain [4]; if `strided`, x is stored as [4, 3]

struct NormBug {
  bool no_mean_term = false, gain_assigned = false, stale_deviation = false;
  bool strided = false;  // not a bug: x is in transposed memory
};

GradientCase layer_norm_case(std::string what, NormBug bug) {
  constexpr Size kRows = 3, kColumns = 4;
  const auto at = [bug](Size r, Size c) { return bug.strided ? c * kRows + r : r * kColumns + c; };
  // Returns the normalized x and, for each row, 1 / standard deviation.
  const auto normalize = [at](const Values& x) {
    std::pair<Values, Values> out{Values(x.size()), Values(kRows)};
    for (Size r = 0; r < kRows; ++r) {
      double mean = 0, variance = 0;
      for (Size c = 0; c < kColumns; ++c) mean += x[at(r, c)] / kColumns;
      for (Size c = 0; c < kColumns; ++c) variance += std::pow(x[at(r, c)] - mean, 2) / kColumns;
      out.second[r] = 1 / std::sqrt(variance + 1e-5);
      for (Size c = 0; c < kColumns; ++c)
        out.first[at(r, c)] = (x[at(r, c)] - mean) * out.second[r];
    }
    return out;
  };
  const auto forward = [=](const Vectors& x) -> Vectors {
    Values y = normalize(x[0]).first;
    for (Size r = 0; r < kRows; ++r)
      for (Size c = 0; c < kColumns; ++c) y[at(r, c)] *= x[1][c];
    return {y};
  };
  const auto backward = [=](const Vectors& x, const Vectors& v) -> Vectors {
    const auto [y, inverse] = normalize(x[0]);
    Values dx(y.size()), dgain(kColumns);
    for (Size r = 0; r < kRows; ++r) {
      double sum = 0, dot = 0;
      for (Size c = 0; c < kColumns; ++c) {
        const Size e = at(r, c);
        sum += v[0][e] * x[1][c] / kColumns;
        dot += v[0][e] * x[1][c] * y[e] / kColumns;
        dgain[c] = v[0][e] * y[e] + (bug.gain_assigned ? 0 : dgain[c]);
      }
      if (bug.no_mean_term) sum = 0;
      for (Size c = 0; c < kColumns; ++c)
        dx[at(r, c)] = inverse[bug.stale_deviation ? 0 : r] *
                       (v[0][at(r, c)] * x[1][c] - sum - y[at(r, c)] * dot);
    }
    return {dx, dgain};
  };
  return {.op = "layer norm",
          .what = std::move(what),
          .x = {numbers(kRows * kColumns, 5), numbers(kColumns, 6)},
          .forward = forward,
          .backward = backward};
}

// ---- mean cross-entropy of logits [4, 5]; the last row is padding

struct LossBug {
  bool sum = false, padding = false, no_target = false;
};

GradientCase cross_entropy_case(std::string what, LossBug bug) {
  constexpr Size kRows = 4, kClasses = 5, kCounted = 3;
  static constexpr Size kTargets[kRows] = {2, 0, 4, 1};
  return {.op = "cross entropy",
          .what = std::move(what),
          .x = {numbers(kRows * kClasses, 7)},
          .forward = [](const Vectors& x) -> Vectors {
            const Values p = softmax_rows<double>(x[0], kClasses);
            double loss = 0;
            for (Size r = 0; r < kCounted; ++r)
              loss -= std::log(p[r * kClasses + kTargets[r]]) / kCounted;
            return {{loss}};
          },
          .backward = [bug](const Vectors& x, const Vectors& v) -> Vectors {
            Values g = softmax_rows<double>(x[0], kClasses);
            for (Size r = 0; r < kRows; ++r) {
              if (!bug.no_target) g[r * kClasses + kTargets[r]] -= 1;
              for (Size c = 0; c < kClasses; ++c) {
                g[r * kClasses + c] *= v[0][0] / (bug.sum ? 1.0 : double(kCounted));
                if (r >= kCounted && !bug.padding) g[r * kClasses + c] = 0;
              }
            }
            return {g};
          }};
}

// ---- embedding: rows of a table [4, 3] are selected by index, row 1 twice

struct IndexBug {
  bool assigned = false;
  Size off = 0;
};

GradientCase index_case(std::string what, IndexBug bug) {
  constexpr Size kRows = 4, kColumns = 3;
  static constexpr Size kIndex[] = {1, 3, 1, 0};
  return {.op = "embedding",
          .what = std::move(what),
          .x = {numbers(kRows * kColumns, 8)},
          .forward = [](const Vectors& x) -> Vectors {
            Values y;
            for (const Size i : kIndex)
              for (Size c = 0; c < kColumns; ++c) y.push_back(x[0][i * kColumns + c]);
            return {y};
          },
          .backward = [bug](const Vectors& x, const Vectors& v) -> Vectors {
            Values g(x[0].size());
            Size from = 0;
            for (const Size i : kIndex)
              for (Size c = 0; c < kColumns; ++c) {
                double& e = g[(i + bug.off) % kRows * kColumns + c];
                e = v[0][from++] + (bug.assigned ? 0 : e);
              }
            return {g};
          }};
}

// ---- relu(x)^2 + relu(x) of each element, which has a kink at 0

GradientCase kink_case(std::string what, Values x) {
  return {.op = "relu",
          .what = std::move(what),
          .x = {std::move(x)},
          .forward = [](const Vectors& v) -> Vectors {
            Values y = v[0];
            for (double& e : y) e = e > 0 ? e + e * e : 0;
            return {y};
          },
          .backward = [](const Vectors& v, const Vectors& cotangents) -> Vectors {
            Values g = cotangents[0];
            for (Size j = 0; j < g.size(); ++j) g[j] *= v[0][j] > 0 ? 1 + 2 * v[0][j] : 0;
            return {g};
          }};
}

GradientCase right(GradientCase c) {
  c.wrong = false;
  return c;
}

std::vector<GradientCase> wrong_cases() {
  return {softmax_case("sign", -1),
          softmax_case("times 2", 2),
          softmax_case("zero", 0),
          softmax_case("without the mean's term", 1, 1, 0),
          softmax_of_cotangents("cotangent's sign lost", [](double v) { return std::abs(v); }),
          softmax_of_cotangents("cotangent clipped to [-1, 1]",
                                [](double v) { return std::clamp(v, -1.0, 1.0); }),
          softmax_case("times 1e-11, sign", -1, 1e-11),
          attention_case("mask forgotten", {.mask_forgotten = true}),
          attention_case("scale of dq forgotten", {.no_scale = true}),
          attention_case("dk one row off", {.dk_row_off = true}),
          attention_case("dv only", {.only_v = true}),
          attention_case("dS not transposed for dk", {.transposed = true}),
          layer_norm_case("without the mean's term", {.no_mean_term = true}),
          layer_norm_case("gain assigned, not added", {.gain_assigned = true}),
          layer_norm_case("deviation of row 0, stale", {.stale_deviation = true}),
          cross_entropy_case("of the sum, not the mean", {.sum = true}),
          cross_entropy_case("padding has a gradient", {.padding = true}),
          cross_entropy_case("target not subtracted", {.no_target = true}),
          index_case("repeated row assigned, not added", {.assigned = true}),
          index_case("one row off", {.off = 1})};
}

std::vector<GradientCase> right_cases() {
  GradientCase single = softmax_case<float>("float32", 1);
  single.single = true;
  for (double& e : single.x[0]) e = double(float(e));
  GradientCase strided = layer_norm_case("not contiguous", {.strided = true});
  strided.transposed = true;
  return {right(softmax_case("times 1e12", 1, 1e12)), right(softmax_case("times 1e-12", 1, 1e-12)),
          right(kink_case("2e-7 from its kink", {0.7, 2e-7, -1.1, -2e-7})), right(single),
          right(strided)};
}

}  // namespace

const std::vector<GradientCase>& gradient_cases() {
  static const std::vector<GradientCase> cases = [] {
    std::vector<GradientCase> all = wrong_cases();
    for (GradientCase& c : right_cases()) all.push_back(std::move(c));
    return all;
  }();
  return cases;
}

const std::vector<GradientCase>& resolution_cases() {
  static const std::vector<GradientCase> cases = [] {
    std::vector<GradientCase> all;
    for (int d = 1; d <= 14; ++d)
      all.push_back(softmax_case("times 1 + 1e-" + std::to_string(d), 1 + std::pow(10, -d)));
    return all;
  }();
  return cases;
}

}  // namespace heed::peers
