#include "nn/tasks/ngram.h"

#include <bit>
#include <cmath>

#include "autograd/base/error.h"

namespace heed::nn {

using namespace autograd;

namespace {

// The last n tokens that have gone into `history`, as one number.
std::uint64_t last(std::uint64_t history, std::size_t n, int bits) {
  const int used = int(n) * bits;
  return used == 0 ? 0 : history << (64 - used) >> (64 - used);
}

}  // namespace

NgramModel::NgramModel(std::span<const std::uint16_t> text, std::int64_t vocabulary,
                       std::int64_t order)
    : vocabulary_(vocabulary), bits_(int(std::bit_width(std::uint64_t(vocabulary)))) {
  check<ValueError>(order >= 1 && order <= 64 / bits_, "n-gram", "needs an order of 1 to ",
                    64 / bits_, " for ", vocabulary, " symbols, got ", order);
  orders_.resize(std::size_t(order));
  std::uint64_t history = 0;
  for (std::size_t t = 0; t < text.size(); ++t) {
    const std::uint64_t before = history;
    history = history << bits_ | text[t];
    for (std::size_t n = 1; n <= orders_.size() && n <= t + 1; ++n) {
      Order& o = orders_[n - 1];
      Context& context = o.contexts[last(before, n - 1, bits_)];
      ++context.total;
      if (++o.counts[last(history, n, bits_)] == 1) ++context.distinct;
    }
  }
}

std::vector<double> NgramModel::losses(std::span<const std::int64_t> inputs,
                                       std::span<const std::int64_t> targets) const {
  std::vector<double> nats(orders_.size());
  std::uint64_t history = 0;
  double tokens = 0;
  for (std::size_t t = 0; t < inputs.size(); ++t) {
    history = history << bits_ | std::uint64_t(inputs[t]);
    if (targets[t] < 0) continue;
    const std::uint64_t with_next = history << bits_ | std::uint64_t(targets[t]);
    double p = 1 / double(vocabulary_);
    for (std::size_t n = 1; n <= orders_.size(); ++n) {
      const Order& o = orders_[n - 1];
      const auto context = o.contexts.find(last(history, n - 1, bits_));
      // Not enough tokens yet, or never seen: the shorter context decides.
      if (n <= t + 2 && context != o.contexts.end()) {
        const auto found = o.counts.find(last(with_next, n, bits_));
        const double count = found == o.counts.end() ? 0 : found->second;
        const double distinct = context->second.distinct;
        p = (count + distinct * p) / (context->second.total + distinct);
      }
      nats[n - 1] -= std::log(p);
    }
    ++tokens;
  }
  for (double& loss : nats) loss /= tokens;
  return nats;
}

}  // namespace heed::nn
