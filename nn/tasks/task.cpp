// What all tasks share, and the list of the built-in ones.
#include "nn/tasks/task.h"

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "autograd/tensor/create.h"
#include "nn/io/nearest.h"
#include "nn/tasks/tasks.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Not a seed a user types: evaluation never sees the sequences of training.
constexpr std::uint32_t kEvaluationSeed = 0xE7A15EED;

}  // namespace

Batch make_batch(const std::vector<Sequence>& sequences) {
  check<ValueError>(!sequences.empty(), "make_batch", "needs at least one sequence");
  const std::size_t context = sequences[0].inputs.size();
  std::vector<std::int64_t> inputs, targets;
  std::vector<bool> counted;
  Batch batch;
  for (const Sequence& s : sequences) {
    check<ValueError>(
        s.inputs.size() == context && s.targets.size() == context && s.counted.size() == context,
        "make_batch", "needs ", context, " inputs, targets and counted in each, got ",
        s.inputs.size(), ", ", s.targets.size(), " and ", s.counted.size());
    inputs.insert(inputs.end(), s.inputs.begin(), s.inputs.end());
    targets.insert(targets.end(), s.targets.begin(), s.targets.end());
    counted.insert(counted.end(), s.counted.begin(), s.counted.end());
    if (s.optimal == s.optimal) batch.optimal.push_back(s.optimal);  // not NaN
    for (const auto& [name, loss] : s.references) batch.references[name].push_back(loss);
  }
  const Shape shape{std::int64_t(sequences.size()), std::int64_t(context)};
  batch.inputs = from_data(inputs, shape);
  batch.targets = from_data(targets, shape);
  batch.counted = from_data(counted, shape);
  return batch;
}

Batch Task::sample(std::int64_t batch, Generator& g) const {
  check<ValueError>(batch >= 1, facts_.name, "needs a batch of at least 1 sequence, got ", batch);
  std::vector<Sequence> sequences;
  for (std::int64_t i = 0; i < batch; ++i) sequences.push_back(draw(g));
  return make_batch(sequences);
}

Batch Task::evaluation(std::int64_t first, std::int64_t count) const {
  check<ValueError>(first >= 0 && count >= 1 && first <= evaluation_size() - count, facts_.name,
                    "the evaluation set has ", evaluation_size(), " sequences, asked for ", count,
                    " from number ", first, " on");
  return make_batch(draw_evaluation(first, count));
}

std::vector<Sequence> Task::draw_evaluation(std::int64_t first, std::int64_t count) const {
  Generator g(kEvaluationSeed);
  for (std::int64_t i = 0; i < first; ++i) draw(g);
  std::vector<Sequence> sequences;
  for (std::int64_t i = 0; i < count; ++i) sequences.push_back(draw(g));
  return sequences;
}

Batch Task::example(Generator& g) const { return make_batch({draw_example(g)}); }

std::vector<std::int64_t> Task::prompt_inputs(const std::string& text) const {
  std::vector<std::int64_t> ids = facts_.vocabulary.encode(text);
  if (facts_.bos && (ids.empty() || ids[0] != *facts_.bos)) ids.insert(ids.begin(), *facts_.bos);
  return ids;
}

Batch Task::prompt(const std::string& text) const {
  Sequence s;
  s.inputs = prompt_inputs(text);
  const auto n = std::int64_t(s.inputs.size());
  check<ValueError>(facts_.endless || n <= facts_.context, facts_.name, "the prompt has ", n,
                    " tokens with the ones added to it, a sequence has ", facts_.context,
                    ": shorten it");
  check<ValueError>(n >= 1, facts_.name, "the prompt is empty, and the task adds no token to it: ",
                    "give at least one of ", facts_.vocabulary.summary());
  s.targets.assign(s.inputs.begin() + 1, s.inputs.end());
  s.targets.push_back(kIgnored);
  for (std::int64_t& target : s.targets) {
    if (target >= facts_.classes) target = kIgnored;
    s.counted.push_back(target != kIgnored);
  }
  mark_prompt(s);
  return make_batch({s});
}

std::vector<std::string> task_names() { return {"induction", "urn", "reverse", "copy"}; }

std::unique_ptr<Task> make_task(const std::string& name, std::optional<std::int64_t> context) {
  const auto fitted = [&](auto options) {
    options.context = context.value_or(options.context);
    return options;
  };
  if (name == "induction") return make_induction(fitted(InductionOptions{}));
  if (name == "urn") return make_urn(fitted(UrnOptions{}));
  if (name == "reverse" || name == "copy") {
    ReverseOptions o;
    o.copy = name == "copy";
    check<ValueError>(!context || *context % 2 == 0, name, "context ", context.value_or(0),
                      " is odd: needs an even one, half for the tokens and half for the answer");
    if (context) o.length = *context / 2;
    return make_reverse(o);
  }
  const std::string all = join(task_names(), ", ");
  if (name == "text")
    fail<ValueError>("task", "'text' needs the path of a file. Without one: ", all);
  fail<ValueError>("task", "there is no task '", name, "', the nearest is '",
                   nearest(name, task_names()), "'. All: ", all);
}

}  // namespace heed::nn
