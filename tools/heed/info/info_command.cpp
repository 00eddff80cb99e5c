// heed info: what a run or a weights file is made of.
#include <sstream>

#include "nn/io/safetensors.h"
#include "nn/run/run_folder.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/model_report.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"
#include "tools/plot/png.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

template <class T>
std::string text_of(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

int info_on_run(const std::filesystem::path& folder, bool json) {
  nn::LoadedRun run = open_run(folder, nn::RunFolder::kModel, nn::Use::kPrompts);
  const ModelReport report = report_on(run.model);
  const std::string weights = nn::hash_of_tensors(parameters(run.model));
  if (json) {
    nn::Json object = nn::Json::object({{"run", folder.string()},
                                        {"task", run.config.task},
                                        {"dtype", nn::enum_name(run.config.dtype)},
                                        {"matmul", nn::enum_name(run.config.matmul)},
                                        {"weights", weights}});
    object.update(to_json(report));
    print_json(object);
    return kOk;
  }
  const nn::RunConfig& c = run.config;
  print(
      "{}: {} layers, {} heads, d-model {}, context {}, {} -> {} tokens, {}{}\n\n", folder.string(),
      c.layers, c.heads, c.d_model, c.context, run.model.options.vocab, run.task->facts().classes,
      nn::enum_name(c.dtype),
      c.matmul == autograd::Precision::kFloat32 ? "" : ", products of " + nn::enum_name(c.matmul));
  print_parameters(report);
  print("work      {} FLOP per token, forward and backward\n", si_text(report.flops_per_token));
  print(
      "memory    {} of weights; training: {} with gradients and moments, and {} of activations "
      "per sequence\n",
      bytes_text(report.parameter_bytes), bytes_text(report.training_bytes),
      bytes_text(report.activation_bytes));
  print("weights   {}\n", weights);
  return kOk;
}

int info_on_file(const std::string& path, bool json) {
  Progress progress(false);
  progress.at_work("reads " + path);
  const nn::SafeTensors file = nn::load_safetensors(path);
  progress.clear();
  const std::string checksum = file.checksum.empty() ? "none" : "crc32c " + file.checksum;
  std::int64_t count = 0;
  nn::Json list = nn::Json::array();
  for (const nn::NamedTensor& t : file.tensors) {
    count += t.tensor.numel();
    nn::Json shape = nn::Json::array();
    for (int i = 0; i < t.tensor.rank(); ++i) shape.push_back(t.tensor.size(i));
    list.push_back(nn::Json::object(
        {{"name", t.name}, {"dtype", text_of(t.tensor.dtype())}, {"shape", shape}}));
  }
  if (json) {
    print_json(
        nn::Json::object({{"file", path},
                          {"checksum", file.checksum.empty() ? nn::Json() : nn::Json(checksum)},
                          {"numbers", count},
                          {"tensors", list},
                          {"metadata", file.metadata}}));
    return kOk;
  }
  print("{}: {} tensors, {} numbers, checksum {}\n\n", path, file.tensors.size(),
        with_commas(count), checksum);
  for (const nn::NamedTensor& t : file.tensors)
    print("  {:<40} {:<9} {}\n", plot::visible_text(t.name), text_of(t.tensor.dtype()),
          text_of(t.tensor.shape()));
  if (!file.metadata.empty()) print("\nmetadata\n");
  for (const auto& [key, value] : file.metadata) {
    constexpr std::size_t kShown = 60;  // a generator's state has 7000 characters
    const std::string shown = plot::visible_text(value);
    print("  {:<40} {}\n", plot::visible_text(key),
          shown.size() <= kShown
              ? shown
              : fmt::format("{}... ({} characters)", shown.substr(0, kShown), value.size()));
  }
  return kOk;
}

int info_on_picture(const std::string& path, bool json) {
  const plot::PngInfo picture = plot::read_png_info(path);
  nn::Json texts = nn::Json::array();
  for (const plot::PngText& t : picture.texts)
    texts.push_back(nn::Json::object({{"keyword", t.keyword}, {"text", t.text}}));
  if (json) {
    print_json(nn::Json::object(
        {{"file", path}, {"width", picture.width}, {"height", picture.height}, {"texts", texts}}));
    return kOk;
  }
  print("{}: {} x {} pixels\n\n", path, picture.width, picture.height);
  for (const plot::PngText& t : picture.texts)
    print("{:<14} {}\n", plot::visible_text(t.keyword), plot::visible_text(t.text));
  return kOk;
}

// A picture by its name or its first bytes, so that a damaged one is called so.
bool is_picture(const std::string& path) { return path.ends_with(".png") || plot::is_png(path); }

}  // namespace

void info_command(Command& c) {
  c.name = "info";
  c.what = "parameters, work and memory of a run; tensors of a .safetensors file; texts of a PNG";
  c.json_keys[""] =
      "run task dtype matmul weights parameters flops_per_token parameter_bytes training_bytes "
      "activation_bytes_per_sequence tensors (name shape std) attention";
  c.json_keys["of a picture"] = "file width height texts (keyword text)";
  c.json_keys["of a file"] = "file checksum numbers tensors (name dtype shape) metadata";
  const nn::RunFolder example("runs/induction-1");
  c.examples = fmt::format("  heed info\n  heed info {}\n  heed info {}",
                           example.file(nn::RunFolder::kModel).string(),
                           example.file(nn::RunFolder::kAttentionPicture).string());
  auto run = std::make_shared<std::string>();
  c.arguments = 1;
  c.add("Options",
        {nn::Setting("run", *run, "PATH", "run folder or file").shows("the newest under runs/")});
  c.add_common(Command::kJson);
  c.run = [run](const Command& command) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(*run, ignored))
      return info_on_run(find_run(*run), command.json);
    return is_picture(*run) ? info_on_picture(*run, command.json)
                            : info_on_file(*run, command.json);
  };
}

}  // namespace heed
