#include "nn/train/source.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "autograd/base/text.h"
#include "nn/optim/first_non_finite.h"
#include "nn/tasks/tasks.h"
#include "nn/train/import_weights.h"
#include "nn/train/trainer.h"

namespace heed::nn {

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

// Copies row rows[i] of `from` into row i of `into`, both [N, ...]. A row without a value is drawn
// as copy_source() describes.
void copy_rows(const Tensor& from, const std::vector<std::optional<std::int64_t>>& rows,
               const Tensor& into, Generator& g) {
  const std::int64_t columns = into.numel() / into.size(0), count = from.size(0);
  const auto values = to(from, float64).to_vector<double>();
  std::vector<double> mean(std::size_t(columns), 0.0), deviation(std::size_t(columns), 0.0);
  for (std::size_t i = 0; i < values.size(); ++i)
    mean[i % std::size_t(columns)] += values[i] / double(count);
  for (std::size_t i = 0; i < values.size(); ++i)
    deviation[i % std::size_t(columns)] +=
        std::pow(values[i] - mean[i % std::size_t(columns)], 2) / double(count);
  std::vector<double> result;
  for (const std::optional<std::int64_t>& row : rows) {
    std::vector<double> drawn(static_cast<std::size_t>(columns));
    if (!row) g.normal(drawn, 0, 1);
    for (std::size_t c = 0; c < drawn.size(); ++c)
      result.push_back(row ? values[std::size_t(*row * columns) + c]
                           : mean[c] + std::sqrt(deviation[c]) * drawn[c]);
  }
  copy_(into, to(from_data(result, into.shape()), into.dtype()));
}

using Rows = std::vector<std::optional<std::int64_t>>;

// Returns the row of the source for each of the first `count` symbols, if it has one below `limit`.
Rows rows_of(const Vocabulary& source, std::int64_t limit, const Vocabulary& symbols,
             std::int64_t count) {
  Rows rows;
  for (std::int64_t id = 0; id < count; ++id) {
    const auto found = source.find(symbols.symbols()[std::size_t(id)]);
    rows.push_back(found && *found < limit ? found : std::nullopt);
  }
  return rows;
}

void check_symbols(const Source& source, const Rows& reads, const Vocabulary& symbols) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> unknown;
  for (std::size_t id = 0; id < reads.size(); ++id)
    if (!reads[id]) unknown.push_back("'" + symbols.label(std::int64_t(id)) + "'");
  const std::size_t count = unknown.size();
  if (count > kShown) unknown.resize(kShown);
  check<ValueError>(
      count == 0, "`from`", "the model of ", source.weights.path, " does not know ",
      join(unknown, ", "), count > kShown ? fmt::format(" and {} more", count - kShown) : "",
      " of ", symbols.size(),
      " symbols; add `new-tokens`, which draws weights for them, or choose other data");
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
  const auto task = learns_file(s.config) ? make_text_prompts(metadata, text_options(s.config))
                                          : make_task(s.config.task, s.config.model.context,
                                                      s.config.task_parameters);
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
                 Transformer& model, Generator& g) {
  check_same_model(source, config);
  check<ValueError>(vocabulary.unit() == source.vocabulary.unit(), "`unit`", "is ",
                    enum_name(vocabulary.unit()), ", but a token of `from` is a ",
                    enum_name(source.vocabulary.unit()), "; give `unit` ",
                    enum_name(source.vocabulary.unit()));
  const Rows reads =
      rows_of(source.vocabulary, source.vocabulary.size(), vocabulary, vocabulary.size());
  if (!config.new_tokens) check_symbols(source, reads, vocabulary);
  Rows positions;
  for (std::int64_t t = 0; t < config.model.context; ++t) positions.emplace_back(t);
  const NoGrad guard;
  std::vector<NamedTensor> equal;
  SafeTensors rest{source.weights.path, source.weights.tensors};
  for (const NamedTensor& p : parameters(model)) {
    const std::string layer = p.name.substr(0, p.name.rfind('.'));
    const Tensor from = source.weights.find(p.name);
    if ((layer != "tok" && layer != "pos" && layer != "head") || !from.defined()) {
      equal.push_back(p);
      continue;
    }
    const std::int64_t count = layer == "tok"   ? source.vocabulary.size()
                               : layer == "pos" ? source.config.model.context
                                                : source.classes;
    Shape expected = p.tensor.shape();
    expected[0] = count;
    check<IoError>(from.shape() == expected && from.dtype() == p.tensor.dtype(),
                   source.weights.path, p.name, " is ", from.dtype(), " ", from.shape(),
                   ", but the configuration in the file needs ", p.tensor.dtype(), " ", expected,
                   kDamaged);
    const Rows rows =
        layer == "tok"   ? reads
        : layer == "pos" ? positions
                         : rows_of(source.vocabulary, source.classes, vocabulary, p.tensor.size(0));
    copy_rows(from, rows, p.tensor, g);
    std::erase_if(rest.tensors, [&](const NamedTensor& t) { return t.name == p.name; });
  }
  load_parameters(equal, rest);
}

void freeze(const RunConfig& config, Transformer& model) {
  const bool inverted = config.freeze.empty();
  if (inverted && config.train_only.empty()) return;
  const char* key = inverted ? "`train-only`" : "`freeze`";
  std::vector<std::string> names;
  for (const NamedTensor& p : parameters(model)) names.push_back(p.name);
  std::vector<bool> named(names.size());
  for (std::string pattern : split(inverted ? config.train_only : config.freeze, ',')) {
    pattern.erase(0, pattern.find_first_not_of(' '));
    bool matches = false;
    for (std::size_t i = 0; i < names.size(); ++i)
      if (::fnmatch(pattern.c_str(), names[i].c_str(), 0) == 0) matches = named[i] = true;
    if (matches) continue;
    std::erase_if(names, [](const std::string& name) {
      return name.starts_with("blocks.") && !name.starts_with("blocks.0.");
    });
    fail<ValueError>(key, "'", pattern, "' matches none of the parameters, which are ", join(names),
                     config.model.layers > 1 ? ", and those of blocks.1 to blocks." : "",
                     config.model.layers > 1 ? std::to_string(config.model.layers - 1) : "");
  }
  const auto frozen = std::size_t(std::count(named.begin(), named.end(), !inverted));
  check<ValueError>(frozen < names.size(), key, "leaves no parameter to train of the ",
                    names.size(), " of the model, such as ", names[0], "; omit a pattern");
  std::size_t i = 0;
  for_each_parameter(model, [&](const std::string&, Tensor& p) {
    if (named[i++] != inverted) p = p.detach();
  });
}

std::vector<std::string> frozen_parameters(const Transformer& model) {
  std::vector<std::string> names;
  for (const NamedTensor& p : parameters(model))
    if (!p.tensor.requires_grad()) names.push_back(p.name);
  return names;
}

}  // namespace heed::nn
