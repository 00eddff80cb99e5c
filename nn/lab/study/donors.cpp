#include "nn/lab/study/donors.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "autograd/ops/ops.h"

namespace heed::lab {

using namespace autograd;

Batch rows_of(const Batch& batch, const std::vector<Index>& sequences) {
  const Tensor index = from_data(sequences, {std::ssize(sequences)});
  Batch part;
  part.inputs = index_select(batch.inputs, 0, index);
  part.targets = index_select(batch.targets, 0, index);
  if (batch.counted.defined()) part.counted = index_select(batch.counted, 0, index);
  for (const Index i : sequences) part.padding.push_back(batch.inputs.size(1) - batch.tokens_of(i));
  return part;
}

Donors Donors::of(Index first, Index count) const {
  Donors part{source, {}};
  for (const Tensor& donor : rows) part.rows.push_back(slice(donor, 0, first, first + count));
  return part;
}

DonorSample with_donors(const Batch& batch, std::uint64_t seed) {
  Generator g(seed);
  std::map<Index, std::vector<Index>> by_length;
  for (Index b = 0; b < batch.inputs.size(0); ++b) by_length[batch.tokens_of(b)].push_back(b);
  DonorSample sample;
  std::vector<Index> kept;
  std::map<Index, std::vector<Index>> donors_of;  // by sequence
  for (auto& [length, order] : by_length) {
    const auto n = Index(order.size());
    if (n < kLeastSequences) {
      sample.left_out += n;
      continue;
    }
    kept.insert(kept.end(), order.begin(), order.end());
    std::vector<Index> offsets(std::size_t(n - 1));
    std::iota(offsets.begin(), offsets.end(), 1);
    for (auto* list : {&order, &offsets})
      for (Index i = std::ssize(*list) - 1; i > 0; --i)
        std::swap((*list)[std::size_t(i)], (*list)[std::size_t(draw_below(i + 1, g))]);
    for (Index i = 0; i < n; ++i)
      for (std::size_t d = 0; d < std::size_t(kDonors); ++d)
        donors_of[order[std::size_t(i)]].push_back(order[std::size_t((i + offsets[d]) % n)]);
  }
  if (kept.empty()) {
    sample.batch = batch;
    return sample;
  }
  std::ranges::sort(kept);
  sample.batch = rows_of(batch, kept);
  sample.donors.source = batch;
  for (std::size_t d = 0; d < std::size_t(kDonors); ++d) {
    std::vector<Index> rows;
    for (const Index b : kept) rows.push_back(donors_of[b][d]);
    sample.donors.rows.push_back(from_data(rows, {std::ssize(rows)}));
  }
  return sample;
}

DonorSample with_donors(const Batch& prompt, const Task& task) {
  const Index length = prompt.inputs.size(1),
              most = std::min(task.evaluation_size(), 8 * kPromptDonors);
  const Batch all = task.evaluation(0, most);
  std::vector<Index> long_enough;
  for (Index b = 0; b < most && std::ssize(long_enough) < kPromptDonors; ++b)
    if (all.tokens_of(b) >= length) long_enough.push_back(b);
  const Index n = std::ssize(long_enough);
  DonorSample sample{prompt, {}, 0};
  if (n < kLeastSequences) return sample;
  std::vector<Index> own(std::size_t(n), 0), rows(static_cast<std::size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  sample.batch = rows_of(prompt, own);
  sample.donors.source = {
      slice(rows_of(all, long_enough).inputs, 1, 0, length), {}, {}, {}, {}, {}, {}};
  sample.donors.rows = {from_data(rows, {n})};
  return sample;
}

}  // namespace heed::lab
