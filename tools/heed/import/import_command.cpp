// `heed import`: makes a run of weights of another library.
#include <algorithm>

#include "autograd/base/text.h"
#include "nn/lab/run/run_folder.h"
#include "nn/lab/run/snapshot_file.h"
#include "nn/lab/train/import_weights.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

struct ImportArguments {
  std::string file, like, out;
  bool overwrite = false;
};

Out run_import(const ImportArguments& a, const std::string& config) {
  if (!a.file.ends_with(".safetensors"))
    usage_error(
        "file needs a name that ends in .safetensors, got '{}'; python -m heed.torch ckpt.pt "
        "ckpt.safetensors converts a checkpoint of nanoGPT",
        a.file);
  nn::SafeTensors file = nn::load_safetensors(a.file);
  const std::string note = lab::checksum_note(file);
  if (!a.like.empty()) {  // its configuration and symbols replace those in the metadata
    for (const auto& [key, value] : nn::load_metadata(find_weights(a.like)))
      file.metadata[key] = value;
    file.metadata[lab::kConfigKey] = lab::to_toml(lab::RunFolder(find_run(a.like)).config());
  }
  std::vector<lab::TomlItem> items;
  if (!config.empty()) items = lab::read_toml(lab::read_toml_text(config), config);
  std::erase_if(items, [](const lab::TomlItem& item) { return item.section != "train"; });
  const lab::ImportedWeights imported = lab::import_weights(std::move(file), items);
  lab::Snapshot snapshot{.config = imported.config, .data = imported.task->info().data};
  for (const nn::NamedTensor& t : parameters(imported.model))
    snapshot.tensors.push_back({"model." + t.name, t.tensor});
  const lab::LockedFolder folder = open_out(a.out, a.overwrite);
  lab::RunFolder(folder.path()).save_as_weights(snapshot);
  if (!note.empty()) print_error("note: " + note);
  Out out;
  out.set("run", a.out);
  out.set("names", nn::enum_name(imported.names));
  out.set("tensors", snapshot.tensors.size());
  out.set("task", imported.config.task);
  out.text("{}: {} with names and layouts of {}, for the task {}", a.out,
           counted(std::ssize(snapshot.tensors), "tensor"), nn::enum_name(imported.names),
           imported.config.task);
  return out;
}

constexpr const char* kImportNotes =
    R"(FILE has names that heed export describes. The new run has weights and no history: it cannot be resumed, but
train --from starts from it. A file of heed export needs no further options. For others, --config FILE or --like RUN
state what the tensors do not show: task, or text with a file that contains all characters of the vocabulary, heads,
mlp-act, and perhaps context, positions, window and norm-kind. `python -m heed.torch ckpt.pt gpt.safetensors` makes
FILE of a checkpoint of nanoGPT; for it, --config has

  [train]
  text = "input.txt"
  heads = 4
  mlp-act = "gelu"   # of nanoGPT; "gelu-tanh" of GPT-2

Models with the tokens of GPT-2, or with norms of another eps than 1e-5, are errors.)";

}  // namespace

void import_command(Command& c) {
  c.name = "import", c.what = "make a run of weights of another library";
  c.examples =
      "  heed train recall --positions learned --mlp --bias --tied --out runs/gpt\n"
      "  heed export runs/gpt --names nanogpt --out gpt.safetensors\n"
      "  heed import gpt.safetensors --out runs/imported";
  c.notes = kImportNotes;
  auto a = std::make_shared<ImportArguments>();
  c.arguments = 1;
  c.add("Options",
        {{"file", a->file, "FILE", "weights, such as gpt2.safetensors"},
         {"out", a->out, "DIR", "directory of the new run"},
         {"like", a->like, "RUN", "run with the configuration, and the symbols, of the model"},
         {"overwrite", a->overwrite, "replace the run in --out"}});
  c.add_common(Command::kJson | Command::kConfig);
  c.mark(&lab::Setting::required, {"file", "out"});
  c.modes = {{.keys = "run names tensors task",
              .run = [a](const Command& command) { return run_import(*a, command.config); }}};
}

}  // namespace heed
