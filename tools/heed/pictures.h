// Pictures of a run and of its heads, and the writer of all pictures of the program.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "nn/io/names.h"
#include "nn/lab/settings/setting.h"
#include "nn/lab/train/trainer.h"
#include "nn/layers/sites.h"
#include "tools/plot/chart.h"
#include "tools/plot/heatmap.h"
#include "tools/plot/network.h"

namespace heed {

/// Paths of files that were written.
using Files = std::vector<std::filesystem::path>;
/// Appends `more` to `files`.
inline void append(Files& files, const Files& more) {
  files.insert(files.end(), more.begin(), more.end());
}

/// Origin of a picture's numbers, and the formats in which the picture is written.
struct PictureSource {
  std::filesystem::path run = {};  ///< run directory, or empty
  std::string weights = {};        ///< nn::hash_of_tensors of the model's parameters, or empty
  std::vector<std::string> formats = {"png"};  ///< "png" and "svg"
  /// Returns the last component of `run`.
  std::string run_name() const;
};
/// Returns the source for a run directory and its model.
PictureSource source_of(const std::filesystem::path& run, const nn::Transformer& model);

/// A picture: maps, charts or a network.
struct Picture {
  std::string file;  ///< name without its extension
  std::variant<plot::HeatmapGrid, plot::ChartStack, plot::Network> drawing;
  std::string explanation = {};  ///< for readers who cannot see it, after the title and the caption
};
/// Returns title, caption and explanation as one text.
std::string description_of(const Picture& picture);
/// Writes a picture in each format of `source`, and returns the paths. A path is `file` with the
/// name of the format as its extension. The files contain description_of(picture). The
/// metadata are heed's version, the command line, run and weights of `source` and, for heat maps,
/// the range of the colors. Throws IoError.
Files write_picture(std::filesystem::path file, const Picture& picture,
                    const PictureSource& source);

/// Returns the setting --format. Its value is a list of "png" and "svg"; an empty list means png.
lab::Setting format_setting(std::vector<std::string>& formats);

/// Returns tokens as text for a title, shortened to a fixed width. Unprintable characters are
/// replaced by their names.
std::string shortened_tokens(const std::vector<std::string>& labels);

/// Returns whether an axis for these values should be logarithmic: whether the smallest finite
/// value is above 0 and the largest is more than ten times the smallest.
bool spans_decades(const std::vector<double>& values);

/// Returns loss.png: the loss of each step and evaluation. If `last` is given, the picture also
/// shows the optimal loss and the other reference losses of that evaluation. If the run evaluates
/// training sequences too, the picture also shows their loss, and the accuracies. The axis of
/// losses is logarithmic if spans_decades() is true for the losses of the steps.
Picture loss_picture(const std::vector<lab::MetricsRow>& history, const lab::TaskInfo& task,
                     const std::optional<lab::Evaluation>& last, const PictureSource& source = {});

/// Returns heat maps whose rows are queries and whose columns are keys: one panel per head, and one
/// row of panels per layer. `maps` and `scores` contain one tensor [1, H, T, T] per layer, and
/// `labels` the tokens, [T]. A cell covers `block` x `block` tokens: of those that the mask does
/// not hide, it shows the value with the largest magnitude. A cell is marked as masked if all its
/// scores are -inf, because the causal mask, a window or padding hides its keys.
plot::HeatmapGrid heads_grid(const std::vector<nn::Tensor>& maps,
                             const std::vector<nn::Tensor>& scores,
                             const std::vector<std::string>& labels, Index block = 1);
/// Returns the heat maps of attention.png. `weights` and `scores` contain one tensor [1, H, T, T]
/// per layer.
plot::HeatmapGrid attention_grid(const std::vector<nn::Tensor>& weights,
                                 const std::vector<nn::Tensor>& scores,
                                 const std::vector<std::string>& labels, const std::string& title);
/// Returns attention.png: the attention weights of every layer and head on the task's example
/// sequence, or on its first 256 tokens if it is longer. `steps` is the number of training steps,
/// for the title.
Picture attention_picture(const nn::Transformer& model, const lab::Task& task, Index steps,
                          const PictureSource& source = {});

}  // namespace heed
