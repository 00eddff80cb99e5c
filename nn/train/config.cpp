#include "nn/train/config.h"

#include <algorithm>

#include "autograd/base/text.h"
#include "autograd/base/utf8.h"
#include "nn/io/toml.h"
#include "nn/tasks/parameters.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr Range kSteps{1, 1e9}, kStepsOrNone{0, 1e9}, kShare{0, 1, false, true};

// With every parameter of its task.
RunConfig completed(RunConfig c) {
  c.task_parameters = complete_parameters(c.task, c.task_parameters);
  return c;
}

// Returns the settings of a completed configuration without those of other tasks. An option that is
// younger than heed 0.1 is left out at its default, so that the files of earlier runs have all
// keys.
std::vector<Setting> own_settings(RunConfig& c) {
  static constexpr std::string_view kYounger[] = {"matmul", "check-invariants"};
  RunConfig none;
  const std::vector<Setting> defaults = none.settings();
  std::vector<Setting> list = c.settings();
  std::erase_if(list, [&](const Setting& s) {
    if (s.key == "lines" || s.key == "answer-after") return c.task != "lines";
    if (s.key == "unit" || s.key == "max-words") return !learns_file(c);
    if (std::ranges::count(kYounger, s.key) > 0)
      return s.get() == find_setting(defaults, s.key)->get();
    return s.key.starts_with("task-") && s.get().empty();
  });
  return list;
}

// Rejects options of files where no file is learned.
void check_file(const RunConfig& c) {
  const RunConfig none;
  for (const std::string& text : {c.text, c.lines, c.answer_after})
    check<ValueError>(is_utf8(text), "`text`", "'", text,
                      "' is not UTF-8, which a configuration cannot contain; rename it");
  check<ValueError>(c.text.empty() || c.lines.empty(), "`text`", "'", c.text, "' and `lines` '",
                    c.lines, "': a run learns one file, as `text` or as `lines`");
  check<ValueError>(c.answer_after.empty() || c.task == "lines", "`answer-after`", "what follows '",
                    c.answer_after, "' counts in a line of a file: give one as `lines`");
  check<ValueError>(learns_file(c) || (c.unit == none.unit && c.max_words == none.max_words),
                    c.unit == none.unit ? "`max-words`" : "`unit`", "the task ", c.task,
                    " reads no file; give one as `text` or `lines`");
}

// Settings as config.toml and help have them, a group at a time.

std::vector<Setting> data_settings(RunConfig& c) {
  std::vector<Setting> list = {
      {"task", c.task, "NAME", "what to learn; see heed tasks"},
      {"text", c.text, "FILE", "UTF-8 file to learn from, for the task text"},
      {"lines", c.lines, "FILE", "UTF-8 file whose lines are sequences, for the task lines"},
      {"answer-after", c.answer_after, "CHAR",
       "of `lines`: only what follows the first CHAR (of words: the first that ends in it) counts"},
      {"unit", c.unit, "of `text`, `lines`: what a token is"},
      {"max-words",
       c.max_words,
       {1, 65534},
       "of `unit` word: the most frequent are tokens, the rest <unk>"}};
  for (Setting& s : list)
    s.may_be_empty = s.key == "text" || s.key == "lines" || s.key == "answer-after";
  const std::vector<Setting> parameters = task_settings(c.task_parameters);
  list.insert(list.end(), parameters.begin(), parameters.end());
  return list;
}

std::vector<Setting> model_settings(RunConfig& c) {
  Transformer::Options& m = c.model;
  MultiHeadAttention::Options& a = m.attention;
  return {
      {"layers", m.layers, {1, 256}, "blocks"},
      {"heads",
       a.heads,
       {1, 1024},
       "attention heads per block; divides d-model, unless d-head is set"},
      {"d-model", a.d_model, {1, 16384}, "width of the residual stream"},
      {"context", m.context, {1, 65536}, "longest sequence, tokens"},
      {"d-head", a.d_head, {0, 16384}, "width of a head's queries and keys; 0: d-model / heads"},
      {"d-value", a.d_value, {0, 16384}, "width of a head's values; 0: as d-head"},
      {"kv-heads",
       a.kv_heads,
       {0, 1024},
       "heads of keys and values, shared by groups of heads; 0: heads"},
      {"scale", a.scale, {0, 1000}, "q k^T times this"},
      {"qk-norm", a.qk_norm, "RMSNorm of q and k, before the rotation"},
      {"soft-cap", a.soft_cap, {0, 10000}, "scores S become C tanh(S / C); 0: as they are"},
      {"sink", a.sink, "a score of no token in each softmax: 0, or learned per head"},
      {"window", a.window, {0, 65536}, "tokens a query sees, its own included; 0: all before it"},
      {"mlp", m.mlp, "an MLP after each attention"},
      {"mlp-act", m.activation, "its activation; swiglu has a third matrix"},
      {"mlp-ratio", m.mlp_ratio, {0, 64, true}, "its width, times d-model"},
      {"bias", a.bias, "biases in linear layers"},
      {"q-bias", a.q_bias, "as-bias", "bias of queries"},
      {"k-bias", a.k_bias, "as-bias", "bias of keys"},
      {"v-bias", a.v_bias, "as-bias", "bias of values"},
      {"o-bias", a.out_bias, "as-bias", "bias of attention's output"},
      {"norm-bias", m.norm_bias, "biases in LayerNorms"},
      {"tied", m.tied, "the output layer is the token embedding"},
      {"positions", m.positions, "how the model knows where a token stands"},
      {"norm", m.norm, "normalize before (pre) or after (post) each sublayer"},
      {"norm-kind", m.norm_kind, "what normalizes"},
      {"residual-scale", m.residual_scale, {0, 100, true}, "what each sublayer adds, times this"},
      {"form", a.form, "how q, k, v are stored"},
      {"init", c.init, "how weights are drawn"},
      {"q-init", c.q_init, "as-init", "weights of queries"},
      {"k-init", c.k_init, "as-init", "weights of keys"},
      {"v-init", c.v_init, "as-init", "weights of values"},
      {"o-init", c.o_init, "as-init", "weights of attention's output"},
      {"dropout", a.dropout, kShare, "probability"},
      {"dtype", a.dtype, "of weights and arithmetic"},
      {"matmul", m.matmul,
       "operands of linear layers' products, rounded to it as they are multiplied; sums and "
       "weights "
       "stay float32"}};
}

std::vector<Setting> optimization_settings(RunConfig& c) {
  return {{"batch", c.batch, {1, 65536}, "sequences per step"},
          {"accumulate",
           c.accumulate,
           {1, 65536},
           "parts of the batch, one after the other for less memory, or shared by processes; a "
           "power of two that divides batch"},
          {"steps", c.steps, kSteps, "optimizer steps"},
          {"warmup", c.warmup, kStepsOrNone, "steps of linear warm-up"},
          {"schedule", c.schedule, "course of the learning rate after the warm-up"},
          {"schedule-steps", c.schedule_steps, kStepsOrNone,
           "where the schedule ends, min-lr from there on; 0: with the run"},
          {"lr", c.lr, {0, 10, true}, "peak learning rate"},
          {"min-lr", c.min_lr, {0, 10}, "learning rate at the end of linear, cosine or wsd"},
          {"decay-steps", c.decay_steps, kStepsOrNone,
           "steps that wsd (warm-up, stable, decay) decays at the end; 0: a tenth of all"},
          {"optimizer", c.optimizer, "what makes a step of a gradient"},
          {"beta1", c.beta1, kShare, "adamw: decay of the mean of gradients"},
          {"beta2", c.beta2, kShare, "adamw: decay of the mean of squares"},
          {"eps", c.eps, {0, 1, true}, "adamw: added to the root"},
          {"momentum", c.momentum, kShare, "sgd: share of the last step that goes on"},
          {"weight-decay", c.weight_decay, {0, 10}, "decoupled, on matrices only"},
          {"clip", c.clip, {0}, "largest global gradient norm; 0: no clipping"},
          {"clip-value",
           c.clip_value,
           {0},
           "largest element of a gradient, before clip; 0: no clipping"}};
}

std::vector<Setting> run_settings(RunConfig& c) {
  return {
      {"seed", c.seed, {0, 0xffffffff}, "of initialization, data and dropout, each its own stream"},
      {"eval-every", c.eval_every, kStepsOrNone, "steps between evaluations; 0: only at the end"},
      {"eval-batch",
       c.eval_batch,
       {1, 1 << 20},
       "sequences of an evaluation (text: windows; the last takes all)"},
      {"save-every", c.save_every, kStepsOrNone,
       "steps between checkpoints of the weights; 0: none"},
      {"patience", c.patience, kStepsOrNone,
       "ends after this many evaluations in a row without a lower loss; 0: never"},
      {"target-loss", c.target_loss, {0}, "ends at an evaluation of this loss, nats; 0: never"},
      {"target-accuracy",
       c.target_accuracy,
       {0, 1},
       "ends at an evaluation of this accuracy, a share; 0: never"},
      {"check-invariants", c.check_invariants, kStepsOrNone,
       "steps between checks of attention's gradients against the identities they obey; a broken "
       "one ends the run, no bit changes; 0: none"}};
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
  need({"max-words"}, "`unit` word", [&c] { return c.unit == Unit::kWord; });
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
  add("Model", model_settings(*this));
  add("Optimization", optimization_settings(*this));
  add("Run", run_settings(*this));
  add_needs(all, *this);
  return all;
}

namespace {

// Checks the model's options, and what contradicts them in a recipe; the task decides the
// vocabulary.
void check_model(const RunConfig& c) {
  Transformer::Options m = c.model;
  m.vocab = m.classes = 1;
  m.checked();
  check<ValueError>(m.mlp || (m.activation == Activation::kGelu && m.mlp_ratio == 4),
                    m.activation == Activation::kGelu ? "`mlp-ratio`" : "`mlp-act`",
                    "there is no MLP; add `mlp`");
  check<ValueError>(m.norm != NormPlacement::kNone || m.norm_kind == NormKind::kLayerNorm,
                    "`norm-kind`", enum_name(m.norm_kind),
                    " has no place with `norm` none; choose `norm` pre or post");
  check<ValueError>(m.matmul == Precision::kFloat32 || m.attention.dtype == float32, "`matmul`",
                    enum_name(m.matmul), " rounds float32 numbers, got `dtype` ", m.attention.dtype,
                    "; leave out one of them");
  check<ValueError>(c.init != Init::kMuP || !m.tied, "`init`",
                    "mup draws the output layer smaller than the embedding that `tied` makes it; "
                    "leave out `tied`");
}

}  // namespace

void validate(const RunConfig& c) {
  RunConfig copy = completed(c);
  for (const Setting& s : own_settings(copy))
    if (const std::string problem = s.problem("`" + s.key + "`", s.get()); !problem.empty())
      throw ValueError(problem);
  check_model(c);
  check<ValueError>(c.batch % c.accumulate == 0 && (c.accumulate & (c.accumulate - 1)) == 0,
                    "`accumulate`", "needs a power of two that divides `batch` ", c.batch, ", got ",
                    c.accumulate);
  check<ValueError>(
      c.eval_every > 0 || (c.patience == 0 && c.target_loss == 0 && c.target_accuracy == 0),
      c.patience > 0      ? "`patience`"
      : c.target_loss > 0 ? "`target-loss`"
                          : "`target-accuracy`",
      "is tested after each evaluation; give `eval-every` above 0");
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

RunConfig from_toml(const std::string& text, const std::string& file) {
  RunConfig config;
  const std::vector<Setting> settings = config.settings();
  std::vector<std::string> given;
  for (const TomlItem& item : read_toml(text, file)) {
    check<ValueError>(item.section == "train", item.where, "there is no section [", item.section,
                      "]; that of a run is [train]");
    if (item.key.empty()) continue;
    setting_named(item, settings).set(item.where + ": " + item.key, item.values[0]);
    given.push_back(item.key);
  }
  RunConfig whole = completed(config);
  std::vector<std::string> missing = keys(own_settings(whole));
  std::erase_if(missing, [&](const std::string& key) {
    return std::find(given.begin(), given.end(), key) != given.end();
  });
  // A default in place of a lost value would be another model, often of the same shapes.
  check<ValueError>(missing.empty(), file, "has no '", missing.empty() ? "" : missing[0], "'");
  return whole;
}

bool learns_file(const RunConfig& c) { return c.task == "text" || c.task == "lines"; }

TextOptions text_options(const RunConfig& c) {
  const bool lines = c.task == "lines";
  return {.path = lines ? c.lines : c.text,
          .context = c.model.context,
          .ngrams = 5,
          .by_line = lines,
          .unit = c.unit,
          .max_words = c.max_words,
          .answer_after = c.answer_after};
}

Schedule schedule(const RunConfig& c) {
  const std::int64_t total = c.schedule_steps > 0 ? c.schedule_steps : c.steps;
  return {.decay = c.schedule,
          .lr = c.lr,
          .min_lr = c.min_lr,
          .warmup_steps = c.warmup,
          .total_steps = total,
          .decay_steps = c.decay_steps > 0 ? c.decay_steps : std::max<std::int64_t>(1, total / 10)};
}

}  // namespace heed::nn
