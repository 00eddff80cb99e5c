#include "nn/train/config.h"

#include <algorithm>
#include <cmath>

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

// Of a completed configuration: all but what other tasks have.
std::vector<Setting> own_settings(RunConfig& c) {
  std::vector<Setting> list = c.settings();
  std::erase_if(list, [&](const Setting& s) {
    if (s.key == "lines" || s.key == "answer-after") return c.task != "lines";
    if (s.key == "unit" || s.key == "max-words") return !learns_file(c);
    return s.key.starts_with("task-") && s.get().empty();
  });
  return list;
}

// What only files have stays at its default elsewhere.
void check_file(const RunConfig& c) {
  const RunConfig none;
  for (const std::string& text : {c.text, c.lines, c.answer_after})
    check<ValueError>(is_utf8(text), "text", "'", text,
                      "' is not UTF-8, which config.toml cannot keep; rename it");
  check<ValueError>(c.text.empty() || c.lines.empty(), "text", "'", c.text, "' and lines '",
                    c.lines, "': a run learns one file, as text or as lines");
  check<ValueError>(c.answer_after.empty() || c.task == "lines", "answer-after", "what follows '",
                    c.answer_after, "' counts in a line of a file: give one as --lines");
  check<ValueError>(learns_file(c) || (c.unit == none.unit && c.max_words == none.max_words),
                    c.unit == none.unit ? "max-words" : "unit", "the task ", c.task,
                    " reads no file; --text or --lines name one");
}

}  // namespace

std::vector<Setting> RunConfig::settings() {
  std::vector<Setting> list = {
      {"task", task, "NAME", "what to learn; see heed tasks"},
      {"text", text, "FILE", "UTF-8 file to learn from, for the task text"},
      {"lines", lines, "FILE", "UTF-8 file whose lines are sequences, for the task lines"},
      {"answer-after", answer_after, "CHAR",
       "of --lines: only what follows the first CHAR (of words: the first that ends in it) counts"},
      {"unit", unit, "of --text, --lines: what a token is"},
      {"max-words",
       max_words,
       {1, 65534},
       "of --unit word: the most frequent are tokens, the rest <unk>"},
      {"layers", layers, {1, 256}, "blocks"},
      {"heads",
       heads,
       {1, 1024},
       "attention heads per block; divides d-model, unless d-head is set"},
      {"d-model", d_model, {1, 16384}, "width of the residual stream"},
      {"context", context, {1, 65536}, "longest sequence, tokens"},
      {"d-head", d_head, {0, 16384}, "width of a head's queries and keys; 0: d-model / heads"},
      {"d-value", d_value, {0, 16384}, "width of a head's values; 0: as d-head"},
      {"kv-heads",
       kv_heads,
       {0, 1024},
       "heads of keys and values, shared by groups of heads; 0: heads"},
      {"scale", scale, {0, 1000}, "q k^T times this"},
      {"qk-norm", qk_norm, "RMSNorm of q and k, before the rotation"},
      {"soft-cap", soft_cap, {0, 10000}, "scores S become C tanh(S / C); 0: as they are"},
      {"sink", sink, "a score of no token in each softmax: 0, or learned per head"},
      {"window", window, {0, 65536}, "tokens a query sees, its own included; 0: all before it"},
      {"mlp", mlp, "an MLP after each attention"},
      {"mlp-act", mlp_act, "its activation; swiglu has a third matrix"},
      {"mlp-ratio", mlp_ratio, {0, 64, true}, "its width, times d-model"},
      {"bias", bias, "biases in linear layers"},
      {"q-bias", q_bias, "as-bias", "bias of queries"},
      {"k-bias", k_bias, "as-bias", "bias of keys"},
      {"v-bias", v_bias, "as-bias", "bias of values"},
      {"o-bias", o_bias, "as-bias", "bias of attention's output"},
      {"norm-bias", norm_bias, "biases in LayerNorms"},
      {"tied", tied, "the output layer is the token embedding"},
      {"positions", positions, "how the model knows where a token stands"},
      {"norm", norm, "normalize before (pre) or after (post) each sublayer"},
      {"norm-kind", norm_kind, "what normalizes"},
      {"residual-scale", residual_scale, {0, 100, true}, "what each sublayer adds, times this"},
      {"form", form, "how q, k, v are stored"},
      {"init", init, "how weights are drawn"},
      {"q-init", q_init, "as-init", "weights of queries"},
      {"k-init", k_init, "as-init", "weights of keys"},
      {"v-init", v_init, "as-init", "weights of values"},
      {"o-init", o_init, "as-init", "weights of attention's output"},
      {"dropout", dropout, kShare, "probability"},
      {"dtype", dtype, "of weights and arithmetic"},
      {"batch", batch, {1, 65536}, "sequences per step"},
      {"accumulate",
       accumulate,
       {1, 65536},
       "parts of the batch that run one after the other, for less memory; a power of two that "
       "divides batch"},
      {"steps", steps, kSteps, "optimizer steps"},
      {"warmup", warmup, kStepsOrNone, "steps of linear warm-up"},
      {"schedule", schedule, "course of the learning rate after the warm-up"},
      {"schedule-steps", schedule_steps, kStepsOrNone,
       "where the schedule ends, min-lr from there on; 0: with the run"},
      {"lr", lr, {0, 10, true}, "peak learning rate"},
      {"min-lr", min_lr, {0, 10}, "learning rate at the end of linear, cosine or wsd"},
      {"decay-steps", decay_steps, kStepsOrNone,
       "steps that wsd (warm-up, stable, decay) decays at the end; 0: a tenth of all"},
      {"optimizer", optimizer, "what makes a step of a gradient"},
      {"beta1", beta1, kShare, "adamw: decay of the mean of gradients"},
      {"beta2", beta2, kShare, "adamw: decay of the mean of squares"},
      {"eps", eps, {0, 1, true}, "adamw: added to the root"},
      {"momentum", momentum, kShare, "sgd: share of the last step that goes on"},
      {"weight-decay", weight_decay, {0, 10}, "decoupled, on matrices only"},
      {"clip", clip, {0}, "largest global gradient norm; 0: no clipping"},
      {"clip-value", clip_value, {0}, "largest element of a gradient, before clip; 0: no clipping"},
      {"seed", seed, {0, 0xffffffff}, "of initialization, data and dropout, each its own stream"},
      {"eval-every", eval_every, kStepsOrNone, "steps between evaluations; 0: only at the end"},
      {"eval-batch",
       eval_batch,
       {1, 1 << 20},
       "sequences of an evaluation (text: windows; the last takes all)"},
      {"save-every", save_every, kStepsOrNone,
       "steps between checkpoints/NNNNNN.safetensors; 0: none"},
      {"patience", patience, kStepsOrNone,
       "ends after so many evaluations in a row without a lower loss; 0: never"},
      {"target-loss", target_loss, {0}, "ends at an evaluation of this loss, nats; 0: never"},
      {"target-accuracy",
       target_accuracy,
       {0, 1},
       "ends at an evaluation of this accuracy, a share; 0: never"}};
  const std::vector<Setting> parameters = task_settings(task_parameters);
  list.insert(list.begin() + (find_setting(list, "layers") - list.data()), parameters.begin(),
              parameters.end());
  std::string group;
  for (Setting& s : list) {
    if (s.key == "task") group = "Data";
    if (s.key == "layers") group = "Model";
    if (s.key == "batch") group = "Optimization";
    if (s.key == "seed") group = "Run";
    s.group = group;
    if (s.kind == Setting::Kind::kSwitch) s.shown = s.get() == "true" ? "yes" : "no";
  }
  for (Setting& s : list)
    s.may_be_empty = s.key == "text" || s.key == "lines" || s.key == "answer-after";
  return list;
}

namespace {

// Options of the model that do not fit each other.
void check_model(const RunConfig& c) {
  check<ValueError>(c.d_head > 0 || c.d_model % c.heads == 0, "d-model", c.d_model,
                    " is not divisible by heads ", c.heads,
                    "; choose d-model as a multiple of heads, or give d-head");
  const std::int64_t d_head = c.d_head > 0 ? c.d_head : c.d_model / c.heads;
  check<ValueError>(c.positions != Positions::kRope || d_head % 2 == 0, "positions",
                    "rope needs an even ", c.d_head > 0 ? "d-head" : "d-model / heads", ", got ",
                    d_head);
  check<ValueError>(c.kv_heads == 0 || c.heads % c.kv_heads == 0, "kv-heads", c.kv_heads,
                    " does not divide heads ", c.heads, "; choose a divisor");
  check<ValueError>(
      c.form != AttentionForm::kPackedHeads || c.kv_heads == 0 || c.kv_heads == c.heads, "kv-heads",
      "the form packed_heads stores q, k and v of each head together; choose another form");
  const bool packed = c.form == AttentionForm::kPackedQKV || c.form == AttentionForm::kPackedHeads;
  const bool q = c.q_bias.value_or(c.bias), k = c.k_bias.value_or(c.bias),
             v = c.v_bias.value_or(c.bias);
  check<ValueError>(!packed || (q == k && k == v), "form", enum_name(c.form),
                    " has biases of q, k and v all or none, got q-bias ", enum_name(q), ", k-bias ",
                    enum_name(k), ", v-bias ", enum_name(v), "; choose the form separate");
  check<ValueError>(c.mlp || (c.mlp_act == Activation::kGelu && c.mlp_ratio == 4),
                    c.mlp_act == Activation::kGelu ? "mlp-ratio" : "mlp-act",
                    "there is no MLP; add mlp");
  check<ValueError>(std::round(c.mlp_ratio * double(c.d_model)) >= 1, "mlp-ratio", c.mlp_ratio,
                    " times d-model ", c.d_model, " is no width; choose more");
  check<ValueError>(c.norm != NormPlacement::kNone || c.norm_kind == NormKind::kLayerNorm,
                    "norm-kind", enum_name(c.norm_kind),
                    " has no place with norm none; choose norm pre or post");
  check<ValueError>(c.init != Init::kMuP || !c.tied, "init",
                    "mup draws the output layer smaller than the embedding that tied makes it; "
                    "leave out tied");
}

}  // namespace

void validate(const RunConfig& c) {
  RunConfig copy = completed(c);
  for (const Setting& s : own_settings(copy))
    if (const std::string problem = s.problem(s.key, s.get()); !problem.empty())
      throw ValueError(problem);
  check_model(c);
  check<ValueError>(c.batch % c.accumulate == 0 && (c.accumulate & (c.accumulate - 1)) == 0,
                    "accumulate", "needs a power of two that divides batch ", c.batch, ", got ",
                    c.accumulate);
  check<ValueError>(
      c.eval_every > 0 || (c.patience == 0 && c.target_loss == 0 && c.target_accuracy == 0),
      c.patience > 0      ? "patience"
      : c.target_loss > 0 ? "target-loss"
                          : "target-accuracy",
      "is looked at after each evaluation; give eval-every above 0");
  check<ValueError>(c.min_lr <= c.lr, "min-lr", "needs 0 to lr = ", c.lr, ", got ", c.min_lr);
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
    check<ValueError>(item.section == "train", item.where, "'", item.key, "' in [", item.section,
                      "] is not a key of [train]");
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
          .context = c.context,
          .ngrams = 5,
          .lines = lines,
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
