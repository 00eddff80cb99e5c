// Weights of an earlier run, from which a new run starts (RunConfig::from).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nn/io/safetensors.h"
#include "nn/lab/train/config.h"

namespace heed::lab {

/// A weights file that `heed train` or `heed export` wrote, and the run that it belongs to.
struct Source {
  SafeTensors weights;  ///< the file
  /// Configuration of the run, without the values that a resumed run may change (recipe_text()),
  /// and so without the path of its text.
  RunConfig config;
  Vocabulary vocabulary;      ///< symbols that the model reads
  Index classes = 0;          ///< the model predicts tokens 0 to classes - 1
  std::optional<Index> step;  ///< step of the weights, if the file contains it

  /// Returns step and checksum of the weights for RunConfig::from_weights, such as "step 400,
  /// crc32c 0123abcd".
  std::string text() const;
};

/// Reads the weights in state.safetensors, model.safetensors, best.safetensors or a checkpoint of a
/// run, or in a file that `heed export` wrote. Throws IoError if the file cannot be read, if it
/// lacks the configuration of a run, or if a weight is NaN or infinite.
Source read_source(const std::string& file);
/// Does the same, but reads only the metadata: Source::weights has no tensors.
Source read_source_metadata(const std::string& file);

/// Copies the options of the source's model into `config`, but not the context if config.task is
/// another built-in task. If both tasks learn a file, also copies `unit`. If the tasks are equal,
/// also copies the parameters of the task.
void use_model_of(const Source& source, RunConfig& config);

/// Copies the weights of the source into a model that make_model() created for `config` and a task
/// with these symbols. Weights of tokens are copied by symbol. Throws ValueError if the source
/// lacks a symbol, if an option of the model other than context and dropout differs, or if the
/// context is longer than the learned positions of the source. Throws IoError if a tensor is
/// missing or has another shape.
void copy_source(const Source& source, const RunConfig& config, const Vocabulary& vocabulary,
                 Transformer& model);

}  // namespace heed::lab
