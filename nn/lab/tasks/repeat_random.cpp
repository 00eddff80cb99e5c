#include "nn/lab/tasks/repeat_random.h"

#include <algorithm>

namespace heed::lab {

using namespace autograd;

std::int64_t repeated_tokens(std::int64_t context) {
  return std::min<std::int64_t>(25, (context - 1) / kCopies);
}

bool predicts_its_inputs(const Task& task) {
  const Batch one = task.evaluation(0, 1);
  const auto inputs = one.inputs.to_vector<std::int64_t>(),
             targets = one.targets.to_vector<std::int64_t>();
  for (std::size_t t = 0; t + 1 < std::size_t(one.tokens_of(0)); ++t)
    if (targets[t] != inputs[t + 1]) return false;
  return true;
}

Batch repeated_random(const TaskInfo& info, std::int64_t tokens, std::int64_t count, Generator& g) {
  std::vector<std::int64_t> known;
  for (std::int64_t token = 0; token < info.classes; ++token)
    if (token != info.stop && token != info.bos) known.push_back(token);
  std::vector<Sequence> sequences;
  for (std::int64_t i = 0; i < count; ++i) {
    Sequence s;
    if (info.bos) s.inputs.push_back(*info.bos);
    for (std::int64_t t = 0; t < tokens; ++t)
      s.inputs.push_back(known[std::size_t(draw_below(std::ssize(known), g))]);
    const std::size_t first = s.inputs.size() - std::size_t(tokens);
    for (std::int64_t t = 0; t < tokens * (kCopies - 1); ++t)
      s.inputs.push_back(s.inputs[first + std::size_t(t)]);
    s.targets.assign(s.inputs.begin() + 1, s.inputs.end());
    s.targets.push_back(kIgnored);
    for (std::size_t t = 0; t < s.inputs.size(); ++t)
      s.counted.push_back(t + 1 >= first + std::size_t(tokens) && t + 1 < s.inputs.size());
    sequences.push_back(std::move(s));
  }
  return make_batch(sequences);
}

}  // namespace heed::lab
