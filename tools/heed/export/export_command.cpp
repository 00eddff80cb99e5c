// `heed export`: writes the weights of a run under the names and in the layouts of other libraries.
#include "autograd/base/error.h"
#include "nn/lab/run/run_folder.h"
#include "nn/lab/run/snapshot_file.h"
#include "nn/layers/weight_names.h"
#include "nn/optim/first_non_finite.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"

namespace heed {
namespace {

struct ExportArguments {
  std::string run, out, weights = lab::RunFolder::kState;
  nn::WeightNames names = nn::WeightNames::kTorch;
};

Out run_export(const ExportArguments& a) {
  const std::filesystem::path folder = find_run(a.run);
  check_weights_out("--out", a.out);
  lab::LoadedRun run = open_run(folder, a.weights, lab::Use::kPrompts);
  const auto weights = nn::weights_with_names(run.model, a.names);
  const std::string bad = nn::first_non_finite(weights);
  heed::check<autograd::NumericError>(bad.empty(), "export", bad, " in ", a.weights,
                                      "; export other weights (--weights)");
  auto metadata =
      lab::weights_metadata({.config = run.config, .data = run.task->info().data}, run.step);
  metadata[lab::kConfigKey] = lab::to_toml(run.config);
  nn::save_safetensors(a.out, weights, metadata);
  Index numbers = 0;
  for (const nn::NamedTensor& t : weights) numbers += t.tensor.numel();
  const std::string names = nn::enum_name(a.names);
  Out out;
  out.text("{}: {}, {}, with names and layouts of {}", folder.string(),
           counted(std::ssize(weights), "tensor"), counted(numbers, "number"), names);
  out.set("run", folder.string());
  out.set("names", names);
  out.set("tensors", weights.size());
  out.set("numbers", numbers);
  out.files({a.out});
  return out;
}

constexpr const char* kExportNotes =
    R"(torch: a state_dict of torch.nn.Embedding, LayerNorm or RMSNorm, Linear [out, in] and
MultiheadAttention, with heed's names of layers.

nanogpt: GPT of nanoGPT. gpt2: GPT2LMHeadModel of transformers, linear layers [in, out].

transformerlens: HookedTransformer. load_state_dict needs strict=False, because its masks are left out, and
so are biases that the run does not have, which are 0 there.

An option of the run that the other model does not have is an error that names it. nanogpt needs
--positions learned --mlp --tied, and biases in all layers or in none. gpt2 needs --positions learned
--mlp --mlp-act gelu-tanh --bias --norm-bias --tied. An existing FILE is replaced.

The metadata of FILE contain the configuration and the symbols of a text. So heed import and heed train --from
read it without other options.

The script export_parity.py in tools/peers loads the files with these libraries and compares logits.)";

}  // namespace

void export_command(Command& c) {
  c.name = "export", c.what = "write the weights of a run with the names of another library";
  c.examples =
      "  heed train recall --positions learned --mlp --mlp-act gelu-tanh --bias \\\n"
      "    --tied --out runs/gpt2\n"
      "  heed export runs/gpt2 --names gpt2 --out gpt2.safetensors";
  c.notes = kExportNotes;
  auto a = std::make_shared<ExportArguments>();
  c.arguments = 1;
  c.add("Options", {run_setting(a->run),
                    {"names", a->names, "names and layouts of the weights"},
                    {"out", a->out, "FILE", "file to write, such as gpt2.safetensors"},
                    {"weights", a->weights, "FILE", "weights file in the run directory"}});
  std::erase(c.settings[1].names, nn::enum_name(nn::WeightNames::kHeed));
  c.add_common(Command::kJson);
  c.mark(&lab::Setting::required, {"names", "out"});
  c.modes = {{.keys = "run names tensors numbers files",
              .run = [a](const Command&) { return run_export(*a); }}};
}

}  // namespace heed
