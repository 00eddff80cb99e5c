#include "nn/lab/study/roles.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "autograd/ops/ops.h"
#include "nn/lab/tasks/repeat_random.h"
#include "nn/layers/probe.h"

namespace heed::lab {

using namespace autograd;

namespace {

using Tokens = std::vector<Index>;

// Returns the tokens of each sequence, without padding.
std::vector<Tokens> tokens_of(const Batch& batch) {
  const auto all = batch.inputs.to_vector<std::int64_t>();
  std::vector<Tokens> sequences;
  for (Index b = 0; b < batch.inputs.size(0); ++b) {
    const auto begin = all.begin() + b * batch.inputs.size(1);
    sequences.emplace_back(begin, begin + batch.tokens_of(b));
  }
  return sequences;
}

// Attention weights of one head, [B, T, T], and where they matter, [B, T].
struct WeightedHead {
  std::vector<Tokens> tokens;
  Index length, window;
  std::vector<double> A, weights;

  double a(std::size_t b, std::size_t i, Index j) const {
    return A[(b * std::size_t(length) + i) * std::size_t(length) + std::size_t(j)];
  }
  double w(std::size_t b, std::size_t i) const { return weights[b * std::size_t(length) + i]; }

  // Returns the weighted mean of f(b, i) over all queries.
  template <class F>
  double mean(const F& f) const {
    double sum = 0, total = 0;
    for (std::size_t b = 0; b < tokens.size(); ++b)
      for (std::size_t i = 0; i < tokens[b].size(); ++i) sum += w(b, i) * f(b, i), total += w(b, i);
    return total > 0 ? sum / total : 0;
  }
  double score(const Pattern& pattern) const {
    std::vector<std::vector<Tokens>> keys;
    for (const Tokens& t : tokens) keys.push_back(keys_of(pattern, t, window));
    return mean([&](std::size_t b, std::size_t i) {
      double sum = 0;
      for (const Index j : keys[b][i]) sum += a(b, i, j);
      return sum;
    });
  }
  // Returns the weighted mean of A by distance and by token of the key.
  std::pair<std::map<Index, double>, std::map<Index, double>> profiles() const {
    std::map<Index, double> by_distance, by_token;
    const double total = mean([&](std::size_t b, std::size_t i) {
      for (std::size_t j = 0; j <= i; ++j) {
        const double x = w(b, i) * a(b, i, Index(j));
        by_distance[Index(i - j)] += x, by_token[tokens[b][j]] += x;
      }
      return w(b, i) > 0 ? 1.0 : 0.0;
    });
    double sum = 0;
    for (const auto& [distance, x] : by_distance) sum += x;
    for (auto* list : {&by_distance, &by_token})
      for (auto& [key, x] : *list) x *= sum > 0 ? total / sum : 0;
    return {by_distance, by_token};
  }
};

std::vector<std::pair<Index, double>> largest(const std::map<Index, double>& all) {
  std::vector<std::pair<Index, double>> list(all.begin(), all.end());
  std::ranges::stable_sort(list, std::greater<>(), [](const auto& entry) { return entry.second; });
  list.resize(std::min<std::size_t>(list.size(), 3));
  return list;
}

// Attention weights on repeated random tokens.
struct RepeatedTokens {
  Batch batch;
  std::vector<Tensor> pattern;  // by layer
};
std::optional<RepeatedTokens> repeated_tokens_of(const Transformer& model, const Task* task) {
  constexpr Index kLeast = 8, kSequences = 8;
  if (!task || !predicts_its_inputs(*task)) return {};
  const Index tokens = repeated_tokens(task->info().context);
  if (tokens < kLeast) return {};
  Generator g(1);
  const Batch batch = repeated_random(task->info(), tokens, kSequences, g);
  return RepeatedTokens{batch, record_forward(model, batch.inputs, {"attn.hook_pattern"}).at[0]};
}

// Returns whether the head has the pattern on repeated random tokens, at the counted positions.
bool is_confirmed(const RepeatedTokens& repeated, const HeadIndex& h, const Pattern& pattern,
                  Index window) {
  const WeightedHead head{
      tokens_of(repeated.batch), repeated.batch.inputs.size(1), window,
      to_doubles(contiguous(select(repeated.pattern[std::size_t(h.layer)], 1, h.head))),
      to_doubles(repeated.batch.counted)};
  return head.score(pattern) >= kLeastScore / 2;
}

}  // namespace

std::string Pattern::name() const {
  static constexpr const char* kNames[] = {
      "previous-token", "", "duplicate-token", "induction", "first-token", "current-token"};
  return kind == kBack ? fmt::format("{} back", distance) : kNames[kind];
}

std::vector<Tokens> keys_of(const Pattern& pattern, const Tokens& tokens, Index window) {
  std::vector<Tokens> keys(tokens.size());
  const auto n = Index(tokens.size());
  for (Index i = 1; i < n; ++i) {
    const auto add = [&](Index j) {
      if (j >= 0 && (window == 0 || i - j < window)) keys[std::size_t(i)].push_back(j);
    };
    if (pattern.kind == Pattern::kPrevious || pattern.kind == Pattern::kBack)
      add(i - pattern.distance);
    else if (pattern.kind == Pattern::kFirst || pattern.kind == Pattern::kCurrent)
      add(pattern.kind == Pattern::kFirst ? 0 : i);
    else
      for (Index j = 0; j < i; ++j)
        if (tokens[std::size_t(j)] == tokens[std::size_t(i)])
          add(pattern.kind == Pattern::kInduction ? j + 1 : j);
  }
  return keys;
}

Effect impose(const BaseRun& run, const HeadIndex& head, const Pattern& pattern) {
  const NoGrad guard;
  const auto sequences = tokens_of(run.batch);
  const Index length = run.batch.inputs.size(1);
  const auto size = std::size_t(length);
  std::vector<double> weights(sequences.size() * size * size);
  std::vector<bool> imposed(sequences.size() * size);
  for (std::size_t b = 0; b < sequences.size(); ++b) {
    const auto keys = keys_of(pattern, sequences[b], run.model().options.attention.window);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      imposed[b * size + i] = !keys[i].empty();
      for (const Index j : keys[i])
        weights[(b * size + i) * size + std::size_t(j)] = 1 / double(keys[i].size());
    }
  }
  Probe probe;
  probe.replace(block_site(head.layer, "attn.hook_pattern"), [&](const Tensor& A) {
    const Index count = A.size(0);
    const Tensor here = reshape(eq(arange(A.size(1)), double(head.head)), {-1, 1, 1}),
                 rows = from_data(imposed, {count, 1, length, 1}),
                 exact = to(from_data(weights, {count, 1, length, length}), A.dtype());
    return where(logical_and(here, rows), exact, A);
  });
  return effect_of(run.changes(to_doubles(run.values_from(head.layer, probe))), run.counts);
}

std::vector<HeadRole> roles_of_heads(const BaseRun& run, const ComponentStudy& study,
                                     const Task* task, bool claim) {
  const NoGrad guard;
  const Transformer& model = run.model();
  const Index window = model.options.attention.window;
  const auto repeated = claim ? repeated_tokens_of(model, task) : std::nullopt;
  const std::vector<Tensor> pattern =
      record_forward(model, run.batch.inputs, {"attn.hook_pattern"}).at[0];
  std::vector<HeadRole> all;
  for (std::size_t row = 0; row < study.rows.size(); ++row) {
    const Component& c = study.components[row];
    if (c.kind != Component::kHead || (claim && !study.judgement.counts[row])) continue;
    const auto layer = std::size_t(c.layer);
    const WeightedHead head{
        tokens_of(run.batch), run.batch.inputs.size(1), window,
        to_doubles(contiguous(select(pattern[layer], 1, c.head))),
        to_doubles(contiguous(select(study.attribution.weights[layer], 1, c.head)))};
    const auto [by_distance, by_token] = head.profiles();
    HeadRole& found = all.emplace_back(HeadRole{row, {c.layer, c.head}});
    found.by_distance = largest(by_distance), found.by_token = largest(by_token);
    std::vector<Pattern> patterns{
        {Pattern::kPrevious}, {Pattern::kDuplicate}, {Pattern::kFirst}, {Pattern::kCurrent}};
    if (c.layer > 0) patterns.insert(patterns.begin(), {Pattern::kInduction});
    for (const auto& [distance, mean] : found.by_distance)
      if (distance >= 2) {
        patterns.push_back({Pattern::kBack, distance});
        break;
      }
    for (const Pattern& p : patterns) found.scores.emplace_back(p, head.score(p));
    std::ranges::stable_sort(found.scores, std::greater<>(),
                             [](const auto& entry) { return entry.second; });
    for (const auto& [p, score] : found.scores) {
      if (!claim || score < kLeastScore) break;
      const bool by_tokens = p.kind == Pattern::kInduction || p.kind == Pattern::kDuplicate;
      if (by_tokens && repeated && !is_confirmed(*repeated, found.head, p, window)) continue;
      const Effect imposed = impose(run, found.head, p);
      const double error = std::isnan(imposed.standard_error) ? 0 : imposed.standard_error,
                   effect = std::abs(study.rows[row].effect.mean);
      if (!(std::abs(imposed.mean) <= 0.2 * effect + 2 * error)) continue;
      found.role = p, found.score = score, found.imposed = imposed;
      break;
    }
  }
  return all;
}

}  // namespace heed::lab
