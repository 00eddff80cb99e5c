#include "tools/heed/pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "autograd/base/parallel.h"
#include "autograd/ops/ops.h"
#include "nn/io/safetensors.h"
#include "nn/lab/study/forward_passes.h"
#include "nn/lab/study/study.h"
#include "tools/heed/report/output.h"
#include "tools/plot/color_range.h"
#include "tools/plot/plot.h"

namespace heed {
namespace {

// Returns the name of the run for a title: ", run induction-1". Returns "" if the source has no
// run.
std::string in_run(const PictureSource& source) {
  const std::string name = source.run_name();
  return name.empty() ? "" : ", run " + name;
}

}  // namespace

bool spans_decades(const std::vector<double>& values) {
  constexpr double kDecades = 10;
  double low = HUGE_VAL, high = 0;
  for (const double x : values)
    if (std::isfinite(x)) low = std::min(low, x), high = std::max(high, x);
  return low > 0 && high > kDecades * low;
}

std::string PictureSource::run_name() const {
  if (run.empty()) return "";
  const std::filesystem::path full = std::filesystem::absolute(run).lexically_normal();
  return (full.has_filename() ? full : full.parent_path()).filename().string();
}

PictureSource source_of(const std::filesystem::path& run, const nn::Transformer& model) {
  return {run, nn::hash_of_tensors(parameters(model))};
}

lab::Setting format_setting(std::vector<std::string>& formats) {
  return lab::Setting("format", formats, {"png", "svg"},
                      "formats of the pictures, separated by commas")
      .shows("png");
}

std::string description_of(const Picture& picture) {
  return std::visit(
      [&](const auto& drawing) {
        std::string words = drawing.title + ".";
        for (const std::string& more : {drawing.caption, picture.explanation})
          if (!more.empty()) words += " " + more;
        return words;
      },
      picture.drawing);
}

Files write_picture(std::filesystem::path file, const Picture& picture,
                    const PictureSource& source) {
  Files files;
  const auto write = [&](const auto& drawing) {
    std::vector<plot::PngText> metadata = {{"Software", "heed " + version_text()},
                                           {"Command line", typed_command()}};
    if (!source.run.empty()) metadata.push_back({"Run", source.run.string()});
    if (!source.weights.empty()) metadata.push_back({"Weights", source.weights});
    if constexpr (std::is_same_v<decltype(drawing), const plot::HeatmapGrid&>)
      metadata.push_back({"Color range", plot::color_range(drawing).text()});
    const std::string words = description_of(picture);
    for (const std::string& format : source.formats) {
      file.replace_extension(format);
      if (std::ranges::count(files, file) > 0) continue;
      plot::SvgCanvas svg;
      plot::Image image;
      const bool is_svg = format == "svg";
      draw(drawing, is_svg ? static_cast<plot::Canvas&>(svg) : image);
      autograd::write_file(file.string(), is_svg ? svg.encode(drawing.title, words, metadata)
                                                 : plot::encode_png(image, words, metadata));
      files.push_back(file);
    }
  };
  std::visit(write, picture.drawing);
  return files;
}

std::string shortened_tokens(const std::vector<std::string>& labels) {
  constexpr int kSize = 22, kWidth = 16 * kSize;  // font size and largest width, pixels
  const bool letters = std::all_of(labels.begin(), labels.end(), [](const std::string& label) {
    return plot::text_width(plot::token_text(label), kSize) <= 2 * kSize;
  });
  std::string text;
  for (const std::string& label : labels)
    text += (text.empty() || letters ? "" : " ") + plot::token_text(label);
  return plot::shorten_text(text, kWidth, kSize);
}

namespace {

// Returns the panel of a head from its map and its scores, [T, T]. See heads_grid().
plot::Panel head_panel(const nn::HeadIndex& head, const float* map, const float* scores,
                       Index length, Index block) {
  const Index size = (length + block - 1) / block;
  plot::Panel panel{nn::head_name(head), int(size), int(size),
                    std::vector<float>(std::size_t(size * size)),
                    std::vector<std::uint8_t>(std::size_t(size * size), 1)};
  const auto add = [](float& value, float x) {
    if (std::isnan(x) || std::abs(x) > std::abs(value)) value = x;  // a NaN stays
  };
  for (Index first = 0; first < length; first += block) {
    // The queries of a block are reduced before the keys. A reduction cell by cell would be several
    // times slower, because each cell would wait for the result of the previous cell.
    std::vector<float> row(std::size_t(length), 0.0F);
    std::vector<std::uint8_t> masked(std::size_t(length), 1);
    for (Index i = first; i < std::min(first + block, length); ++i) {
      const float *x = map + i * length, *score = scores + i * length;
      for (Index j = 0; j < length; ++j) {
        if (std::isinf(score[j])) continue;
        add(row[std::size_t(j)], x[j]);
        masked[std::size_t(j)] = 0;
      }
    }
    for (Index j = 0; j < length; ++j) {
      const auto cell = std::size_t(first / block * size + j / block);
      add(panel.values[cell], row[std::size_t(j)]);
      panel.masked[cell] &= masked[std::size_t(j)];
    }
  }
  return panel;
}

}  // namespace

plot::HeatmapGrid heads_grid(const std::vector<nn::Tensor>& maps,
                             const std::vector<nn::Tensor>& scores,
                             const std::vector<std::string>& labels, Index block) {
  const Index heads = maps[0].size(1), length = maps[0].size(2);
  plot::HeatmapGrid grid;
  grid.panels.resize(maps.size() * std::size_t(heads));
  for (std::size_t l = 0; l < maps.size(); ++l) {
    const nn::Tensor values = contiguous(to(maps[l], autograd::float32)),
                     shown = contiguous(to(scores[l], autograd::float32));
    autograd::parallel_for(heads, 1, [&](Index begin, Index end) {
      for (Index h = begin; h < end; ++h)
        grid.panels[l * std::size_t(heads) + std::size_t(h)] =
            head_panel({Index(l), h}, values.data<float>() + h * length * length,
                       shown.data<float>() + h * length * length, length, block);
    });
  }
  for (Index t = 0; t < length; t += block)
    grid.col_labels.push_back(block == 1
                                  ? labels[std::size_t(t)]
                                  : fmt::format("{}-{}", t, std::min(t + block, length) - 1));
  grid.row_labels = grid.col_labels;
  grid.panel_columns = int(heads);
  grid.row_axis = "query token";
  grid.col_axis = "key token";
  return grid;
}

namespace {

using History = std::vector<lab::MetricsRow>;

// Returns a column of the history as a curve over the steps, without missing values.
plot::Series history_series(const History& history, double lab::MetricsRow::*value,
                            std::string name, int color) {
  plot::Series series{.name = std::move(name), .color = color};
  for (const lab::MetricsRow& row : history)
    if (std::isfinite(row.*value)) {
      series.x.push_back(double(row.step));
      series.y.push_back(row.*value);
    }
  return series;
}

// Returns the accuracies on held-out and on training sequences, with the colors of the losses.
plot::LineChart accuracy_chart(const History& history, const lab::TaskInfo& task) {
  using lab::MetricsRow;
  plot::LineChart chart{.y_name = "accuracy",
                        .series = {history_series(history, &MetricsRow::eval_accuracy, "", 1),
                                   history_series(history, &MetricsRow::train_accuracy, "", 2)},
                        .ends = {0, 1},
                        .height = 240};
  for (const auto& [name, share] : task.accuracy_references) chart.hlines.push_back({name, share});
  return chart;
}

}  // namespace

Picture loss_picture(const History& history, const lab::TaskInfo& task,
                     const std::optional<lab::Evaluation>& last, const PictureSource& source) {
  using lab::MetricsRow;
  const plot::Series training_set = history_series(history, &MetricsRow::train_loss, "", 2);
  const bool stacked = !training_set.x.empty();
  const plot::Series batch =
      history_series(history, &MetricsRow::loss, stacked ? "" : "training batch", stacked ? 0 : -1);
  plot::LineChart chart{
      .x_name = "training step",
      .y_name = "loss (nats per token)",
      .series = {batch, history_series(history, &MetricsRow::eval_loss, stacked ? "" : "evaluation",
                                       stacked ? 1 : -1)},
      .log_y = spans_decades(batch.y)};
  std::string alt;
  if (last) {
    if (last->optimal) chart.hlines.push_back({"best possible", *last->optimal});
    for (const auto& [name, loss] : last->references) chart.hlines.push_back({name, loss});
    alt = fmt::format("The last evaluation is {:.4f}.", last->loss);
  }
  for (const auto& line : chart.hlines) alt += fmt::format(" {}: {:.4f}.", line.name, line.y);
  plot::ChartStack stack{.title = fmt::format("Loss while training: {}, {} steps{}", task.name,
                                              history.empty() ? 0 : history.back().step,
                                              in_run(source))};
  if (stacked) {
    alt += fmt::format(" On the training set it is {:.4f}.", training_set.y.back());
    stack.colors = {"training batch", "held-out set", "training set"};
    chart.series.push_back(training_set);
    chart.height = 400;
  }
  stack.panels = {chart};
  if (plot::LineChart accuracy = accuracy_chart(history, task);
      stacked && !accuracy.series[1].x.empty()) {
    accuracy.x_name = chart.x_name;
    stack.panels.push_back(accuracy);
  }
  return {"loss", std::move(stack), alt};
}

plot::HeatmapGrid attention_grid(const std::vector<nn::Tensor>& weights,
                                 const std::vector<nn::Tensor>& scores,
                                 const std::vector<std::string>& labels, const std::string& title) {
  plot::HeatmapGrid grid = heads_grid(weights, scores, labels);
  grid.title = title;
  grid.caption = lab::map_quantities()[0].caption;
  grid.value_name = "attention weight";
  return grid;
}

Picture attention_picture(const nn::Transformer& model, const lab::Task& task, Index steps,
                          const PictureSource& source) {
  const autograd::NoGrad guard;
  nn::Generator generator(1);
  const lab::Batch example = task.example(generator);
  // More tokens would not be readable, and the number of weights grows as T x T.
  constexpr Index kLongest = 256;
  const nn::Tensor inputs =
      contiguous(slice(example.inputs, 1, 0, std::min(kLongest, example.inputs.size(1))));
  const lab::RecordedForward pass =
      lab::record_forward(model, inputs, {"attn.hook_pattern", "attn.hook_attn_scores"});
  const auto labels = task.info().vocabulary.labels(inputs.to_vector<std::int64_t>());
  return {"attention",
          attention_grid(
              pass.at[0], pass.at[1], labels,
              fmt::format("Attention weights: {}, after {} training steps{}, on {}",
                          task.info().name, steps, in_run(source), shortened_tokens(labels)))};
}

}  // namespace heed
