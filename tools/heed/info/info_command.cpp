// `heed info`: describes a run or a safetensors file.
#include "nn/io/safetensors.h"
#include "nn/run/run_folder.h"
#include "nn/run/snapshot_file.h"
#include "nn/train/cost/model_cost.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/model_report.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {
namespace {

constexpr Column kOfRun[] = {{"run"},    {"task"},           {"dtype"}, {"weights", "weights"},
                             {"result"}, {"last_evaluation"}};
constexpr Column kActivations[] = {
    {"activation_bytes_per_sequence", "activations", "per sequence", "bytes"}};
constexpr auto kRunKeys = joined(kOfRun, kModelKeys, kActivations);

Report info_on_run(const std::filesystem::path& folder) {
  const nn::LoadedRun run = open_run(folder, nn::RunFolder::kState, nn::Use::kPrompts);
  const nn::RunConfig& c = run.config;
  Report report(kRunKeys);
  report.line("{}: {}, {}, d-model {}, context {}, {} -> {} tokens, {}", folder.string(),
              counted(c.model.layers, "layer"), counted(c.model.attention.heads, "head"),
              c.model.attention.d_model, c.model.context, run.model.options.vocab,
              run.task->info().classes, nn::enum_name(c.model.attention.dtype));
  report.set("run", folder.string());
  report.set("task", c.task);
  report.set("dtype", nn::enum_name(c.model.attention.dtype));
  add_model(report, run.model);
  report.set("activation_bytes_per_sequence", nn::activation_bytes(run.model));
  report.set("weights", nn::hash_of_tensors(parameters(run.model)));
  const nn::RunSummary summary = nn::RunFolder(folder).summary();
  if (summary.result) report.set("result", Value::parse(nn::to_json(*summary.result)));
  if (summary.last_evaluation)
    report.set("last_evaluation", Value::parse(nn::evaluation_json(*summary.last_evaluation)));
  return report;
}

constexpr Column kFileTensors[] = {{"name", "tensor"}, {"dtype", "dtype"}, {"shape", "shape"}};
constexpr Column kFileKeys[] = {
    {"file"}, {"checksum"}, {"numbers"}, rows("tensors", kFileTensors), {"metadata"}};
constexpr Column kMetadataColumns[] = {{"", "metadata"}, {"", "value"}};

nn::SafeTensors load_file(const std::string& path) {
  Progress progress(false);
  progress.at_work("Reading " + path);
  try {
    return nn::load_safetensors(path);
  } catch (const nn::NotSafetensors&) {
    if (path.ends_with(".safetensors")) throw;
    heed::fail<autograd::IoError>("info", "'", path, "' is not a run or a safetensors file");
  }
}

Report info_on_file(const std::string& path) {
  const nn::SafeTensors file = load_file(path);
  const std::string checksum = file.checksum.empty() ? "none" : "crc32c " + file.checksum;
  std::int64_t count = 0;
  for (const nn::NamedTensor& t : file.tensors) count += t.tensor.numel();
  Report report(kFileKeys);
  report.line("{}: {}, {}, checksum {}", path, counted(std::ssize(file.tensors), "tensor"),
              counted(count, "number"), checksum);
  report.set("file", path);
  report.set("checksum", file.checksum.empty() ? Value() : Value(checksum));
  report.set("numbers", count);
  Table& tensors = report.table("tensors");
  for (const nn::NamedTensor& t : file.tensors)
    tensors.add({t.name, autograd::dtype_name(t.tensor.dtype()), sizes_of(t.tensor.shape())});
  report.set("metadata", file.metadata);
  Table& metadata = report.text_table(kMetadataColumns);
  for (const auto& [key, value] : file.metadata) {
    constexpr std::size_t kShown = 60;  // characters; the state of a random generator has 7000
    metadata.add(
        {key, value.size() <= kShown
                  ? value
                  : fmt::format("{}... ({} characters)", value.substr(0, kShown), value.size())});
  }
  return report;
}

}  // namespace

void info_command(Command& c) {
  c.name = "info";
  c.what = "describe a run (parameters, FLOP, memory) or a .safetensors file";
  const nn::RunFolder example("runs/induction-1");
  c.examples =
      fmt::format("  heed info\n  heed info {}", example.file(nn::RunFolder::kModel).string());
  auto run = std::make_shared<std::string>();
  c.arguments = 1;
  c.add("Options", {nn::Setting("run", *run, "PATH", "run directory or file")
                        .shows("the newest run under runs/")});
  c.add_common(Command::kJson | Command::kCsv);
  c.modes = {
      {.key = "run",
       .when = [](const Command& command) { return autograd::is_file(command.text("run")); },
       .label = "of a file",
       .result = kFileKeys,
       .run = [run](const Command&) { return info_on_file(*run); }},
      {.result = kRunKeys, .run = [run](const Command&) { return info_on_run(find_run(*run)); }}};
}

}  // namespace heed
