// Pictures of a run and of its heads, and the metadata that every picture of the program keeps in
// its file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nn/io/names.h"
#include "nn/layers/sites.h"
#include "nn/train/checks/causality.h"
#include "nn/train/trainer.h"
#include "tools/plot/heatmap.h"
#include "tools/plot/png.h"

namespace heed {

/// Makes a directory and its parents where they do not exist. IoError.
void make_folder(const std::filesystem::path& folder);

/// The origin of a picture's numbers.
struct PictureSource {
  std::filesystem::path run = {};  ///< a run's folder, or empty
  std::string weights = {};        ///< nn::hash_of_tensors of the model's parameters, or empty
  /// The folder's name alone.
  std::string run_name() const;
};
PictureSource source_of(const std::filesystem::path& run, const nn::Transformer& model);

/// The texts of a picture's file beside its description: heed's version, the command line, the
/// source and, of a heat map, the range of its colors.
std::vector<plot::PngText> png_metadata(const PictureSource& source);
std::vector<plot::PngText> png_metadata(const PictureSource& source, const plot::HeatmapGrid& grid);

/// Tokens as part of a title: their beginning, what does not print spelled out.
std::string shortened_tokens(const std::vector<std::string>& labels);

/// Returns whether an axis for the finite values is logarithmic: the largest is more than ten times
/// the smallest, which is above 0.
bool spans_decades(const std::vector<double>& values);

/// loss.png: the loss of each step and evaluation, beside the optimum and other reference losses of
/// the sequences that were evaluated last, if any. The axis is logarithmic where the largest loss
/// is more than ten times the smallest.
void draw_loss(const std::filesystem::path& file, const nn::Trainer& trainer,
               const std::optional<nn::Evaluation>& last);

/// Maps [1, H, T, T] of each layer, a row of panels each, or of the one head `only`, large and with
/// its numbers; queries by keys. A cell is masked where the layer's scores, of the same shape, are
/// -inf: the causal mask, a window or padding hides that key.
plot::HeatmapGrid heads_grid(const std::vector<nn::Tensor>& maps,
                             const std::vector<nn::Tensor>& scores,
                             std::optional<nn::HeadIndex> only = {});
/// The weights of each layer and their scores (heads_grid) as attention.png shows them.
plot::HeatmapGrid attention_grid(const std::vector<nn::Tensor>& weights,
                                 const std::vector<nn::Tensor>& scores,
                                 const std::vector<std::string>& labels, const std::string& title);
/// attention.png: the weights of every layer and head on the task's example sequence, of a long one
/// on its first 256 tokens.
void draw_attention(const std::filesystem::path& file, const nn::Transformer& model,
                    const nn::Task& task, std::int64_t steps);
/// The bytes of these files, in no folder.
std::string loss_png(const nn::Trainer& trainer, const std::optional<nn::Evaluation>& last,
                     const PictureSource& source = {});
std::string attention_png(const nn::Transformer& model, const nn::Task& task, std::int64_t steps,
                          const PictureSource& source = {});

/// The reach matrix of each pass, where what is exactly 0 is gray. IoError if it cannot be written.
void draw_reach(const std::filesystem::path& file, const nn::Causality& causality,
                const PictureSource& source);

}  // namespace heed
