// Functions that all tasks share, and the table of the built-in tasks.
#include "nn/lab/tasks/task.h"

#include <algorithm>
#include <numeric>

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/create.h"
#include "nn/io/nearest.h"
#include "nn/lab/tasks/parameters.h"
#include "nn/lab/tasks/tasks.h"

namespace heed::lab {

using namespace autograd;

namespace {

// If a user trained with this seed, evaluation would use training sequences. So the seed is an
// unusual number.
constexpr std::uint32_t kEvaluationSeed = 0xE7A15EED;

// Returns the mean loss of the optimal predictor on a sequence, in nats per target. NaN if unknown.
double optimal_of(const Sequence& s) {
  if (s.position_optimal.empty()) return s.optimal;
  const auto targets =
      std::ssize(s.targets) - std::count(s.targets.begin(), s.targets.end(), kIgnored);
  return std::accumulate(s.position_optimal.begin(), s.position_optimal.end(), 0.0) /
         double(targets);
}

struct BuiltIn {
  std::string name;
  std::function<TaskMaker()> maker;
};

template <class Options>
TaskMaker maker_of(const Options& defaults, std::unique_ptr<Task> (*make)(const Options&)) {
  const auto options = std::make_shared<Options>(defaults);
  return {options->parameters(), [options, make](std::optional<Index> context) {
            Options fitted = *options;
            fitted.context = context.value_or(fitted.context);
            return make(fitted);
          }};
}

// Returns the built-in tasks in the order in which `heed tasks` lists them.
const std::vector<BuiltIn>& built_in() {
  static const std::vector<BuiltIn> list = {
      {"induction", [] { return maker_of(InductionOptions{}, make_induction); }},
      {"recall", [] { return maker_of(RecallOptions{}, make_recall); }},
      {"markov", [] { return maker_of(MarkovOptions{}, make_markov); }},
      {"modadd", [] { return maker_of(ModaddOptions{}, make_modadd); }},
      {"dyck", [] { return maker_of(DyckOptions{}, make_dyck); }},
      {"reverse", [] { return maker_of(ReverseOptions{}, make_reverse); }},
      {"copy", [] { return maker_of(ReverseOptions{.copy = true}, make_reverse); }},
      {"random", [] { return maker_of(RandomOptions{}, make_random); }},
  };
  return list;
}

}  // namespace

Batch make_batch(const std::vector<Sequence>& sequences) {
  check<ValueError>(!sequences.empty(), "make_batch", "needs at least one sequence");
  const std::size_t context = sequences[0].inputs.size();
  std::vector<Index> inputs, targets;
  std::vector<bool> counted;
  Batch batch;
  for (const Sequence& s : sequences) {
    check<ValueError>(
        s.inputs.size() == context && s.targets.size() == context && s.counted.size() == context,
        "make_batch", "needs ", context, " inputs, targets and counted in each sequence, got ",
        s.inputs.size(), ", ", s.targets.size(), " and ", s.counted.size());
    check<ValueError>(s.position_optimal.empty() || s.position_optimal.size() == context,
                      "make_batch", "needs 0 or ", context, " values in position_optimal, got ",
                      s.position_optimal.size());
    inputs.insert(inputs.end(), s.inputs.begin(), s.inputs.end());
    targets.insert(targets.end(), s.targets.begin(), s.targets.end());
    counted.insert(counted.end(), s.counted.begin(), s.counted.end());
    const double optimal = optimal_of(s);
    if (optimal == optimal) batch.optimal.push_back(optimal);  // true unless NaN
    batch.position_optimal.insert(batch.position_optimal.end(), s.position_optimal.begin(),
                                  s.position_optimal.end());
    for (const auto& [name, loss] : s.references) batch.references[name].push_back(loss);
    batch.padding.push_back(s.padding);
  }
  const Shape shape{Index(sequences.size()), Index(context)};
  batch.inputs = from_data(inputs, shape);
  batch.targets = from_data(targets, shape);
  batch.counted = from_data(counted, shape);
  return batch;
}

Batch Task::sample(Index batch, Generator& g) const {
  check<ValueError>(batch >= 1, info_.name, "needs a batch of at least 1 sequence, got ", batch);
  return make_batch(draw_batch(batch, g));
}

std::vector<Sequence> Task::draw_batch(Index batch, Generator& g) const {
  std::vector<Sequence> sequences;
  for (Index i = 0; i < batch; ++i) sequences.push_back(draw(g));
  return sequences;
}

Batch Task::evaluation(Index first, Index count) const {
  check<ValueError>(first >= 0 && count >= 1 && first <= evaluation_size() - count, info_.name,
                    "the evaluation set has ", evaluation_size(),
                    " sequences; needs first >= 0, count >= 1 and first + count <= ",
                    evaluation_size(), ", got first ", first, " and count ", count);
  std::vector<Sequence> sequences;
  for (Index i = first; i < first + count; ++i)
    if (auto kept = held_out(i)) sequences.push_back(std::move(*kept));
  if (!sequences.empty()) return make_batch(sequences);
  Generator g(kEvaluationSeed);
  for (Index i = 0; i < first; ++i) draw(g);
  return make_batch(Task::draw_batch(count, g));
}

Batch without_padding(Batch one) {
  const auto targets = one.targets.to_vector<std::int64_t>();
  auto length = Index(targets.size());
  while (length > 1 && targets[std::size_t(length - 1)] == kIgnored) --length;
  for (Tensor* x : {&one.inputs, &one.targets, &one.counted})
    *x = contiguous(slice(*x, 1, 0, length));
  if (!one.position_optimal.empty()) one.position_optimal.resize(std::size_t(length));
  one.padding.clear();
  return one;
}

Batch Task::example(Generator& g) const { return without_padding(make_batch({draw_example(g)})); }

std::vector<Index> Task::prompt_inputs(const std::string& text) const {
  std::vector<Index> ids = info_.vocabulary.encode(text, "prompt");
  if (info_.bos && (ids.empty() || ids[0] != *info_.bos)) ids.insert(ids.begin(), *info_.bos);
  return ids;
}

Batch Task::prompt(const std::string& text) const {
  Sequence s;
  s.inputs = prompt_inputs(text);
  const auto n = Index(s.inputs.size());
  check<ValueError>(info_.endless || n <= info_.context, info_.name, "the prompt has ", n,
                    " tokens, including tokens that the task adds; at most ", info_.context,
                    " are possible: shorten it");
  check<ValueError>(n >= 1, info_.name, "the prompt is empty, and the task adds no token to it: ",
                    "needs at least one of ", info_.vocabulary.summary());
  s.targets.assign(s.inputs.begin() + 1, s.inputs.end());
  s.targets.push_back(kIgnored);
  for (Index& target : s.targets) {
    if (target >= info_.classes) target = kIgnored;
    s.counted.push_back(target != kIgnored);
  }
  mark_prompt(s);
  return make_batch({s});
}

PromptPair Task::pair(const std::string& corruption, Generator& g) const {
  const std::vector<std::string>& known = info_.corruptions;
  check<ValueError>(!known.empty(), info_.name, "has no corruptions; give pairs of prompts");
  check<ValueError>(std::ranges::count(known, corruption) > 0, info_.name, "has no corruption '",
                    corruption, "'; its corruptions are ", join(known, ", "));
  return draw_pair(corruption, g);
}

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const BuiltIn& task : built_in()) names.push_back(task.name);
  return names;
}

TaskMaker task_maker(const std::string& name) {
  for (const BuiltIn& task : built_in())
    if (task.name == name) return task.maker();
  const std::string all = join(task_names(), ", ");
  if (name == "text")
    fail<ValueError>("task", "'text' needs the path of a file. Tasks without a file: ", all);
  fail<ValueError>("task", "unknown task '", name, "'; the nearest is '",
                   nearest(name, task_names()), "'. All tasks: ", all);
}

std::unique_ptr<Task> make_task(const std::string& name, std::optional<Index> context,
                                const TaskParameters& parameters) {
  const TaskMaker maker = task_maker(name);
  for (const auto& [key, value] : complete_parameters(name, parameters))
    find_setting(maker.parameters, key)->set(key, value);
  return maker.make(context);
}

}  // namespace heed::lab
