#include "nn/tasks/ngram.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/error.h"

namespace heed::nn {

using namespace autograd;

NgramModel::NgramModel(std::int64_t vocabulary, std::int64_t order, std::size_t most)
    : vocabulary_(vocabulary),
      most_(most),
      levels_(std::size_t(std::max<std::int64_t>(order, 0) + 1)) {
  check<ValueError>(order >= 1, "n-gram", "needs an order of at least 1, got ", order);
  check<ValueError>(vocabulary >= 1 && vocabulary <= 1 << 16, "n-gram",
                    "needs 1 to 65536 symbols, got ", vocabulary);
  levels_[0].nodes.emplace_back();
  start();
}

NgramModel::Node NgramModel::child(std::size_t length, Node context, std::int64_t token) {
  std::vector<Counts>& longer = levels_[length + 1].nodes;
  const auto [found, is_new] =
      levels_[length].children.try_emplace(key(context, token), Node(longer.size()));
  if (is_new) longer.emplace_back(), ++entries_;
  return found->second;
}

void NgramModel::start(std::int64_t token) {
  contexts_ = {0};
  if (token >= 0 && order() > 1) contexts_.push_back(child(0, 0, token));
}

void NgramModel::count(std::int64_t token) {
  std::vector<Node> next = {0};
  for (std::size_t length = 0; length < contexts_.size(); ++length) {
    const Node node = child(length, contexts_[length], token);
    Counts& context = levels_[length].nodes[contexts_[length]];
    ++context.total;
    if (++levels_[length + 1].nodes[node].count == 1) ++context.distinct;
    if (next.size() < order()) next.push_back(node);
  }
  contexts_.swap(next);
  ++counted_;
  while (entries_ > most_ && order() > 1) drop_longest();
}

void NgramModel::drop_longest() {
  entries_ -= levels_.back().nodes.size();
  levels_.pop_back();
  levels_.back().children = {};
  if (contexts_.size() > order()) contexts_.resize(order());
}

std::vector<NgramModel::Node> NgramModel::advanced(const std::vector<Node>& contexts,
                                                   std::int64_t token) const {
  std::vector<Node> next = {0};
  for (std::size_t length = 0; length < contexts.size() && next.size() < order(); ++length) {
    const auto found = levels_[length].children.find(key(contexts[length], token));
    if (found == levels_[length].children.end()) break;
    next.push_back(found->second);
  }
  return next;
}

std::vector<double> NgramModel::losses(std::span<const std::int64_t> inputs,
                                       std::span<const std::int64_t> targets) const {
  std::vector<double> nats(order());
  std::vector<Node> contexts = {0};
  double tokens = 0;
  for (std::size_t t = 0; t < inputs.size(); ++t) {
    contexts = advanced(contexts, inputs[t]);
    if (targets[t] < 0) continue;
    double p = 1 / double(vocabulary_);
    for (std::size_t n = 0; n < order(); ++n) {  // n is the length of the context
      const Level& level = levels_[n];
      // If there are fewer than n tokens before the target, or if no token was counted after this
      // context, the estimate p of the shorter context remains.
      if (n < contexts.size() && level.nodes[contexts[n]].total > 0) {
        const Counts& context = level.nodes[contexts[n]];
        const auto found = level.children.find(key(contexts[n], targets[t]));
        const double count =
            found == level.children.end() ? 0 : levels_[n + 1].nodes[found->second].count;
        p = (count + context.distinct * p) / (double(context.total) + context.distinct);
      }
      nats[n] -= std::log(p);
    }
    ++tokens;
  }
  for (double& loss : nats) loss /= tokens;
  return nats;
}

}  // namespace heed::nn
