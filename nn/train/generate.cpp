#include "nn/train/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace heed::nn {

using namespace autograd;

std::int64_t sample_token(const Tensor& logits, const SampleOptions& o, Generator& g) {
  check<ValueError>(o.temperature > 0 && std::isfinite(o.temperature), "temperature",
                    "needs above 0, got ", o.temperature, "; greedy takes the most likely");
  check<ValueError>(o.top_k >= 0, "top-k", "needs >= 0, got ", o.top_k);
  check<ValueError>(o.top_p > 0 && o.top_p <= 1, "top-p", "needs above 0 to 1, got ", o.top_p);
  std::vector<double> p = to(logits.detach(), float64).to_vector<double>();
  for (std::size_t i = 0; i < p.size(); ++i)
    check<NumericError>(std::isfinite(p[i]), "generate", "the logit of token ", i, " is ", p[i],
                        "; the training that made these weights has diverged");
  const auto highest = std::max_element(p.begin(), p.end());
  check<ValueError>(highest != p.end(), "generate", "needs logits of at least one class");
  if (o.greedy) return highest - p.begin();
  // The largest first becomes 0: no temperature, however small, makes infinities of the rest.
  const double largest = *highest;
  double sum = 0;
  for (double& x : p) sum += x = std::exp((x - largest) / o.temperature);
  for (double& x : p) x /= sum;
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return p[a] > p[b]; });
  std::vector<double> kept(p.size(), 0.0);
  double mass = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if ((o.top_k > 0 && i >= std::size_t(o.top_k)) || (i > 0 && mass >= o.top_p)) break;
    kept[order[i]] = p[order[i]];
    mass += p[order[i]];
  }
  return g.multinomial(kept);
}

namespace {

GeneratedToken with_probabilities(std::int64_t id, const Tensor& logits) {
  const auto p = softmax(to(logits, float64), 0).to_vector<double>();
  GeneratedToken token{.id = id, .probability = p[std::size_t(id)], .runner_up = id};
  for (std::int64_t i = 0; i < std::ssize(p); ++i)
    if (i != id && (token.runner_up == id || p[std::size_t(i)] > token.runner_up_probability)) {
      token.runner_up = i;
      token.runner_up_probability = p[std::size_t(i)];
    }
  return token;
}

}  // namespace

void generate(const Transformer& model, std::vector<std::int64_t> ids, std::int64_t n,
              const SampleOptions& options, Generator& g,
              const std::function<bool(const GeneratedToken&)>& emit) {
  check<ValueError>(!ids.empty(), "generate", "needs at least one token to start from");
  const NoGrad guard;
  const std::int64_t context = model.options.context;
  KVCache cache = model.cache();
  for (std::int64_t i = 0; i < n; ++i) {
    // Within the context only what the cache lacks is run. Beyond it the window slides, and what is
    // cached of its tokens rests on other positions and on tokens that left: all of it is run.
    const std::int64_t total = std::int64_t(ids.size());
    const bool slides = total > context;
    const std::int64_t length = slides ? context : total - cache.length();
    const std::vector<std::int64_t> fresh(ids.end() - length, ids.end());
    const Tensor logits =  // [1, length, classes]
        model.forward(from_data(fresh, {1, length}), {.cache = slides ? nullptr : &cache});
    const Tensor last = select(select(logits, 0, 0), 0, -1);
    ids.push_back(sample_token(last, options, g));
    if (!emit(with_probabilities(ids.back(), last))) return;
  }
}

}  // namespace heed::nn
