#include "nn/tasks/ngram.h"

#include <cmath>

#include "autograd/base/error.h"

namespace heed::nn {

using namespace autograd;

NgramModel::NgramModel(std::int64_t vocabulary, std::int64_t order)
    : vocabulary_(vocabulary), order_(std::size_t(order)), nodes_(1) {
  check<ValueError>(order >= 1, "n-gram", "needs an order of 1 or more, got ", order);
  check<ValueError>(vocabulary >= 1 && vocabulary <= 1 << 16, "n-gram",
                    "needs 1 to 65536 symbols, got ", vocabulary);
  start();
}

NgramModel::Node NgramModel::child(Node context, std::int64_t token) {
  const auto [found, is_new] = children_.try_emplace(key(context, token), Node(nodes_.size()));
  if (is_new) nodes_.emplace_back();
  return found->second;
}

void NgramModel::start(std::int64_t token) {
  contexts_ = {0};
  if (token >= 0 && order_ > 1) contexts_.push_back(child(0, token));
}

void NgramModel::count(std::int64_t token) {
  std::vector<Node> next = {0};
  for (const Node context : contexts_) {
    const Node node = child(context, token);
    ++nodes_[context].total;
    if (++nodes_[node].count == 1) ++nodes_[context].distinct;
    if (next.size() < order_) next.push_back(node);
  }
  contexts_.swap(next);
  ++counted_;
}

std::vector<NgramModel::Node> NgramModel::advanced(const std::vector<Node>& contexts,
                                                   std::int64_t token) const {
  std::vector<Node> next = {0};
  for (const Node context : contexts) {
    const auto found = children_.find(key(context, token));
    if (found == children_.end() || next.size() == order_) break;
    next.push_back(found->second);
  }
  return next;
}

std::vector<double> NgramModel::losses(std::span<const std::int64_t> inputs,
                                       std::span<const std::int64_t> targets) const {
  std::vector<double> nats(order_);
  std::vector<Node> contexts = {0};
  double tokens = 0;
  for (std::size_t t = 0; t < inputs.size(); ++t) {
    contexts = advanced(contexts, inputs[t]);
    if (targets[t] < 0) continue;
    double p = 1 / double(vocabulary_);
    for (std::size_t n = 1; n <= order_; ++n) {
      // Not enough tokens yet, or never followed: the shorter context decides.
      if (n <= contexts.size() && nodes_[contexts[n - 1]].total > 0) {
        const Counts& context = nodes_[contexts[n - 1]];
        const auto found = children_.find(key(contexts[n - 1], targets[t]));
        const double count = found == children_.end() ? 0 : nodes_[found->second].count;
        p = (count + context.distinct * p) / (double(context.total) + context.distinct);
      }
      nats[n - 1] -= std::log(p);
    }
    ++tokens;
  }
  for (double& loss : nats) loss /= tokens;
  return nats;
}

}  // namespace heed::nn
