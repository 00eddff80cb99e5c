#include "examples/exercises/check_attention.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>

using namespace heed::autograd;

namespace heed::exercises {
namespace {

constexpr Index kBatch = 2, kTokens = 5, kHeads = 2, kModel = 6, kHead = 3;

// Weights, input and cotangent of the output with which layers are compared.
struct TestPoint {
  nn::HeadWeights weights;
  Tensor x, cotangent;
};
constexpr const char* kNames[] = {"x", "W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"};
std::vector<Tensor> leaves_of(const TestPoint& p) {
  const nn::HeadWeights& w = p.weights;
  return {p.x, w.W_Q, w.W_K, w.W_V, w.W_O, w.b_Q, w.b_K, w.b_V, w.b_O};
}

// Makes a point with random weights, because with equal weights all heads would be equal. The
// biases of q and k lower all scores (before scaling) by about 3 depth^2.
TestPoint make_point(double depth) {
  Generator g(7);
  const auto normal = [&](const Shape& shape) {
    return randn(shape, float64, g).detach().requires_grad_();
  };
  TestPoint p;
  p.x = normal({kBatch, kTokens, kModel});
  for (Tensor* W : {&p.weights.W_Q, &p.weights.W_K, &p.weights.W_V})
    *W = normal({kHeads, kModel, kHead});
  p.weights.W_O = normal({kHeads, kHead, kModel});
  for (Tensor* b : {&p.weights.b_Q, &p.weights.b_K, &p.weights.b_V}) *b = normal({kHeads, kHead});
  p.weights.b_O = normal({kModel});
  p.weights.b_Q = (p.weights.b_Q + depth).detach().requires_grad_();
  p.weights.b_K = (p.weights.b_K - depth).detach().requires_grad_();
  p.cotangent = randn({kBatch, kTokens, kModel}, float64, g);
  return p;
}

// Value and gradients of a layer at a point.
struct Behavior {
  Tensor value;
  std::vector<Tensor> gradients;  // in the order of kNames
};
Behavior observe(const AttentionFunction& f, const TestPoint& p) {
  const Tensor y = f(p.weights, p.x);
  expect_shape(y, p.x.shape());
  const std::vector<Tensor> leaves = leaves_of(p);
  Behavior result{y.detach(), {}};
  if (y.requires_grad())
    result.gradients = grad(y, leaves, {.grad_output = p.cotangent, .allow_unused = true});
  else
    for (const Tensor& leaf : leaves) result.gradients.push_back(zeros_like(leaf));
  return result;
}

double largest_of(const Tensor& x) { return max(abs(x)).item(); }
// Returns true if a and b differ by at most 1e-9 scale, which allows for rounding.
bool agree(const Tensor& a, const Tensor& b, double scale) {
  return largest_of(a - b) <= 1e-9 * scale;
}
bool same_values(const Behavior& mine, const Behavior& other) {
  return agree(mine.value, other.value, largest_of(other.value));
}
// Returns the index in kNames of the first gradient of `mine` that differs from `other`, or nothing
// if all agree. The tolerance is relative to the largest entry of all gradients, because the
// gradient of b_K is 0 up to rounding.
std::optional<std::size_t> find_wrong_gradient(const Behavior& mine, const Behavior& other) {
  double largest = 0;
  for (const Tensor& g : other.gradients) largest = std::max(largest, largest_of(g));
  for (std::size_t i = 0; i < mine.gradients.size(); ++i)
    if (!agree(mine.gradients[i], other.gradients[i], largest)) return i;
  return std::nullopt;
}

using Mistakes = std::vector<Mistake>;

// Computes attention with these mistakes. There is at most one mistake in each step.
Tensor attend(const Mistakes& mistakes, const nn::HeadWeights& w, const Tensor& x) {
  const auto makes = [&](Mistake m) {
    return std::find(mistakes.begin(), mistakes.end(), m) != mistakes.end();
  };
  const auto project = [&](const Tensor& W, const Tensor& b) {
    return matmul(unsqueeze(x, 1), W) + unsqueeze(b, 1);
  };
  const double scale = makes(Mistake::kNoScale)         ? 1
                       : makes(Mistake::kScaledByModel) ? std::sqrt(double(kModel))
                                                        : std::sqrt(double(kHead));
  const Tensor scores = matmul(project(w.W_Q, w.b_Q), mT(project(w.W_K, w.b_K))) / scale;

  const auto up_to = [](Index ahead) { return tril_mask(kTokens, kTokens, ahead); };
  const Tensor keep = makes(Mistake::kMaskHidesItself)  ? up_to(-1)
                      : makes(Mistake::kMaskShowsNext)  ? up_to(1)
                      : makes(Mistake::kMaskTransposed) ? logical_not(up_to(-1))
                      : makes(Mistake::kMaskInverted)   ? logical_not(up_to(0))
                      : makes(Mistake::kNoMask)         ? up_to(kTokens)
                                                        : up_to(0);
  const Tensor masked =
      masked_fill(scores, logical_not(keep), makes(Mistake::kFiniteMask) ? -1e9 : -kInf);
  const int axis = makes(Mistake::kSoftmaxOverQueries) ? 2
                   : makes(Mistake::kSoftmaxOverHeads) ? 1
                                                       : 3;
  Tensor z = matmul(softmax(masked, axis), project(w.W_V, w.b_V));
  if (makes(Mistake::kHeadsSwapped)) z = flip(z, 1);
  if (!makes(Mistake::kNoPermute)) z = permute(z, {0, 2, 1, 3});
  const Tensor joined = reshape(z, {x.size(0), x.size(1), kHeads * kHead});
  return matmul(joined, reshape(w.W_O, {kHeads * kHead, kModel})) + w.b_O;
}

// Returns every combination of mistakes, sorted by the number of mistakes. The first is empty.
std::vector<Mistakes> combinations() {
  using enum Mistake;
  const std::vector<Mistakes> steps = {
      {kNoScale, kScaledByModel},
      {kMaskHidesItself, kMaskShowsNext, kMaskTransposed, kMaskInverted, kNoMask},
      {kFiniteMask},
      {kSoftmaxOverQueries, kSoftmaxOverHeads},
      {kNoPermute},
      {kHeadsSwapped}};
  std::vector<Mistakes> all = {{}};
  for (const Mistakes& step : steps)
    for (std::size_t i = 0, before = all.size(); i < before; ++i)
      for (const Mistake m : step) {
        all.push_back(all[i]);
        all.back().push_back(m);
      }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return all;
}

// Returns the finding that describes `mistakes`. `more` is appended to the message.
AttentionFinding explain(const Mistakes& mistakes, const std::string& more = "") {
  std::string text;
  for (const Mistake m : mistakes) text += std::string(text.empty() ? "" : "; ") + describe(m);
  return {mistakes,
          mistakes.empty() ? "right: values and gradients agree" : "mistake: " + text + more};
}

// Returns a text that names the first wrong output and its right value.
std::string first_difference(const Behavior& mine, const Behavior& right) {
  const auto a = mine.value.to_vector<double>(), b = right.value.to_vector<double>();
  std::size_t at = 0;
  while (at + 1 < a.size() && std::abs(a[at] - b[at]) <= 1e-9 * std::abs(b[at])) ++at;
  std::ostringstream text;
  text << "; output at " << unravel(Index(at), mine.value.shape()) << " is " << a[at]
       << ", should be " << b[at];
  return text.str();
}

}  // namespace

const char* describe(Mistake mistake) {
  switch (mistake) {
    case Mistake::kNoScale:
      return "scores are not divided by sqrt(d_head)";
    case Mistake::kScaledByModel:
      return "scores are divided by sqrt(d_model), not sqrt(d_head)";
    case Mistake::kMaskHidesItself:
      return "mask off by one: a query cannot attend to its own position";
    case Mistake::kMaskShowsNext:
      return "mask off by one: a query can attend to the next position";
    case Mistake::kMaskTransposed:
      return "mask transposed: a query can attend to its own and later positions only";
    case Mistake::kMaskInverted:
      return "mask inverted: a query can attend to later positions only";
    case Mistake::kNoMask:
      return "no mask: a query can attend to all positions";
    case Mistake::kFiniteMask:
      return "masked scores are a number such as -1e9, not -inf";
    case Mistake::kSoftmaxOverQueries:
      return "softmax over the wrong axis: over queries, not keys";
    case Mistake::kSoftmaxOverHeads:
      return "softmax over the wrong axis: over heads, not keys";
    case Mistake::kNoPermute:
      return "heads are concatenated without a permute of heads and positions";
    case Mistake::kHeadsSwapped:
      return "heads are concatenated in the wrong order";
    case Mistake::kNoGradient:
      return "a gradient is wrong";
    case Mistake::kUnknown:
      return "unknown";
  }
  return "";
}

AttentionFinding check_attention(const AttentionFunction& f) try {
  const TestPoint points[] = {make_point(0), make_point(1e6)};
  const Behavior mine[] = {observe(f, points[0]), observe(f, points[1])};
  std::optional<AttentionFinding> values_alone;
  for (const Mistakes& mistakes : combinations()) {
    const auto wrong = [&](const nn::HeadWeights& w, const Tensor& x) {
      return attend(mistakes, w, x);
    };
    const Behavior other[] = {observe(wrong, points[0]), observe(wrong, points[1])};
    if (!same_values(mine[0], other[0]) || !same_values(mine[1], other[1])) continue;
    auto at = find_wrong_gradient(mine[0], other[0]);
    if (!at) at = find_wrong_gradient(mine[1], other[1]);
    if (!at) return explain(mistakes);
    if (values_alone) continue;
    Mistakes with_gradient = mistakes;
    with_gradient.push_back(Mistake::kNoGradient);
    values_alone = explain(with_gradient, std::string(", that of ") + kNames[*at] +
                                              "; check whether a tensor on its path is detached");
  }
  if (values_alone) return *values_alone;
  const auto right = [](const nn::HeadWeights& w, const Tensor& x) { return attend({}, w, x); };
  return explain({Mistake::kUnknown}, first_difference(mine[0], observe(right, points[0])));
} catch (const Error& e) {
  return {{Mistake::kUnknown}, e.what()};
}

}  // namespace heed::exercises
