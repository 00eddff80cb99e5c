#include "nn/lab/train/source.h"

#include <fmt/format.h>

#include <algorithm>

#include "nn/lab/tasks/tasks.h"
#include "nn/lab/train/import_weights.h"
#include "nn/lab/train/trainer.h"
#include "nn/optim/first_non_finite.h"

namespace heed::lab {

using namespace autograd;

namespace {

// Options of the model that may differ from those of the source, because they have no weights.
bool may_differ(const std::string& key) { return key == "context" || key == "dropout"; }

void check_same_model(const Source& source, const RunConfig& config) {
  RunConfig ours = config, theirs = source.config;
  const std::vector<Setting> a = ours.settings(), b = theirs.settings();
  for (std::size_t i = 0; i < a.size(); ++i)
    check<ValueError>(a[i].group != "Model" || may_differ(a[i].key) || a[i].get() == b[i].get(),
                      "`" + a[i].key + "`", "is ", a[i].get(), ", but the model of `from` has ",
                      b[i].get(), "; leave out `", a[i].key, "`");
  check<ValueError>(
      config.model.positions != Positions::kLearned || config.model.context <= theirs.model.context,
      "`context`", "is ", config.model.context, ", but the source has learned only ",
      theirs.model.context, " positions; needs at most ", theirs.model.context);
}

// Returns the number of each symbol in the vocabulary of the source. Throws ValueError if the
// source lacks a symbol.
Tensor rows_of(const Source& source, const Vocabulary& vocabulary) {
  std::vector<Index> rows;
  for (const auto& symbol : vocabulary.symbols()) {
    const auto row = source.vocabulary.find(symbol);
    check<ValueError>(row.has_value(), "`from`", "the model of ", source.weights.path,
                      " does not know '", vocabulary.label(std::ssize(rows)), "', one of the ",
                      vocabulary.size(), " symbols of the data; choose data with its symbols");
    rows.push_back(*row);
  }
  return from_data(rows, {std::ssize(rows)});
}

}  // namespace

std::string Source::text() const {
  return fmt::format("{}{}", step ? fmt::format("step {}, ", *step) : "",
                     hash_of_tensors(weights.tensors));
}

Source read_source_metadata(const std::string& file) {
  Source s{{file, {}, load_metadata(file)}, {}, {}, 0, {}};
  const std::map<std::string, std::string>& metadata = s.weights.metadata;
  const auto recipe = metadata.find("recipe");
  check<IoError>(
      recipe != metadata.end(), file,
      "does not contain the configuration of a run; needs a run, or a file that heed train "
      "or heed export wrote; heed import makes a run of other files");
  s.config = from_toml(recipe->second, file);
  const auto task = make_prompts(s.config, metadata);
  s.vocabulary = task->info().vocabulary, s.classes = task->info().classes;
  if (const auto step = metadata.find("step"); step != metadata.end())
    s.step = parse_number<std::int64_t>(step->second);
  return s;
}

Source read_source(const std::string& file) {
  Source s = read_source_metadata(file);
  s.weights = load_weights(file);
  if (names_in(s.weights) != WeightNames::kHeed)
    s.weights.tensors = parameters(import_weights(s.weights).model);
  const std::string bad = first_non_finite(s.weights.tensors);
  check<IoError>(bad.empty(), file, bad, "; start from other weights");
  return s;
}

void use_model_of(const Source& source, RunConfig& config) {
  RunConfig theirs = source.config;
  // A built-in task may need sequences of its own length.
  if (config.task != theirs.task && !learns_file(config))
    theirs.model.context = config.model.context;
  const std::vector<Setting> into = config.settings(), from = theirs.settings();
  for (std::size_t i = 0; i < into.size(); ++i)
    if (into[i].group == "Model") into[i].set_checked(from[i].get());
  if (learns_file(config) && learns_file(theirs)) config.unit = theirs.unit;
  if (config.task != theirs.task) return;
  config.task_parameters = theirs.task_parameters;
  config.answer_after = theirs.answer_after;
}

void copy_source(const Source& source, const RunConfig& config, const Vocabulary& vocabulary,
                 Transformer& model) {
  check_same_model(source, config);
  const Tensor rows = rows_of(source, vocabulary);
  // Replaces a tensor [theirs, ...] by its rows for the first `ours` symbols.
  const auto select = [&](Tensor& x, Index theirs, Index ours) {
    if (x.rank() > 0 && x.size(0) == theirs) x = index_select(x, 0, slice(rows, 0, 0, ours));
  };
  SafeTensors weights{source.weights.path, source.weights.tensors};
  for (NamedTensor& t : weights.tensors) {
    if (t.name == "tok.weight") select(t.tensor, source.vocabulary.size(), vocabulary.size());
    if (t.name.starts_with("head.")) select(t.tensor, source.classes, model.options.classes);
    if (t.name == "pos.weight" && t.tensor.rank() == 2 && t.tensor.size(0) > config.model.context)
      t.tensor = contiguous(slice(t.tensor, 0, 0, config.model.context));
  }
  load_parameters(parameters(model), weights);
}

}  // namespace heed::lab
