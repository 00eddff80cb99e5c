// Import of weights: from a file of another library, or of `heed export`, to a model of a run.
#pragma once

#include <memory>
#include <vector>

#include "nn/io/safetensors.h"
#include "nn/lab/settings/toml.h"
#include "nn/lab/train/config.h"
#include "nn/layers/weight_names.h"

namespace heed::lab {

/// A model from a weights file, and the run to which it belongs.
struct ImportedWeights {
  WeightNames names;           ///< names and layouts of the file
  RunConfig config;            ///< configuration of the run
  std::unique_ptr<Task> task;  ///< task of the run; for a text, it may accept only prompts
  Transformer model;           ///< model with the weights of the file, bit for bit
};

/// Makes a model with the weights of a file. `given` are lines of configurations, which override
/// the configuration in the metadata of the file and earlier lines. Options that no line states are
/// those that the tensors show, such as the number of layers, or have their default values. The
/// symbols of a text are those in the metadata, or else those of the text of the configuration.
///
/// Throws ValueError that lists what the file does not show and no line states: task, heads,
/// context, positions, window, norm_kind and mlp_act. Throws ValueError with both numbers if the
/// metadata have another eps of norms than heed. Throws IoError that names tensors and shapes if
/// the file does not fit the configuration or the symbols, or if its weights are not finite.
ImportedWeights import_weights(SafeTensors file, const std::vector<TomlItem>& given = {});

}  // namespace heed::lab
