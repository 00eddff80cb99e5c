// `heed info`: describes a run or a safetensors file, or lists the runs in a directory.
#include <algorithm>
#include <ctime>

#include "nn/io/safetensors.h"
#include "nn/io/toml.h"
#include "nn/run/run_folder.h"
#include "nn/run/snapshot_file.h"
#include "nn/train/cost/model_cost.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/model_report.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

constexpr Column kOfRun[] = {{"run"},        {"task"},
                             {"dtype"},      {"weights", "weights"},
                             {"config"},     {"saved_step"},
                             {"result"},     {"last_evaluation"},
                             {"vocabulary"}, {"ids", "ids of the prompt"}};
constexpr Column kActivations[] = {
    {"activation_bytes_per_sequence", "activations", "per sequence", "bytes"}};
constexpr auto kRunKeys = joined(kOfRun, kModelKeys, kActivations);

// Returns the settings of config.toml as an object. Its keys have _ in place of -.
Value config_value(const nn::RunConfig& config) {
  Value object = Value::object();
  for (const nn::TomlItem& item : nn::read_toml(nn::to_toml(config), nn::RunFolder::kConfig)) {
    if (item.key.empty()) continue;
    std::string key = item.key;
    std::replace(key.begin(), key.end(), '-', '_');
    const std::string& text = item.values[0];
    object.append(key, item.types[0] == nn::TomlItem::Type::kText ? text : Value::parse(text));
  }
  return object;
}

// If `prompt` is not null, the report has its tokens.
Report info_on_run(const fs::path& folder, const std::string* prompt) {
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
  const nn::RunSummary summary = nn::RunFolder(folder).summary();
  const auto& last = summary.last_evaluation;
  if (summary.step)
    report.line("step {} of {}{}", *summary.step, c.steps,
                summary.result ? fmt::format(", loss {:.4f}", summary.result->loss)
                : last ? fmt::format(", eval_loss {:.4f} at step {}", last->eval_loss, last->step)
                       : "");
  add_model(report, run.model);
  report.set("activation_bytes_per_sequence", nn::activation_bytes(run.model));
  report.set("weights", nn::hash_of_tensors(parameters(run.model)));
  report.set("config", config_value(c));
  report.set("saved_step", summary.step);
  if (summary.result) report.set("result", Value::parse(nn::to_json(*summary.result)));
  if (summary.last_evaluation)
    report.set("last_evaluation", Value::parse(nn::evaluation_json(*summary.last_evaluation)));
  report.set("vocabulary", run.task->info().vocabulary.symbols());
  if (prompt) report.set("ids", run.task->prompt(*prompt).inputs.to_vector<std::int64_t>());
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

constexpr Column kRunListColumns[] = {{"run", "run"},
                                      {"task", "task"},
                                      {"step", "step"},
                                      {"steps", "of"},
                                      {"loss", "loss", "", "{:.4f}"},
                                      {"above_optimum", "above", "", "{:.4f}", 1},
                                      {"eval_loss", "eval_loss", "", "{:.4f}"},
                                      {"date", "saved"},
                                      {"problem"}};
constexpr Column kRunListKeys[] = {rows("runs", kRunListColumns)};

std::string date_text(fs::file_time_type time) {
  if (time == fs::file_time_type::min()) return "?";  // it is not known
  const std::time_t seconds =
      std::chrono::system_clock::to_time_t(std::chrono::file_clock::to_sys(time));
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local)};
}

// Returns a row of kRunListColumns. If the run cannot be read, the row contains the error.
std::vector<Value> run_list_row(const nn::RunFolder& run, const std::string& date) try {
  const nn::RunSummary s = run.summary();
  const auto above =
      s.result && s.result->optimal ? Value(s.result->loss - *s.result->optimal) : Value();
  return {run.text(),
          s.config.task,
          s.step,
          run.has_state() ? Value(s.config.steps) : Value(),
          s.result ? Value(s.result->loss) : Value(),
          above,
          s.last_evaluation ? Value(s.last_evaluation->eval_loss) : Value(),
          date,
          Value()};
} catch (const autograd::Error& e) {
  std::vector<Value> row(std::size(kRunListColumns));
  row.front() = run.text(), row.back() = e.what();
  return row;
}

Report info_on_runs(const std::string& folder) {
  std::vector<std::pair<fs::file_time_type, nn::RunFolder>> runs;  // with the time of the last save
  for (const nn::RunFolder& run : nn::RunFolder::list(folder)) {
    std::error_code ignored;
    const auto changed = fs::last_write_time(run.path(), ignored);
    runs.emplace_back(run.last_saved().value_or(changed), run);
  }
  if (runs.empty())
    heed::fail<autograd::IoError>("info", "'", folder,
                                  "' is not a run directory and contains no run");
  std::ranges::stable_sort(runs, {}, [](const auto& run) { return run.first; });
  Report report(kRunListKeys);
  Table& table = report.table("runs");
  for (const auto& [time, run] : runs) {
    table.add(run_list_row(run, date_text(time)));
    if (const Value& problem = table.rows.back().back(); problem != Value())
      table.note += fmt::format("{} cannot be read: {}\n", plot::visible_text(run.text()),
                                plot::visible_text(problem.text()));
  }
  return report;
}

}  // namespace

void info_command(Command& c) {
  c.name = "info";
  c.what = "describe a run (parameters, FLOP, memory) or a .safetensors file, or list runs";
  const nn::RunFolder example("runs/induction-1");
  c.examples = fmt::format("  heed info\n  heed info runs\n  heed info {}",
                           example.file(nn::RunFolder::kModel).string());
  c.notes =
      "In the list of a directory, the newest run is the last. loss is that of a finished run on "
      "the whole\nevaluation set, as in heed train and eval, and above is this loss minus the "
      "optimal loss. eval_loss is\nthat of the last evaluation during training.\n\n"
      "[JSON]\n"
      "config has the settings of the run, with _ in place of -. vocabulary has the symbol of "
      "each\ntoken, by id. ids has the tokens of --prompt, with those that the task adds.";
  auto run = std::make_shared<std::string>(), prompt = std::make_shared<std::string>();
  c.arguments = 1;
  c.add("Options", {nn::Setting("run", *run, "PATH", "run directory, directory of runs, or file")
                        .shows("the newest run under runs/"),
                    {"prompt", *prompt, "TEXT", "text whose tokens are printed"}});
  c.settings[1].may_be_empty = true;
  c.add_common(Command::kJson);
  c.modes = {{.key = "run",
              .when = [](const Command& command) { return autograd::is_file(command.text("run")); },
              .label = "of a file",
              .accepts = c.only({"run"}),
              .result = kFileKeys,
              .run = [run](const Command&) { return info_on_file(*run); }},
             {.key = "run",
              .when =
                  [](const Command& command) {
                    const std::string path = command.text("run");
                    std::error_code ignored;
                    return fs::is_directory(path, ignored) && !nn::RunFolder(path).is_run();
                  },
              .label = "of a directory of runs",
              .accepts = c.only({"run"}),
              .result = kRunListKeys,
              .run = [run](const Command&) { return info_on_runs(*run); }},
             {.result = kRunKeys, .run = [=](const Command& command) {
                return info_on_run(find_run(*run),
                                   command.given("prompt") ? prompt.get() : nullptr);
              }}};
}

}  // namespace heed
