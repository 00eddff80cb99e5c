// Everything that defines a training run, each value named once: visit() serves the command line,
// config.toml, presets and help.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "nn/layers/transformer.h"

namespace heed::nn {

struct RunConfig {
  // what is learned
  std::string task = "induction";  ///< "text" when --text names a file
  std::string text;                ///< path of the file for the task "text"
  // the model
  std::int64_t layers = 2, heads = 2, d_model = 64, context = 48;
  bool mlp = false, bias = false, norm_bias = true, tied = false;
  std::string positions = "rope", norm = "pre", form = "packed_qkv", init = "fan-in";
  double dropout = 0;
  std::string dtype = "float32";
  // the optimizer
  std::int64_t batch = 32, steps = 400, warmup = 20;
  std::string schedule = "constant";
  double lr = 3e-3, min_lr = 0, beta1 = 0.9, beta2 = 0.98, eps = 1e-8, weight_decay = 0, clip = 1;
  // the run
  std::int64_t seed = 1, eval_every = 50, eval_batch = 256, save_every = 0;

  /// f(key, value&, what it is and its range) for every value; value is a std::string,
  /// std::int64_t, double or bool. Keys are the flags' names and config.toml's ("d-model").
  template <class F>
  void visit(F&& f) {
    f("task", task, "what to learn; see heed tasks");
    f("text", text, "UTF-8 file to learn from, for the task text");
    f("layers", layers, "blocks");
    f("heads", heads, "attention heads per block; divides d-model");
    f("d-model", d_model, "width of the residual stream");
    f("context", context, "longest sequence, tokens");
    f("mlp", mlp, "an MLP of 4 x d-model after each attention");
    f("bias", bias, "biases in linear layers");
    f("norm-bias", norm_bias, "biases in LayerNorms");
    f("tied", tied, "the output layer is the token embedding");
    f("positions", positions, "learned, sinusoidal, rope, alibi or none");
    f("norm", norm, "LayerNorm before (pre), after (post) each sublayer, or none");
    f("form", form, "how q, k, v are stored: packed_qkv, separate, packed_heads or per_head");
    f("init", init, "fan-in, torch or gpt2");
    f("dropout", dropout, "probability, 0 to below 1");
    f("dtype", dtype, "float32 or float64");
    f("batch", batch, "sequences per step");
    f("steps", steps, "optimizer steps");
    f("warmup", warmup, "steps of linear warm-up");
    f("schedule", schedule, "constant, linear or cosine, after the warm-up");
    f("lr", lr, "peak learning rate");
    f("min-lr", min_lr, "learning rate at the end of linear or cosine");
    f("beta1", beta1, "AdamW: decay of the mean of gradients");
    f("beta2", beta2, "AdamW: decay of the mean of squares");
    f("eps", eps, "AdamW: added to the root");
    f("weight-decay", weight_decay, "AdamW: decoupled, on matrices only");
    f("clip", clip, "largest global gradient norm; 0: no clipping");
    f("seed", seed, "of initialization, data and dropout, each its own stream");
    f("eval-every", eval_every, "steps between evaluations; 0: only at the end");
    f("eval-batch", eval_batch, "sequences of an evaluation (text: windows; the last takes all)");
    f("save-every", save_every, "steps between checkpoints/NNNNNN.safetensors; 0: none");
  }
};

/// Names that --preset takes: the tasks' own recipes, "shakespeare-cpu", and the speed presets
/// micro, toy, chargpt, small (nn/train/README.md).
std::vector<std::string> preset_names();
/// The recipe of a task or preset. ValueError with the nearest name.
RunConfig preset(std::string_view name);

/// Throws ValueError naming key, value and range for anything out of range or contradictory, for
/// more than about 16 GB, and for text that config.toml cannot keep (# " \ and control characters).
/// Text and vocabulary are checked when task and model are made.
void validate(const RunConfig& config);

/// config.toml: a [train] section, doubles with 17 digits; the same text gives the same run bit for
/// bit. `extra` goes above as comments (compiler, SIMD target).
std::string to_toml(const RunConfig& config, const std::vector<std::string>& extra = {});
/// Reads what to_toml wrote, every key of it. ValueError naming line and key otherwise.
RunConfig from_toml(const std::string& text);

/// The model of a run on a task with these vocabulary sizes, drawn from `g` as config.init says.
/// ValueError if that needs more than about 16 GB.
Transformer make_model(const RunConfig& config, std::int64_t vocab, std::int64_t classes,
                       Generator& g);

}  // namespace heed::nn
