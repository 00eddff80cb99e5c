#include "nn/lab/train/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "autograd/base/text.h"
#include "autograd/base/utf8.h"
#include "nn/lab/settings/toml.h"
#include "nn/lab/tasks/parameters.h"

namespace heed::lab {

using namespace autograd;

namespace {

constexpr Range kStepsOrNone{0, 1e9}, kShare{0, 1, false, true};

// A setting of earlier versions that heed no longer has, or values of a setting.
struct Removed {
  enum What {
    kModel,     // values other than `values` changed the model or its data
    kTraining,  // values other than `values` changed only the training
    kValues,    // heed has the setting, but no longer the values `values`
    kDrawn,     // the same, and the values changed only the initial weights
    kRecord     // a run has the setting; it is ignored in the configuration of a new run
  };
  const char* key;
  What what;
  std::vector<std::string> values;
};

const Removed kRemoved[] = {
    {"task", Removed::kValues, {"urn", "adder", "sort"}},
    {"clip-value", Removed::kTraining, {"0"}},
    {"check-invariants", Removed::kTraining, {"0"}},
    {"val-text", Removed::kModel, {}},
    {"val-lines", Removed::kModel, {}},
    {"max-words", Removed::kModel, {"8192"}},
    {"newlines", Removed::kModel, {"lf"}},
    {"task-filler", Removed::kModel, {"blank"}},
    {"sink", Removed::kModel, {"none"}},
    {"scale", Removed::kValues, {"learned"}},
    {"residual-scale", Removed::kModel, {"1"}},
    {"form", Removed::kModel, {"packed_qkv"}},
    {"q-bias", Removed::kModel, {"as-bias"}},
    {"k-bias", Removed::kModel, {"as-bias"}},
    {"v-bias", Removed::kModel, {"as-bias"}},
    {"init", Removed::kDrawn, {"normal", "xavier", "kaiming", "orthogonal", "mup"}},
    {"q-init", Removed::kTraining, {"as-init"}},
    {"k-init", Removed::kTraining, {"as-init"}},
    {"v-init", Removed::kTraining, {"as-init"}},
    {"o-init", Removed::kTraining, {"as-init"}},
    {"freeze", Removed::kTraining, {""}},
    {"train-only", Removed::kTraining, {""}},
    {"new-tokens", Removed::kModel, {"false", "true"}},
    {"target-accuracy", Removed::kTraining, {"0"}},
    {"sample-prompt", Removed::kTraining, {""}},
    {"from-weights", Removed::kRecord, {}},
};

// Returns the configuration with a value for every parameter of its task.
RunConfig completed(RunConfig c) {
  c.task_parameters = complete_parameters(c.task, c.task_parameters);
  return c;
}

// Returns the settings of a completed configuration, without empty texts and without those that
// only other tasks use.
std::vector<Setting> own_settings(RunConfig& c) {
  std::vector<Setting> list = c.settings();
  std::erase_if(list, [&](const Setting& s) {
    return s.get().empty() || (s.key == "unit" && !learns_file(c));
  });
  return list;
}

// Rejects contradictory options of files, and options of files for a task that reads no file.
void check_file(const RunConfig& c) {
  const std::pair<const char*, const std::string&> texts[] = {{"`text`", c.text},
                                                              {"`lines`", c.lines},
                                                              {"`answer-after`", c.answer_after},
                                                              {"`from`", c.from}};
  for (const auto& [key, text] : texts)
    check<ValueError>(is_utf8(text), key, "'", text,
                      "' is not UTF-8, which a configuration cannot contain; change it");
  check<ValueError>(c.text.empty() || c.lines.empty(), "`text`", "'", c.text, "' and `lines` '",
                    c.lines, "' are both given; a run learns one file, as `text` or as `lines`");
  check<ValueError>(c.answer_after.empty() || c.task == "lines", "`answer-after`", "'",
                    c.answer_after,
                    "' has an effect only for the lines of a file; give a file as `lines`");
  check<ValueError>(learns_file(c) || c.unit == Unit::kChar, "`unit`", "the task ", c.task,
                    " reads no file; give one as `text` or `lines`");
}

// The functions below return the settings, one group each, in the order of config.toml and help.

std::vector<Setting> data_settings(RunConfig& c) {
  return {
      {"task", c.task, "NAME", "what to learn; see heed tasks"},
      {"text", c.text, "FILE", "UTF-8 file to learn from, for the task text"},
      {"lines", c.lines, "FILE", "UTF-8 file whose lines are sequences, for the task lines"},
      {"answer-after", c.answer_after, "CHAR",
       "for `lines`: count only the targets after the first CHAR of a line (for words: after the "
       "first word that ends in CHAR)"},
      {"unit", c.unit, "for `text`, `lines`: what a token is"}};
}

std::vector<Setting> model_settings(RunConfig& c) {
  Transformer::Options& m = c.model;
  MultiHeadAttention::Options& a = m.attention;
  return {
      {"layers", m.layers, {1, 256}, "blocks"},
      {"heads", a.heads, Range{1, 1024},
       "attention heads per block; must divide d-model unless d-head is set"},
      {"d-model", a.d_model, {1, 16384}, "width of the residual stream"},
      {"context", m.context, {1, 65536}, "context length: tokens of the longest sequence"},
      {"d-head", a.d_head, {0, 16384}, "width of a head's queries and keys; 0: d-model / heads"},
      {"d-value", a.d_value, {0, 16384}, "width of a head's values; 0: same as d-head"},
      {"kv-heads", a.kv_heads, Range{0, 1024},
       "number of key and value heads, each shared by a group of query heads; 0: same as heads"},
      {"scale", a.scale, {0, 1000}, "factor of q k^T"},
      {"qk-norm", a.qk_norm, "RMSNorm of q and k, before rotary positions"},
      {"soft-cap", a.soft_cap, {0, 10000}, "C: scores S become C tanh(S / C); 0: no soft cap"},
      {"window", a.window, Range{0, 65536},
       "number of last tokens that a query may attend to, its own included; 0: all"},
      {"mlp", m.mlp, "an MLP after each attention"},
      {"mlp-act", m.activation, "activation of the MLP; swiglu has a third matrix"},
      {"mlp-ratio", m.mlp_ratio, {0, 64, true}, "width of the MLP divided by d-model"},
      {"bias", a.bias, "biases in linear layers"},
      {"o-bias", a.out_bias, "as-bias", "bias of attention's output"},
      {"norm-bias", m.norm_bias, "biases in LayerNorms"},
      {"tied", m.tied, "the output layer uses the weights of the token embedding"},
      {"positions", m.positions, "encoding of positions"},
      {"norm", m.norm, "normalize before (pre) or after (post) each sublayer"},
      {"norm-kind", m.norm_kind, "kind of normalization"},
      {"init", c.init, "distribution of the initial weights"},
      {"dropout", a.dropout, kShare, "dropout probability"},
      {"dtype", a.dtype, "dtype of weights and arithmetic"}};
}

std::vector<Setting> start_settings(RunConfig& c) {
  return {{"from", c.from, "RUN|FILE",
           "start from the weights of a run, with its model and a new optimizer"},
          {"from-weights", c.from_weights, "TEXT", "step and checksum of the weights in `from`"}};
}

std::vector<Setting> optimization_settings(RunConfig& c) {
  return {
      {"batch", c.batch, {1, 65536}, "sequences per step"},
      lab::Setting("shards", c.shards, {0, 65536},
                   "parts of the batch, a power of two that divides it; each thread computes one "
                   "at a time, and processes share them")
          .shows("by the work of a step"),
      {"accumulate", c.accumulate, Range{1, 65536},
       "at most shards / accumulate shards are computed at a time, which needs less memory but "
       "changes no batch; a power of two; in a new run, a value above shards raises shards"},
      {"steps", c.steps, kStepsOrNone, "optimizer steps; 0 only evaluates the initial weights"},
      {"warmup", c.warmup, kStepsOrNone, "steps of linear warm-up"},
      {"schedule", c.schedule, "learning-rate schedule after the warm-up"},
      {"schedule-steps", c.schedule_steps, kStepsOrNone,
       "step at which the schedule ends; later steps use min-lr; 0: the last step"},
      {"lr", c.lr, {0, 10, true}, "peak learning rate"},
      {"min-lr", c.min_lr, {0, 10}, "learning rate at the end of linear, cosine or wsd"},
      {"decay-steps", c.decay_steps, kStepsOrNone,
       "wsd (warm-up, stable, decay): steps of the decay at the end; 0: a tenth of all steps"},
      {"optimizer", c.optimizer, "optimizer"},
      {"beta1", c.beta1, kShare, "adamw: decay rate of the mean of gradients"},
      {"beta2", c.beta2, kShare, "adamw: decay rate of the mean of squared gradients"},
      {"eps", c.eps, {0, 1, true}, "adamw: added to the square root"},
      {"momentum", c.momentum, kShare, "sgd: factor of the previous update"},
      {"weight-decay", c.weight_decay, {0, 10}, "weight decay, on matrices only"},
      {"clip", c.clip, {0}, "largest global gradient norm; 0: no clipping"}};
}

std::vector<Setting> run_settings(RunConfig& c) {
  return {
      {"seed", c.seed, Range{0, 0xffffffff},
       "seed of three random streams: initialization, data and dropout"},
      {"eval-every", c.eval_every, kStepsOrNone, "steps between evaluations; 0: only at the end"},
      {"eval-batch", c.eval_batch, Range{1, 1 << 20},
       "sequences per evaluation (text: windows); the final evaluation uses the whole set"},
      {"eval-train", c.eval_train, Range{0, 1 << 20},
       "training sequences per evaluation, for tasks with held-out data; results do not change; 0: "
       "none"},
      lab::Setting("save-every", c.save_every, kStepsOrNone,
                   "steps between checkpoints of the weights; 0: none")
          .shows("a twentieth of the steps; for a file 0"),
      {"sample-every", c.sample_every, kStepsOrNone,
       "steps between printed continuations of a newline, or of half of the task's example; "
       "results "
       "do not change; 0: none"},
      {"patience", c.patience, kStepsOrNone,
       "end the run after this many evaluations in a row without a lower loss; 0: never"},
      {"target-loss", c.target_loss, Range{0},
       "end the run at an evaluation with at most this loss, nats; 0: never"}};
}

// Adds the conditions under which some settings have an effect.
void add_needs(std::vector<Setting>& list, const RunConfig& c) {
  const auto need = [&list](const std::vector<std::string>& keys, const std::string& what,
                            const std::function<bool()>& is_met) {
    for (Setting& s : list)
      if (std::find(keys.begin(), keys.end(), s.key) != keys.end()) s.need = {what, is_met};
  };
  need({"beta1", "beta2", "eps"}, "`optimizer` adamw",
       [&c] { return c.optimizer == OptimizerKind::kAdamW; });
  need({"momentum"}, "`optimizer` sgd", [&c] { return c.optimizer == OptimizerKind::kSGD; });
  need({"min-lr", "schedule-steps"}, "`schedule` linear, cosine or wsd",
       [&c] { return c.schedule != Decay::kConstant; });
  need({"decay-steps"}, "`schedule` wsd", [&c] { return c.schedule == Decay::kWsd; });
}

// Checks the model's options and their combinations with other settings. The vocabulary is not
// checked, because it depends on the task.
void check_model(const RunConfig& c) {
  Transformer::Options m = c.model;
  m.vocab = m.classes = 1;
  m.checked();
  check<ValueError>(m.mlp || (m.activation == Activation::kGelu && m.mlp_ratio == 4),
                    m.activation == Activation::kGelu ? "`mlp-ratio`" : "`mlp-act`",
                    "there is no MLP; add `mlp`");
  check<ValueError>(m.norm != NormPlacement::kNone || m.norm_kind == NormKind::kLayerNorm,
                    "`norm-kind`", enum_name(m.norm_kind),
                    " has no effect with `norm` none; choose `norm` pre or post");
}

}  // namespace

std::vector<Setting> RunConfig::settings() {
  std::vector<Setting> all;
  const auto add = [&all](const char* group, const std::vector<Setting>& list) {
    for (Setting s : list) {
      s.group = group;
      if (s.kind == Setting::Kind::kSwitch) s.shown = s.get() == "true" ? "yes" : "no";
      all.push_back(std::move(s));
    }
  };
  add("Data", data_settings(*this));
  add("Task", task_settings(task_parameters));
  add("Model", model_settings(*this));
  add("Start", start_settings(*this));
  add("Optimization", optimization_settings(*this));
  add("Run", run_settings(*this));
  add_needs(all, *this);
  return all;
}

void validate(const RunConfig& c) {
  RunConfig copy = completed(c);
  for (const Setting& s : own_settings(copy))
    if (const std::string problem = s.problem("`" + s.key + "`", s.get()); !problem.empty())
      throw ValueError(problem);
  check_model(c);
  for (const auto& [key, parts] :
       {std::pair("`shards`", std::max<Index>(1, c.shards)), {"`accumulate`", c.accumulate}})
    check<ValueError>(c.batch % parts == 0 && std::has_single_bit(std::uint64_t(parts)), key,
                      "needs a power of two that divides `batch` ", c.batch, ", at most ",
                      c.batch & -c.batch, ", got ", parts);
  check<ValueError>(
      c.eval_every > 0 || (c.patience == 0 && c.target_loss == 0),
      c.patience > 0 ? "`patience`" : "`target-loss`",
      "is tested after each evaluation, and `eval-every` is 0; give `eval-every` above 0");
  check<ValueError>(c.min_lr <= c.lr, "`min-lr`", "needs 0 to `lr` = ", c.lr, ", got ", c.min_lr);
  check_file(c);
}

std::string to_toml(const RunConfig& config, const std::vector<std::string>& extra) {
  std::string text;
  for (const std::string& line : extra) text += "# " + line + "\n";
  text += "[train]\n";
  RunConfig copy = completed(config);
  for (const Setting& s : own_settings(copy)) text += toml_line(s);
  return text;
}

bool is_removed(const TomlItem& item, std::string* error) {
  const auto* row = std::ranges::find(kRemoved, item.key, &Removed::key);
  if (row == std::end(kRemoved) || item.section != "train") return false;
  if (row->what == Removed::kRecord) return !error;
  const std::string value = join(item.values);
  const bool listed = std::ranges::count(row->values, value) > 0;
  const bool is_kept = row->what == Removed::kValues || row->what == Removed::kDrawn;
  if (listed != is_kept) return listed;
  const std::string text = fmt::format(
      "{}: this run uses {} = {}, which heed no longer has; use the version that trained it",
      item.where, item.key, value);
  const bool trains = row->what == Removed::kTraining || row->what == Removed::kDrawn;
  if (!trains || !error) throw RemovedError(text);
  *error = text;
  return true;
}

void apply_toml(const std::vector<TomlItem>& items, RunConfig& config) {
  const std::vector<Setting> settings = config.settings();
  for (const TomlItem& item : items) {
    check<ValueError>(item.section == "train", item.where, "unknown section [", item.section,
                      "]; the section of a run is [train]");
    if (item.key.empty()) continue;
    if (is_removed(item, &config.removed)) continue;
    const Setting& setting = setting_named(item, settings);
    if (!item.values[0].empty() || !setting.get().empty())
      setting.set(item.where + ": " + item.key, item.values[0]);
  }
}

RunConfig from_toml(const std::string& text, const std::string& file) {
  RunConfig config;
  apply_toml(read_toml(text, file), config);
  return completed(config);
}

bool learns_file(const RunConfig& c) { return c.task == "text" || c.task == "lines"; }

std::string divergence_advice(const RunConfig& c) {
  return fmt::format("lower `lr` (now {}){}", c.lr, c.clip > 0 ? "" : " or set `clip`");
}

TextOptions text_options(const RunConfig& c) {
  const bool lines = c.task == "lines";
  return {.path = lines ? c.lines : c.text,
          .context = c.model.context,
          .bigrams = true,
          .by_line = lines,
          .unit = c.unit,
          .answer_after = c.answer_after};
}

Schedule schedule(const RunConfig& c) {
  const Index total = c.schedule_steps > 0 ? c.schedule_steps : c.steps;
  return {.decay = c.schedule,
          .lr = c.lr,
          .min_lr = c.min_lr,
          .warmup_steps = c.warmup,
          .total_steps = total,
          .decay_steps = c.decay_steps > 0 ? c.decay_steps : std::max<Index>(1, total / 10)};
}

}  // namespace heed::lab
