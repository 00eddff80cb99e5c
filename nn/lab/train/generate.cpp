#include "nn/lab/train/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "nn/lab/train/streams.h"

namespace heed::lab {

using namespace autograd;

Index sample_token(const Tensor& logits, const SampleOptions& o, Generator& g) {
  check<ValueError>(o.temperature > 0 && std::isfinite(o.temperature), "temperature",
                    "needs a finite number above 0, got ", o.temperature,
                    "; for the most likely token use greedy");
  check<ValueError>(o.top_k >= 0, "top-k", "needs >= 0, got ", o.top_k);
  check<ValueError>(o.top_p > 0 && o.top_p <= 1, "top-p",
                    "needs a number above 0 and at most 1, got ", o.top_p);
  std::vector<double> p;
  p.reserve(std::size_t(logits.numel()));
  dispatch_floating(logits.dtype(), "generate", [&]<class T> {
    for (const T& x : logits.to_vector<T>()) p.push_back(real(x));
  });
  for (std::size_t i = 0; i < p.size(); ++i)
    check<NumericError>(std::isfinite(p[i]), "generate", "the logit of token ", i, " is ", p[i],
                        "; the weights are damaged, or their training diverged: use other weights");
  const auto highest = std::max_element(p.begin(), p.end());
  check<ValueError>(highest != p.end(), "generate", "needs logits of at least one class");
  if (o.greedy) return highest - p.begin();
  // The largest logit is subtracted first, so that exp cannot overflow at any temperature.
  const double largest = *highest;
  double sum = 0;
  for (double& x : p) sum += x = std::exp((x - largest) / o.temperature);
  for (double& x : p) x /= sum;
  if (o.top_k == 0 && o.top_p == 1) return g.multinomial(p);
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

// The generated texts, which all have the same length, with their cached keys and values.
class Texts {
 public:
  Texts(const Transformer& model, const std::vector<Index>& prompt, Index count)
      : model_(model), texts_(std::size_t(count), prompt), cache_(model.cache(count)) {}

  std::vector<Index>& operator[](std::size_t i) { return texts_[i]; }

  /// Returns the logits of the next tokens, of shape [count, classes].
  Tensor logits() {
    const Index context = model_.options.context, total = std::ssize(texts_[0]);
    if (total > context) return last_logits(total - context, context, nullptr);
    return last_logits(cache_.length(), total - cache_.length(), &cache_);
  }

 private:
  Tensor last_logits(Index from, Index n, KVCache* cache) const {
    std::vector<Index> fresh;
    for (const auto& text : texts_)
      fresh.insert(fresh.end(), text.begin() + from, text.begin() + from + n);
    const Tensor ids = from_data(fresh, {std::ssize(texts_), n});
    ForwardContext ctx{.cache = cache};
    if (n > 1) ctx.logits_at = from_data(std::vector<Index>{n - 1}, {1});
    return flatten(model_.forward(ids, ctx), 1);  // [count, 1, classes] -> [count, classes]
  }

  const Transformer& model_;
  std::vector<std::vector<Index>> texts_;
  KVCache cache_;
};

}  // namespace

Generator sample_stream(std::int64_t seed, std::int64_t sample) {
  return sample == 0 ? Generator(std::uint64_t(seed))
                     : stream_of(mix(std::uint64_t(seed)) + std::uint64_t(sample));
}

void generate_samples(const Transformer& model, const std::vector<Index>& ids, Index n,
                      const SampleOptions& options, std::span<Generator> streams,
                      const std::function<bool(Index, Index)>& emit) {
  check<ValueError>(!ids.empty(), "generate", "needs at least one token to start from");
  check<ValueError>(!streams.empty(), "generate", "needs at least one stream of random numbers");
  const NoGrad guard;
  Texts texts(model, ids, std::ssize(streams));
  std::vector<bool> ended(streams.size());
  for (Index i = 0; i < n && !std::all_of(ended.begin(), ended.end(), std::identity()); ++i) {
    const Tensor logits = texts.logits();
    for (std::size_t s = 0; s < streams.size(); ++s) {
      if (ended[s]) {  // the sample stays in the batch, but its tokens are not used
        texts[s].push_back(texts[s].back());
        continue;
      }
      const Index id = sample_token(select(logits, 0, Index(s)), options, streams[s]);
      texts[s].push_back(id);
      ended[s] = !emit(Index(s), id);
    }
  }
}

void generate(const Transformer& model, const std::vector<Index>& ids, Index n,
              const SampleOptions& options, Generator& g, const std::function<bool(Index)>& emit) {
  generate_samples(model, ids, n, options, {&g, 1}, [&](Index, Index id) { return emit(id); });
}

}  // namespace heed::lab
