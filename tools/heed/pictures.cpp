#include "tools/heed/pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "autograd/base/parallel.h"
#include "autograd/ops/ops.h"
#include "nn/layers/probe.h"
#include "tools/plot/plot.h"

namespace heed {
namespace {

constexpr const char* kHowToReadWeights =
    "L1H0 is head 0 of layer 1. Each row is one query's attention and sums to 1 (less with a "
    "sink).";

// The heads of one layer, [1, H, T, T], as a row of panels.
void add_heads(plot::HeatmapGrid& grid, std::int64_t layer, const nn::Tensor& heads) {
  const int length = int(heads.size(2));
  const nn::Tensor all = contiguous(to(heads, autograd::float32));
  const std::ptrdiff_t size = std::ptrdiff_t(length) * length;
  for (std::ptrdiff_t head = 0; head < heads.size(1); ++head) {
    const float* values = all.data<float>() + head * size;
    grid.panels.push_back(
        {fmt::format("L{}H{}", layer, head), length, length, {values, values + size}});
  }
  grid.panel_columns = int(heads.size(1));
  grid.row_axis = "query: token that looks";
  grid.col_axis = "key: token looked at";
}

bool spans_decades(const std::vector<double>& values) {
  constexpr double kDecades = 10;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return low != values.end() && *low > 0 && *high > kDecades * *low;
}

// What L is, in the words of someone who has not seen --of.
std::string objective_words(const nn::Objective& o, const nn::Vocabulary& vocabulary) {
  if (o.kind == nn::Objective::kLoss) return "the mean loss over the sequence";
  const auto token = [&](std::int64_t id) { return plot::token_text(vocabulary.label(id)); };
  const std::string a = token(o.a);
  return o.kind == nn::Objective::kLogit
             ? fmt::format("the logit of {} at position {}", a, o.positions.at(0))
             : fmt::format("the logit of {} minus that of {}, at position {}", a, token(o.b),
                           o.positions.at(0));
}

}  // namespace

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder))
    throw autograd::IoError(fmt::format("--out: cannot make the folder {}: {}", folder.string(),
                                        error ? error.message() : "it is a file"));
}

void draw_loss(const std::filesystem::path& file, const nn::Trainer& trainer,
               const std::optional<nn::Evaluation>& last) {
  autograd::write_file(file.string(), loss_png(trainer, last));
}

std::string loss_png(const nn::Trainer& trainer, const std::optional<nn::Evaluation>& last) {
  plot::Series train{"training batch", {}, {}}, evaluation{"evaluation", {}, {}};
  for (const auto& row : trainer.history()) {
    if (std::isfinite(row.loss)) {
      train.x.push_back(double(row.step));
      train.y.push_back(row.loss);
    }
    if (std::isfinite(row.eval_loss)) {
      evaluation.x.push_back(double(row.step));
      evaluation.y.push_back(row.eval_loss);
    }
  }
  plot::LineChart chart{.title = fmt::format("Loss while training: {}, {} steps",
                                             trainer.config().task, trainer.steps_done),
                        .x_name = "training step",
                        .y_name = "loss (nats per token)",
                        .series = {train, evaluation},
                        .hlines = {},
                        .log_y = false};
  std::string alt = chart.title + ".";
  if (last) {
    if (last->optimal) chart.hlines.push_back({"best possible", *last->optimal});
    for (const auto& [name, loss] : last->references) chart.hlines.push_back({name, loss});
    alt += fmt::format(" The last evaluation is {:.4f}.", last->loss);
  }
  chart.log_y = spans_decades(train.y);
  for (const auto& line : chart.hlines) alt += fmt::format(" {}: {:.4f}.", line.name, line.y);
  return plot::encode_png(plot::draw_chart(chart), alt);
}

void draw_attention(const std::filesystem::path& file, const nn::Transformer& model,
                    const nn::Task& task, std::int64_t steps) {
  autograd::write_file(file.string(), attention_png(model, task, steps));
}

std::string attention_png(const nn::Transformer& model, const nn::Task& task, std::int64_t steps) {
  const autograd::NoGrad guard;
  nn::Generator generator(1);
  const nn::Batch example = task.example(generator);
  constexpr std::int64_t kLongest = 256;  // tokens: nobody reads more, and weights grow as T x T
  const nn::Tensor inputs =
      contiguous(slice(example.inputs, 1, 0, std::min(kLongest, example.inputs.size(1))));
  nn::Probe probe;
  for (std::int64_t layer = 0; layer < model.options.layers; ++layer)
    probe.record(fmt::format("blocks.{}.attn.hook_pattern", layer));
  model.forward(inputs, {.probe = &probe});

  plot::HeatmapGrid grid;
  for (std::int64_t layer = 0; layer < model.options.layers; ++layer)
    add_heads(grid, layer, probe.value(fmt::format("blocks.{}.attn.hook_pattern", layer)));
  for (const std::int64_t id : inputs.to_vector<std::int64_t>())
    grid.row_labels.push_back(task.facts().vocabulary.label(id));
  grid.col_labels = grid.row_labels;
  grid.title =
      fmt::format("Where each head looks: {}, after {} training steps", task.facts().name, steps);
  grid.caption = kHowToReadWeights;
  grid.value_name = "attention weight";
  return plot::encode_png(plot::draw_heatmap(grid), grid.title + ". " + grid.caption);
}

std::vector<std::filesystem::path> draw_study(const std::filesystem::path& folder,
                                              const nn::Study& study,
                                              const nn::Objective& objective,
                                              const std::vector<std::string>& tokens,
                                              const nn::TaskFacts& facts) {
  struct Picture {
    const char *file, *site, *title, *value_name, *caption;
    plot::ColorScale scale;
  };
  const Picture pictures[] = {
      {"weights.png", "hook_pattern", "Where each head looks: the attention weights A",
       "attention weight", kHowToReadWeights, plot::ColorScale::kSequential},
      {"dA.png", "hook_pattern_grad", "dL/dA: what each attention weight would do to L", "dL/dA",
       "Orange: more weight there would raise L; blue: it would lower L.",
       plot::ColorScale::kDiverging},
      {"dS.png", "hook_attn_scores_grad", "dL/dS: what each score before the softmax would do to L",
       "dL/dS",
       "Orange: a higher score there would raise L; blue: it would lower L. Each row sums to 0: "
       "what one key gains the others lose.",
       plot::ColorScale::kDiverging}};
  std::vector<std::filesystem::path> files;
  for (const Picture& picture : pictures) files.push_back(folder / picture.file);
  autograd::parallel_for(std::size(pictures), 1, [&](std::int64_t i, std::int64_t) {
    const Picture& picture = pictures[i];
    plot::HeatmapGrid grid;
    std::int64_t layer = 0;
    for (const nn::NamedTensor& array : study.arrays)
      if (array.name.ends_with(std::string(".attn.") + picture.site))
        add_heads(grid, layer++, array.tensor);
    grid.row_labels = grid.col_labels = tokens;
    grid.scale = picture.scale;
    grid.title = picture.title;
    grid.caption = picture.caption;
    grid.value_name = picture.value_name;
    if (picture.scale == plot::ColorScale::kDiverging)
      grid.caption = fmt::format("L is {}. {} Colors go by the root of the value.",
                                 objective_words(objective, facts.vocabulary), picture.caption);
    plot::write_png(files[std::size_t(i)].string(), plot::draw_heatmap(grid),
                    fmt::format("{}: {}. {}", facts.name, grid.title, grid.caption));
  });
  return files;
}

void draw_reach(const std::filesystem::path& file, const nn::Causality& causality) {
  double smallest = HUGE_VAL;
  for (const nn::Reach& r : causality.runs)
    for (const double x : r.values)
      if (x > 0) smallest = std::min(smallest, x);
  plot::HeatmapGrid grid;
  for (const nn::Reach& r : causality.runs) {
    std::vector<float> decades;
    for (const double x : r.values)
      decades.push_back(x > 0 ? float(1 + std::log10(x / smallest)) : std::nanf(""));
    grid.panels.push_back({r.name, int(r.length), int(r.length), decades});
  }
  grid.panel_columns = 2;
  grid.title = "What each output depends on";
  grid.caption = "Causal: gray above the diagonal, no gray on it.";
  grid.gray = "exactly 0";
  grid.row_axis = "output";
  grid.col_axis = "input";
  grid.value_name = "derivative, in decades";
  plot::write_png(file.string(), plot::draw_heatmap(grid), grid.title + ". " + grid.caption);
}

}  // namespace heed
