#include "nn/train/checks/causality.h"

#include <algorithm>
#include <cmath>

#include "autograd/engine/engine.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Returns whether output t must not depend on input s.
bool must_be_zero(const Reach& r, std::int64_t t, std::int64_t s) {
  return s > t || (s < t && !r.padding.empty() && r.padding[std::size_t(s)]);
}

// Returns the largest |x| over all axes except the first two, as an array [B, T]. If one of the
// compared values is NaN, the result is NaN.
std::vector<double> largest_by_position(const Tensor& x) {
  const Tensor flat = reshape(to(x, float64), {x.size(0), x.size(1), -1});
  return max(abs(flat), {2}).to_vector<double>();
}

// Returns the reach if the tokens `begin` to `end` - 1 are padding, to which no query may attend.
Reach padded_reach(const Transformer& model, const Tensor& x, std::int64_t begin, std::int64_t end,
                   const std::string& name, const ProgressCallback& progress) {
  std::vector<bool> padding(std::size_t(x.size(1)), false);
  std::fill(padding.begin() + begin, padding.begin() + end, true);
  const KeepMask keep(logical_not(from_data(padding, {1, 1, 1, x.size(1)})));
  Reach r = reach([&](const Tensor& e) { return model.forward_embedded(e, {.keep = keep}); }, x,
                  name, progress);
  r.padding = padding;
  return r;
}

// Number of positions that are tested in one batch. It bounds the number of sequences in a batch,
// so that long sequences do not need too much memory.
constexpr std::int64_t kBatch = 32;

// Returns the reach through a KV cache. Sequence s has a different token at position s; the last
// sequence of each batch is unchanged. If a logit of sequence s differs from the logit of the
// unchanged sequence, it depends on input s.
Reach cached_reach(const Transformer& model, const Tensor& ids, const ProgressCallback& progress) {
  const NoGrad guard;
  const std::int64_t length = ids.size(1), vocab = model.options.vocab, half = length / 2;
  const auto own = ids.to_vector<std::int64_t>();
  std::vector<double> by_input;  // [T, T], by input s and then by output t
  for (std::int64_t begin = 0; begin < length; begin += kBatch) {
    const std::int64_t count = std::min(kBatch, length - begin);
    std::vector<std::int64_t> tokens;
    for (std::int64_t s = begin; s <= begin + count; ++s)
      for (std::int64_t t = 0; t < length; ++t)
        tokens.push_back((own[std::size_t(t)] + (s == t && s < begin + count ? 1 : 0)) % vocab);
    const Tensor batch = from_data(tokens, {count + 1, length});
    KVCache cache = model.cache(count + 1);
    const Tensor first = model.forward(slice(batch, 1, 0, half), {.cache = &cache});
    const Tensor second = model.forward(slice(batch, 1, half, length), {.cache = &cache});
    const Tensor logits = cat({first, second}, 1);
    const Tensor change = slice(logits, 0, 0, count) - slice(logits, 0, count, count + 1);
    for (const double moved : largest_by_position(change)) by_input.push_back(moved);
    progress(begin + count, length);
  }
  const Tensor square = from_data(by_input, {length, length});
  return {"with a KV cache", length, transpose(square, 0, 1).to_vector<double>()};
}

// `places` contains the positions of n outputs. Returns an array [n, T] with a value for each of
// these outputs and each input: the largest |derivative| of the output over the channels of the
// input. Each output is computed on a separate copy of x, so that one backward pass is enough.
std::vector<double> reach_of_outputs(const std::function<Tensor(const Tensor&)>& f, const Tensor& x,
                                     const Tensor& places, Generator& random) {
  const std::int64_t count = places.size(0), length = x.size(1);
  Shape copies = x.shape();
  copies[0] = count;
  const GradMode recording(true);
  const Tensor inputs = contiguous(expand(x.detach(), copies)).detach().requires_grad_();
  const Tensor y = f(inputs);
  check(y.rank() >= 2 && y.size(0) == count && y.size(1) == length, "causality", "f needs to map ",
        inputs.shape(), " to [", count, ", ", length, ", ...], got ", y.shape());
  if (!y.requires_grad()) return std::vector<double>(std::size_t(count * length), 0.0);
  Shape own{count, length};
  for (int a = 2; a < y.rank(); ++a) own.push_back(1);
  const Tensor here = reshape(eq(unsqueeze(places, 1), arange(length)), own);
  const Tensor cotangent = masked_fill(randn(y.shape(), y.dtype(), random), logical_not(here), 0);
  return largest_by_position(grad(y, inputs, {.grad_output = cotangent, .allow_unused = true}));
}

}  // namespace

std::vector<Reach::Place> Reach::leaks() const {
  std::vector<Place> places;
  for (std::int64_t t = 0; t < length; ++t)
    for (std::int64_t s = 0; s < length; ++s)
      if (must_be_zero(*this, t, s) && !(at(t, s) == 0)) places.push_back({t, s, at(t, s)});
  return places;
}

std::vector<Reach::Place> Reach::blind() const {
  std::vector<Place> places;
  for (std::int64_t t = 0; t < length; ++t)
    if (!(at(t, t) > 0)) places.push_back({t, t, at(t, t)});
  return places;
}

std::string Reach::text() const {
  std::string lines;
  for (std::int64_t t = 0; t < length; ++t) {
    for (std::int64_t s = 0; s < length; ++s) {
      const bool zero = at(t, s) == 0;
      lines += zero ? (s == t ? '?' : '.') : must_be_zero(*this, t, s) ? '!' : '#';
    }
    lines += '\n';
  }
  return lines;
}

Reach reach(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, const std::string& name,
            const ProgressCallback& progress) {
  check(x.rank() >= 2 && x.size(0) == 1, "causality", "needs an x of [1, T, ...], got ", x.shape());
  const std::int64_t length = x.size(1);
  Generator random(1);
  Reach result{name, length, {}};
  for (std::int64_t t = 0; t < length; t += kBatch) {
    const std::int64_t end = std::min(t + kBatch, length);
    for (const double derivative : reach_of_outputs(f, x, arange(double(t), double(end)), random))
      result.values.push_back(derivative);
    if (progress) progress(end, length);
  }
  return result;
}

std::vector<Reach> causality(const Transformer& model, std::int64_t length,
                             const ProgressCallback& progress) {
  const Transformer::Options& o = model.options;
  if (length == 0) length = std::min<std::int64_t>(o.context, 32);
  check<ValueError>(length >= 2 && length <= o.context, "causality", "needs a length of 2 to ",
                    o.context, ", the model's context, got ", length);
  Generator random(1);
  const Tensor ids = randint(0, o.vocab, {1, length}, random);
  const Tensor x = model.tok(ids).detach();
  const std::int64_t padding = std::max<std::int64_t>(1, length / 4);
  constexpr std::int64_t kPasses = 4;
  std::vector<Reach> c;
  const auto of_all = [&](std::int64_t done, std::int64_t) {
    if (progress) progress(std::ssize(c) * length + done, kPasses * length);
  };
  c.push_back(padded_reach(model, x, 0, 0, "without padding", of_all));
  c.push_back(padded_reach(model, x, length - padding, length, "with padding at the end", of_all));
  c.push_back(padded_reach(model, x, 0, padding, "with padding at the start", of_all));
  c.push_back(cached_reach(model, ids, of_all));
  return c;
}

std::vector<Reach::Place> spot_leaks(const Transformer& model, std::int64_t seed) {
  const std::int64_t length = std::min<std::int64_t>(model.options.context, 32);
  if (length < 2) return {};
  Generator random{std::uint64_t(seed)};
  const Tensor ids = randint(0, model.options.vocab, {1, length}, random);
  // The last output may depend on every input, so it is not tested.
  const std::int64_t spots = std::min<std::int64_t>(3, length - 1);
  const Tensor outputs = contiguous(slice(randperm(length - 1, random), 0, 0, spots));
  const std::vector<double> derivatives =
      reach_of_outputs([&](const Tensor& e) { return model.forward_embedded(e); },
                       model.tok(ids).detach(), outputs, random);
  std::vector<Reach::Place> leaks;
  for (std::int64_t i = 0; i < spots; ++i) {
    const std::int64_t output = outputs.to_vector<std::int64_t>()[std::size_t(i)];
    for (std::int64_t s = output + 1; s < length; ++s)
      if (const double value = derivatives[std::size_t(i * length + s)]; std::abs(value) > 0)
        leaks.push_back({output, s, value});
  }
  return leaks;
}

}  // namespace heed::nn
