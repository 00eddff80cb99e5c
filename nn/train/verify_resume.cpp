#include "nn/train/verify_resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <span>
#include <string_view>

#include "autograd/base/parallel.h"
#include "nn/io/crc32c.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr std::int64_t kMostSteps = 40, kMostSequences = 32;

// Sets the number of threads and back.
class Threads {
 public:
  explicit Threads(int n) : before_(num_threads()) { set_num_threads(n); }
  ~Threads() { set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

std::span<const std::byte> bytes_of(const Tensor& x) {
  return dispatch_any(x.dtype(), [&]<class T> {
    return std::as_bytes(std::span(x.data<T>(), std::size_t(x.numel())));
  });
}

bool is_of_rhythm(const std::string& name) {  // depends on when a run is evaluated
  return name == "history" || name.starts_with("best");
}

// "model.tok.weight differs at element 3: 0.5 against 0.25"
std::string tensor_difference(const std::string& name, const Tensor& a, const Tensor& b) {
  const auto x = bytes_of(a), y = bytes_of(b);
  if (a.shape() == b.shape() && std::equal(x.begin(), x.end(), y.begin(), y.end())) return "";
  const auto size = element_size(a.dtype());
  const auto first = std::mismatch(x.begin(), x.end(), y.begin(), y.end()).first - x.begin();
  const auto element = std::int64_t(first) / size;
  const auto value = [&](const Tensor& t) {
    return to(reshape(t.detach(), {-1}), float64).to_vector<double>()[std::size_t(element)];
  };
  return fmt::format("{} differs at element {}: {} against {}", name, element, value(b), value(a));
}

// `all`: an evaluation in one must be in the other.
std::string row_difference(const MetricsRow& a, const MetricsRow& b, bool all) {
  for (const auto& [name, value] : kMetricsColumns) {
    const double x = a.*value, y = b.*value;
    const bool evaluation = std::string_view(name).starts_with("eval_");
    if (evaluation && !all && (std::isnan(x) || std::isnan(y))) continue;
    if (std::memcmp(&x, &y, sizeof x) != 0)
      return fmt::format("{} of step {} is {:.17g} against {:.17g}", name, a.step, y, x);
  }
  return "";
}

// The first thing in which b is not like a; `all`: they were evaluated at the same steps.
std::string first_difference(const Trainer& a, const Trainer& b, bool all) {
  std::map<std::int64_t, const MetricsRow*> rows;
  for (const MetricsRow& row : b.history()) rows[row.step] = &row;
  for (const MetricsRow& row : a.history()) {
    if (row.step == 0 && !all) continue;
    const auto found = rows.find(row.step);
    if (found == rows.end()) return fmt::format("the row of step {} is missing", row.step);
    if (std::string text = row_difference(row, *found->second, all); !text.empty()) return text;
  }
  const std::vector<NamedTensor> x = a.state(), y = b.state();
  for (std::size_t i = 0, j = 0; i < x.size(); ++i) {
    if (!all && is_of_rhythm(x[i].name)) continue;
    while (j < y.size() && y[j].name != x[i].name) ++j;
    if (j == y.size()) return x[i].name + " is missing";
    if (std::string text = tensor_difference(x[i].name, x[i].tensor, y[j].tensor); !text.empty())
      return text;
  }
  const auto streams = b.streams();
  for (const auto& [name, value] : a.streams())
    if ((all || !is_of_rhythm(name)) && streams.at(name) != value) return name + " differs";
  return "";
}

}  // namespace

std::uint32_t hash_of(const Trainer& t) {
  Crc32c sum;
  for (const MetricsRow& row : t.history()) {
    if (row.step == 0) continue;
    for (const auto& [name, value] : kMetricsColumns)
      if (!std::string_view(name).starts_with("eval_"))
        sum.add(std::as_bytes(std::span(&(row.*value), 1)));
  }
  for (const NamedTensor& s : t.state())
    if (!is_of_rhythm(s.name)) sum.add(bytes_of(s.tensor));
  for (const auto& [name, value] : t.streams())
    if (!is_of_rhythm(name)) sum.add(std::as_bytes(std::span(value)));
  return sum.value();
}

bool ResumeCheck::ok() const {
  return std::all_of(legs.begin(), legs.end(),
                     [](const Leg& leg) { return leg.difference.empty(); });
}

Trainer through_checkpoint(const Trainer& trainer, const std::filesystem::path& folder) {
  trainer.save(folder);
  return Trainer::resume(folder);
}

ResumeCheck verify_resume(RunConfig config, const std::filesystem::path& folder,
                          const WorkWatch& watch, const Checkpoint& checkpoint) {
  if (config.schedule != Decay::kConstant)
    config.schedule_steps = schedule(config).total_steps;  // as in the whole run
  config.eval_batch = std::min(config.eval_batch, kMostSequences);
  const std::int64_t steps = config.steps = std::min(config.steps, kMostSteps), half = steps / 2;
  const auto train = [&](int leg, int threads, bool split, int evaluate_every, int save_every) {
    const Threads guard(threads);
    Trainer t(config);
    for (std::int64_t s = 0; s <= steps; ++s) {
      if (watch) watch(leg * steps + s, 4 * steps);
      if (s > 0) t.step();
      if (s % evaluate_every == 0 || s == steps) t.evaluate(false);
      if (s % save_every == save_every - 1) t.save(folder);
      if (split && s == half) t = checkpoint(t, folder);
    }
    return t;
  };
  ResumeCheck result{steps, {}};
  const auto add = [&](int threads, bool split, const Trainer& t, std::string difference) {
    const std::string way =
        split ? fmt::format("{} + {} steps", half, steps - half) : fmt::format("{} steps", steps);
    result.legs.push_back({fmt::format("{} thread{}, {}", threads, threads > 1 ? "s" : "", way),
                           hash_of(t), std::move(difference)});
  };
  const Trainer first = train(0, 1, false, 5, 9);
  add(1, false, first, "");
  {
    const Trainer t = train(1, 1, true, 5, 4);
    add(1, true, t, first_difference(first, t, true));
  }
  const Trainer other = train(2, 2, false, 3, 7);
  add(2, false, other, first_difference(first, other, false));
  const Trainer t = train(3, 2, true, 3, 100);
  const std::string cross = first_difference(first, t, false);
  add(2, true, t, cross.empty() ? first_difference(other, t, true) : cross);
  return result;
}

}  // namespace heed::nn
