#include "nn/lab/train/import_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "autograd/base/text.h"
#include "nn/lab/tasks/tasks.h"
#include "nn/lab/train/snapshot.h"
#include "nn/lab/train/trainer.h"
#include "nn/optim/first_non_finite.h"

namespace heed::lab {

using namespace autograd;

namespace {

constexpr const char* kGPT2Tokens =
    "its tokens are the 50257 byte pairs of GPT-2 (50304 with padding), which heed cannot read; "
    "train a model on characters, words or a task of heed";

bool is_gpt2_size(const Tensor& tok) { return tok.size(0) == 50257 || tok.size(0) == 50304; }

void check_norm_eps(const SafeTensors& file) {
  const double ours = LayerNorm::Options{}.eps;
  // Keys under which other programs store the epsilon of norms.
  for (const char* key :
       {"eps", "norm_eps", "rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon"})
    if (const auto eps = file.metadata.find(key); eps != file.metadata.end())
      check<ValueError>(parse_number<double>(eps->second) == ours, file.path,
                        "the norms of its model have ", key, " ", eps->second,
                        ", but those of heed have ", ours, "; train the model with ", ours);
}

// Removes what DistributedDataParallel and torch.compile write before all names.
void remove_wrappers(std::vector<NamedTensor>& tensors) {
  for (const std::string_view prefix : {"module.", "_orig_mod.", "module."})
    if (std::ranges::all_of(tensors, [&](const auto& t) { return t.name.starts_with(prefix); }))
      for (NamedTensor& t : tensors) t.name.erase(0, prefix.size());
}

// Returns the number of layers, from names such as "transformer.h.3.ln_1.weight" and
// "blocks.3.ln1.w".
Index count_layers(const SafeTensors& file) {
  Index layers = 0;
  for (const NamedTensor& t : file.tensors)
    for (const std::string& part : split(t.name, '.'))
      layers = std::max(layers, parse_number<std::int64_t>(part).value_or(-1) + 1);
  return layers;
}

// Returns the settings that the tensors of a file show, with their values as text.
std::vector<std::pair<const char*, std::string>> shown_settings(const SafeTensors& file,
                                                                WeightNames names) {
  const Index layers = count_layers(file);
  const std::string block = fmt::format("blocks.{}.", layers - 1);
  const auto find = [&](const std::string& name) { return find_named(file, name, names); };
  const auto has = [&](const std::string& name) { return find(block + name).defined(); };
  const Tensor tok = find("tok.weight"), pos = find("pos.weight"), head = find("head.weight"),
               up = find(block + "up.weight");
  const bool lens = names == WeightNames::kTransformerLens;
  const bool tied = !head.defined() || same_bits(head, lens ? mT(tok) : tok);
  const std::string bias = up.defined() ? "up.bias" : lens ? "attn.b_O" : "proj.bias";
  std::vector<std::pair<const char*, std::string>> shown = {
      {"layers", fmt::to_string(layers)},
      {"d-model", fmt::to_string(tok.size(1))},
      {"dtype", std::string(dtype_name(tok.dtype()))},
      {"mlp", fmt::to_string(up.defined())},
      {"bias", fmt::to_string(has(bias))},
      {"norm-bias", fmt::to_string(has("ln1.bias"))},
      {"tied", fmt::to_string(tied)}};
  const double width = double(tok.size(1));
  if (up.defined())
    shown.emplace_back("mlp-ratio", fmt::to_string(double(up.numel()) / width / width));
  // A HookedTransformer with ALiBi has pos_embed.W_pos, too.
  if (pos.defined() && !lens) shown.emplace_back("positions", enum_name(Positions::kLearned));
  if (!lens) shown.emplace_back("window", "0");  // layers of a HookedTransformer can have a window
  if (pos.defined()) shown.emplace_back("context", fmt::to_string(pos.size(0)));
  // GPT-2 and nanoGPT have no RMSNorm, and an RMSNorm has no bias.
  if (has("ln1.bias") || find_named(file, "tok.weight", WeightNames::kGPT2).defined())
    shown.emplace_back("norm-kind", enum_name(NormKind::kLayerNorm));
  return shown;
}

// Throws ValueError that lists what is not in `known` and has no default value.
void check_complete(const SafeTensors& file, const RunConfig& config, std::set<std::string> known,
                    bool has_gpt2_size) {
  if (!config.text.empty() || !config.lines.empty()) known.insert({"task", "text", "lines"});
  if (file.metadata.contains("vocabulary")) known.insert({"text", "lines"});
  check<ValueError>(known.contains("task") || !has_gpt2_size, file.path, kGPT2Tokens);
  std::vector<std::string> needed = {"task",      "heads",  "context",
                                     "positions", "window", "norm-kind"};
  if (config.model.mlp) needed.emplace_back("mlp-act");
  if (learns_file(config)) needed.push_back(config.task);
  std::erase_if(needed, [&](const std::string& key) { return known.contains(key); });
  check<ValueError>(needed.empty(), file.path, "the file does not show ", join(needed),
                    "; add them to the section [train] of a file for `config` (for characters, the "
                    "key text with a file that contains all of them), or name a run of an equal "
                    "model (`like`)");
}

}  // namespace

ImportedWeights import_weights(SafeTensors file, const std::vector<TomlItem>& given) {
  check_norm_eps(file);
  remove_wrappers(file.tensors);
  const WeightNames names = names_in(file);
  const Tensor tok = find_named(file, "tok.weight", names);
  RunConfig config;
  std::vector<TomlItem> items;
  for (const char* key : {"recipe", kConfigKey})  // kConfigKey has all values of the recipe
    if (const auto text = file.metadata.find(key); text != file.metadata.end())
      items = read_toml(text->second, file.path);
  items.insert(items.end(), given.begin(), given.end());
  apply_toml(items, config);
  std::set<std::string> known;
  for (const TomlItem& item : items) known.insert(item.key);
  const std::vector<Setting> settings = config.settings();
  for (const auto& [key, value] : shown_settings(file, names)) {
    const Setting& setting = *find_setting(settings, key);
    const bool is_size = setting.key == "layers" || setting.key == "d-model";
    if (known.insert(key).second) setting.set(file.path + ": its tensors show " + key, value);
    // Without this check, a damaged configuration could need a very large model.
    check<IoError>(!is_size || setting.get() == value, file.path, "its tensors show ", key, " ",
                   value, ", but the configuration has ", setting.get(),
                   "; correct the configuration, or restore the file");
  }
  check_complete(file, config, known, is_gpt2_size(tok));
  config = effective(config);
  const bool reads_file = learns_file(config) && !file.metadata.contains("vocabulary");
  auto task = reads_file ? make_task(config) : make_prompts(config, file.metadata);
  const Vocabulary& symbols = task->info().vocabulary;
  check<IoError>(symbols.size() == tok.size(0), file.path, "the token embedding has shape ",
                 tok.shape(), ", but the task ", config.task, " has ", symbols.size(),
                 " symbols: ", symbols.summary(), "; ",
                 is_gpt2_size(tok) ? kGPT2Tokens : "correct task or text of the configuration");
  const std::string path = file.path;
  Transformer model = with_weights(make_model(config, *task), std::move(file), names);
  const std::string bad = first_non_finite(parameters(model));
  check<IoError>(bad.empty(), path, bad, "; use other weights");
  return {names, std::move(config), std::move(task), std::move(model)};
}

}  // namespace heed::lab
