// `heed info`: describes a run or a safetensors file, or lists the runs in a directory.
#include <algorithm>
#include <cmath>
#include <ctime>

#include "nn/io/safetensors.h"
#include "nn/lab/run/run_folder.h"
#include "nn/lab/run/snapshot_file.h"
#include "nn/lab/settings/toml.h"
#include "nn/lab/train/cost/model_cost.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/out.h"
#include "tools/heed/report/progress.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

Value sizes_of(const autograd::Shape& shape) {
  Value sizes = Value::array();
  for (int i = 0; i < shape.rank(); ++i) sizes.push_back(shape[i]);
  return sizes;
}

// Returns the settings of config.toml as an object. Its keys have _ in place of -.
Value config_value(const lab::RunConfig& config) {
  Value object = Value::object();
  for (const lab::TomlItem& item : lab::read_toml(lab::to_toml(config), lab::RunFolder::kConfig)) {
    if (item.key.empty()) continue;
    std::string key = item.key;
    std::replace(key.begin(), key.end(), '-', '_');
    const std::string& text = item.values[0];
    object.append(key, item.types[0] == lab::TomlItem::Type::kText ? text : Value::parse(text));
  }
  return object;
}

// Sets the key "tensors" and adds the table of parameters.
void add_parameters(Out& out, const nn::Transformer& model) {
  const autograd::NoGrad guard;
  Value list = Value::array();
  std::vector<Cells> rows;
  for (const auto& [name, tensor] : nn::parameters(model)) {
    const auto variance = var(to(tensor, autograd::float64), {}, {.correction = 0});  // by n
    const double std = std::sqrt(variance.item());
    list.push_back(
        Value::object({{"name", name}, {"shape", sizes_of(tensor.shape())}, {"std", std}}));
    rows.push_back({name, autograd::to_text(tensor.shape()), with_commas(tensor.numel()),
                    number_text("{:.4g}", std)});
  }
  out.set("tensors", list);
  out.gap();
  out.table({"parameter", "shape", "numbers", "std"}, rows);
}

// If `prompt` is not null, the result has its tokens.
Out info_on_run(const fs::path& folder, const std::string* prompt) {
  const lab::LoadedRun run = open_run(folder, lab::RunFolder::kState, lab::Use::kPrompts);
  const lab::RunConfig& c = run.config;
  const lab::RunSummary summary = lab::RunFolder(folder).summary();
  const std::string weights = nn::hash_of_tensors(parameters(run.model)),
                    composite(run.model.blocks[0].attn.composite_reason()),
                    attention = composite.empty() ? "fused" : "composite because of " + composite;
  const Value ids =
      prompt ? Value(run.task->prompt(*prompt).inputs.to_vector<std::int64_t>()) : Value();
  const Index count = nn::count_parameters(run.model);
  const double bytes = double(count) * double(element_size(c.model.attention.dtype)),
               training = 4 * bytes,  // weights, gradients and the two moments of AdamW
      activations = lab::activation_bytes(run.model), flops = lab::flops_per_token(run.model);
  Out out;
  out.text("{}: {}, {}, d-model {}, context {}, {} -> {} tokens, {}", folder.string(),
           counted(c.model.layers, "layer"), counted(c.model.attention.heads, "head"),
           c.model.attention.d_model, c.model.context, run.model.options.vocab,
           run.task->info().classes, nn::enum_name(c.model.attention.dtype));
  const auto& last = summary.last_evaluation;
  if (summary.step)
    out.text("step {} of {}{}", *summary.step, c.steps,
             summary.result ? fmt::format(", loss {:.4f}", summary.result->loss)
             : last ? fmt::format(", eval_loss {:.4f} at step {}", last->eval_loss, last->step)
                    : "");
  out.set("run", folder.string());
  out.set("task", c.task);
  out.set("dtype", nn::enum_name(c.model.attention.dtype));
  out.set("weights", weights);
  out.set("config", config_value(c));
  out.set("saved_step", summary.step);
  if (!summary.note.empty()) print_error("note: " + summary.note);
  out.set("result", summary.result ? Value::parse(lab::to_json(*summary.result)) : Value());
  out.set("last_evaluation", last ? Value::parse(lab::evaluation_json(*last)) : Value());
  out.set("vocabulary", run.task->info().vocabulary.symbols());
  out.set("ids", ids);
  out.set("parameters", count);
  out.set("attention", attention);
  out.set("flops_per_token", flops);
  out.set("parameter_bytes", bytes);
  out.set("training_bytes", training);
  add_parameters(out, run.model);
  out.set("activation_bytes_per_sequence", activations);
  out.gap();
  std::vector<Cells> facts = {
      {"parameters", with_commas(count)},
      {"attention", attention},
      {"work", si_text(flops) + " FLOP per token, forward and backward"},
      {"memory", bytes_text(bytes) + " of weights"},
      {"training", bytes_text(training) + " of weights, gradients and moments"},
      {"activations", bytes_text(activations) + " per sequence"},
      {"weights", weights}};
  if (prompt) facts.push_back({"ids of the prompt", ids.dump()});
  out.table({"", ""}, facts);
  return out;
}

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

Out info_on_file(const std::string& path) {
  const nn::SafeTensors file = load_file(path);
  const std::string checksum = file.checksum.empty() ? "none" : "crc32c " + file.checksum;
  Index count = 0;
  for (const nn::NamedTensor& t : file.tensors) count += t.tensor.numel();
  Out out;
  out.text("{}: {}, {}, checksum {}", path, counted(std::ssize(file.tensors), "tensor"),
           counted(count, "number"), checksum);
  Value list = Value::array();
  std::vector<Cells> tensors, metadata;
  for (const nn::NamedTensor& t : file.tensors) {
    const std::string dtype(autograd::dtype_name(t.tensor.dtype()));
    list.push_back(
        Value::object({{"name", t.name}, {"dtype", dtype}, {"shape", sizes_of(t.tensor.shape())}}));
    tensors.push_back({t.name, dtype, autograd::to_text(t.tensor.shape())});
  }
  for (const auto& [key, value] : file.metadata) {
    constexpr std::size_t kShown = 60;  // characters; the state of a random generator has 7000
    metadata.push_back(
        {key, value.size() <= kShown
                  ? value
                  : fmt::format("{}... ({} characters)", value.substr(0, kShown), value.size())});
  }
  out.set("file", path);
  out.set("checksum", file.checksum.empty() ? Value() : Value(checksum));
  out.set("numbers", count);
  out.set("tensors", list);
  out.set("metadata", file.metadata);
  out.gap();
  out.table({"tensor", "dtype", "shape"}, tensors);
  if (metadata.empty()) return out;
  out.gap();
  out.table({"metadata", "value"}, metadata);
  return out;
}

std::string date_text(fs::file_time_type time) {
  if (time == fs::file_time_type::min()) return "?";  // it is not known
  const std::time_t seconds =
      std::chrono::system_clock::to_time_t(std::chrono::file_clock::to_sys(time));
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local)};
}

// Returns the entry of a run. If the run cannot be read, its problem is the error.
Value run_json(const lab::RunFolder& run, const std::string& date) {
  Value entry = Value::object({{"run", run.text()}});
  for (const char* key :
       {"task", "step", "steps", "loss", "above_optimum", "eval_loss", "date", "problem"})
    entry.append(key, nullptr);
  try {
    const lab::RunSummary s = run.summary();
    entry["task"] = s.config.task;
    entry["step"] = s.step;
    if (run.has_state()) entry["steps"] = s.config.steps;
    if (s.result) entry["loss"] = s.result->loss;
    if (s.result && s.result->optimal) entry["above_optimum"] = s.result->loss - *s.result->optimal;
    if (s.last_evaluation) entry["eval_loss"] = s.last_evaluation->eval_loss;
    entry["date"] = date;
    if (!s.note.empty()) entry["problem"] = s.note;
  } catch (const autograd::Error& e) {
    entry["problem"] = e.what();
  }
  return entry;
}

// Returns a value of run_json() as a cell.
std::string cell_of(const Value& value) {
  if (const auto* text = value.as<std::string>()) return *text;
  if (const double* number = value.as<double>()) return number_text("{:.4f}", *number);
  return value == nullptr ? "-" : value.dump();
}

Out info_on_runs(const std::string& folder) {
  std::vector<std::pair<fs::file_time_type, lab::RunFolder>>
      runs;  // with the time of the last save
  for (const lab::RunFolder& run : lab::RunFolder::list(folder)) {
    std::error_code ignored;
    const auto changed = fs::last_write_time(run.path(), ignored);
    runs.emplace_back(run.last_saved().value_or(changed), run);
  }
  if (runs.empty())
    heed::fail<autograd::IoError>("info", "'", folder,
                                  "' is not a run directory and contains no run");
  std::ranges::stable_sort(runs, {}, [](const auto& run) { return run.first; });
  Value list = Value::array();
  std::vector<Cells> rows;
  std::string problems;
  for (const auto& [time, run] : runs) {
    const Value entry = run_json(run, date_text(time));
    Cells& row = rows.emplace_back();
    for (const char* key : {"task", "step", "steps", "loss", "eval_loss", "date"})
      row.push_back(cell_of(*entry.find(key)));
    row.back() = row.back().substr(0, std::string_view("2000-01-01 00:00").size());
    row.push_back(run.text());
    if (const Value& problem = *entry.find("problem"); problem != nullptr)
      problems += fmt::format("{}{}: {}\n", plot::visible_text(run.text()),
                              *entry.find("task") == nullptr ? " cannot be read" : "",
                              plot::visible_text(problem.text()));
    list.push_back(entry);
  }
  Out out;
  out.set("runs", list);
  out.table({"task", "step", "of", "loss", "eval_loss", "saved", "run"}, rows);
  out.block(wrapped(problems));
  return out;
}

}  // namespace

void info_command(Command& c) {
  c.name = "info";
  c.what = "describe a run (parameters, FLOP, memory) or a .safetensors file, or list runs";
  const lab::RunFolder example("runs/induction-1");
  c.examples = fmt::format("  heed info\n  heed info runs\n  heed info {}",
                           example.file(lab::RunFolder::kModel).string());
  c.notes =
      "In the list of a directory, the newest run is the last. loss is that of a finished run on "
      "the whole\nevaluation set, as in heed train and eval. eval_loss is that of the last "
      "evaluation during training.\n\n"
      "[JSON]\n"
      "config has the settings of the run, with _ in place of -. vocabulary has the symbol of "
      "each\ntoken, by id. ids has the tokens of --prompt, with those that the task adds.";
  auto run = std::make_shared<std::string>(), prompt = std::make_shared<std::string>();
  c.arguments = 1;
  c.add("Options", {lab::Setting("run", *run, "PATH", "run directory, directory of runs, or file")
                        .shows("the newest run under runs/"),
                    {"prompt", *prompt, "TEXT", "text whose tokens are printed"}});
  c.settings[1].may_be_empty = true;
  c.add_common(Command::kJson);
  c.modes = {{.key = "run",
              .when = [](const Command& command) { return autograd::is_file(command.text("run")); },
              .label = "of a file",
              .accepts = c.only({"run"}),
              .keys = "file checksum numbers tensors (name dtype shape) metadata",
              .run = [run](const Command&) { return info_on_file(*run); }},
             {.key = "run",
              .when =
                  [](const Command& command) {
                    const std::string path = command.text("run");
                    std::error_code ignored;
                    return fs::is_directory(path, ignored) && !lab::RunFolder(path).is_run();
                  },
              .label = "of a directory of runs",
              .accepts = c.only({"run"}),
              .keys = "runs (run task step steps loss above_optimum eval_loss date problem)",
              .run = [run](const Command&) { return info_on_runs(*run); }},
             {.keys = "run task dtype weights config saved_step result (steps loss optimal_loss "
                      "accuracy standard_error eval_sequences eval_tokens evaluation_set seconds) "
                      "last_evaluation (step eval_loss eval_optimal eval_accuracy train_loss "
                      "train_accuracy) vocabulary ids parameters attention flops_per_token "
                      "parameter_bytes training_bytes tensors (name shape std) "
                      "activation_bytes_per_sequence",
              .run = [=](const Command& command) {
                return info_on_run(find_run(*run),
                                   command.given("prompt") ? prompt.get() : nullptr);
              }}};
}

}  // namespace heed
