// Pictures of a run and of its heads, and the metadata that the program stores in every picture.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autograd/base/files.h"
#include "nn/io/names.h"
#include "nn/io/setting.h"
#include "nn/layers/sites.h"
#include "nn/train/checks/causality.h"
#include "nn/train/trainer.h"
#include "tools/plot/heatmap.h"
#include "tools/plot/png.h"

namespace heed {

/// Paths of files that were written.
using Files = std::vector<std::filesystem::path>;
/// Appends `more` to `files`.
inline void append(Files& files, const Files& more) {
  files.insert(files.end(), more.begin(), more.end());
}

/// Creates a directory and its parents if they do not exist. Throws IoError.
void make_folder(const std::filesystem::path& folder);

/// Origin of a picture's numbers, and the formats in which the picture is written.
struct PictureSource {
  std::filesystem::path run = {};  ///< run directory, or empty
  std::string weights = {};        ///< nn::hash_of_tensors of the model's parameters, or empty
  std::vector<std::string> formats = {};  ///< value of format_setting()
  /// Returns the last component of `run`.
  std::string run_name() const;
};
/// Returns the source for a run directory and its model.
PictureSource source_of(const std::filesystem::path& run, const nn::Transformer& model);

///@{
/// Returns the metadata of a picture: heed's version, the command line, the run, the hash of the
/// weights and, for a heat map, the range of its colors.
std::vector<plot::PngText> png_metadata(const PictureSource& source);
std::vector<plot::PngText> png_metadata(const PictureSource& source, const plot::HeatmapGrid& grid);
template <class Drawing>
auto png_metadata(const PictureSource& source, const Drawing&) {
  return png_metadata(source);
}
///@}

/// Returns the setting --format. Its value is a list of "png" and "svg"; an empty list means png.
nn::Setting format_setting(std::vector<std::string>& formats);
/// Writes a picture in each of `formats`, a value of format_setting(), and returns the paths. A
/// path is `file` with the name of the format as its extension. `draw` draws the picture. `title`,
/// `alt_text` and `metadata` are the texts in the files; a PNG file has no title. Throws IoError.
Files write_picture(autograd::PathAt file, const std::vector<std::string>& formats,
                    const std::function<void(plot::Canvas&)>& draw, const std::string& title,
                    const std::string& alt_text, const std::vector<plot::PngText>& metadata);

/// Returns tokens as text for a title, shortened to a fixed width. Unprintable characters are
/// replaced by their names.
std::string shortened_tokens(const std::vector<std::string>& labels);

/// Returns whether an axis for these values should be logarithmic: whether the smallest finite
/// value is above 0 and the largest is more than ten times the smallest.
bool spans_decades(const std::vector<double>& values);

/// Returns the bytes of loss.png: the loss of each step and evaluation. If `last` is given, it also
/// shows the optimal loss and the other reference losses of that evaluation. The axis is
/// logarithmic if spans_decades() is true for the losses of the steps.
std::string loss_png(const nn::Trainer& trainer, const std::optional<nn::Evaluation>& last,
                     const PictureSource& source = {});

/// Returns heat maps whose rows are queries and whose columns are keys: one panel per head, and one
/// row of panels per layer. `maps` and `scores` contain one tensor [1, H, T, T] per layer. A cell
/// covers `block` x `block` tokens (nn/study/blocks.h). If `only` is given, returns one large panel
/// with numbers. A cell is marked as masked if its scores are -inf, because the causal mask, a
/// window or padding hides its keys.
plot::HeatmapGrid heads_grid(const std::vector<nn::Tensor>& maps,
                             const std::vector<nn::Tensor>& scores, std::int64_t block = 1,
                             std::optional<nn::HeadIndex> only = {});
/// Returns the heat maps of attention.png. `weights` and `scores` contain one tensor [1, H, T, T]
/// per layer.
plot::HeatmapGrid attention_grid(const std::vector<nn::Tensor>& weights,
                                 const std::vector<nn::Tensor>& scores,
                                 const std::vector<std::string>& labels, const std::string& title);
/// Returns the bytes of attention.png: the attention weights of every layer and head on the task's
/// example sequence, or on its first 256 tokens if it is longer. `steps` is the number of training
/// steps, for the title.
std::string attention_png(const nn::Transformer& model, const nn::Task& task, std::int64_t steps,
                          const PictureSource& source = {});

/// Draws, for each kind of pass in `causality`, how strongly each output depends on each input
/// (nn::Reach). Derivatives that are exactly 0 are gray. Throws IoError if the file cannot be
/// written.
void draw_reach(const autograd::PathAt& file, const nn::Causality& causality,
                const PictureSource& source);

}  // namespace heed
