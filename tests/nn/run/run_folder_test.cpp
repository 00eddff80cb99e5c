// Tests of RunFolder: saves are atomic, and files that contradict each other are rejected with an
// error that contains the file name.
#include <chrono>

#include "autograd/base/files.h"
#include "nn/io/json.h"
#include "nn/lab.h"
#include "nn/run/metrics_file.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/runs.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;
using namespace heed::testing;
namespace fs = std::filesystem;

RunConfig on_text(const fs::path& file, const std::string& text) {
  write_file(file.string(), text);
  RunConfig c = tiny_run();
  c.task = "text", c.text = file.string();
  return c;
}

std::vector<std::string> warnings_of(const fs::path& folder) {
  std::vector<std::string> warnings;
  RunFolder(folder).load("", &warnings);
  return warnings;
}

std::string some_text() {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "naïve line " + std::to_string(i) + "\n";
  return text;
}

// Changes one metadata entry of a safetensors file. The new file has a correct checksum.
void change_metadata(const fs::path& file, const std::string& key, const std::string& value) {
  SafeTensors content = load_safetensors(file.string());
  content.metadata.at(key) = value;
  save_safetensors(file.string(), content.tensors, content.metadata);
}

TEST_CASE("a save that fails does not change the old files") {
  Folder folder;
  Trainer t(tiny_run());
  t.step();
  RunFolder(folder.path()).save(t.snapshot());
  const std::string model = bytes_of(folder / "model.safetensors");
  const std::string state = bytes_of(folder / "state.safetensors");
  t.step();
  {
    const FullDisk full(4096);  // config.toml and metrics.csv still fit, weights do not
    CHECK_THROWS_AS(RunFolder(folder.path()).save(t.snapshot()), IoError);
  }
  CHECK(bytes_of(folder / "model.safetensors") == model);
  CHECK(bytes_of(folder / "state.safetensors") == state);
  CHECK(RunFolder(folder.path()).resume().steps_done == 1);
  for (const auto& entry : fs::directory_iterator(folder.path()))
    CHECK(entry.path().filename().string().find("tmp") == std::string::npos);
}

TEST_CASE("a run on a text needs the text for evaluation and resume, but not for prompts") {
  Folder folder;
  const fs::path file = folder / "text.txt";
  {
    Trainer t(on_text(file, some_text()));
    t.step();
    t.evaluate(false);
    RunFolder(folder.path()).save(t.snapshot());
  }
  const LoadedRun full = RunFolder(folder.path()).open("best.safetensors", Use::kSequences);
  CHECK(full.step == 1);
  CHECK(full.task->evaluation(0, 1).references.contains("4-gram"));

  std::string other = some_text();
  other[3] = 'a', other[4] = 'a';  // a different text of the same length
  write_file(file.string(), other);
  CHECK_THROWS_WITH(RunFolder(folder.path()).open("model.safetensors", Use::kSequences),
                    Contains(file.string()));
  CHECK_THROWS_AS(RunFolder(folder.path()).open("model.safetensors", Use::kSequences), IoError);
  CHECK_THROWS_WITH(RunFolder(folder.path()).resume(), Contains(file.string()));

  fs::remove(file);
  CHECK_THROWS_AS(RunFolder(folder.path()).open("model.safetensors", Use::kSequences), IoError);
  CHECK_THROWS_AS(RunFolder(folder.path()).resume(), IoError);
  const LoadedRun prompts = RunFolder(folder.path()).open("model.safetensors", Use::kPrompts);
  CHECK(prompts.task->info().vocabulary == full.task->info().vocabulary);
  CHECK(prompts.task->prompt("naïve").inputs.to_vector<std::int64_t>() ==
        full.task->prompt("naïve").inputs.to_vector<std::int64_t>());
  CHECK_THROWS_AS(prompts.task->evaluation(0, 1), ValueError);
}

TEST_CASE("a run is opened and resumed only with its held-out file") {
  Folder folder;
  const fs::path file = folder / "input.txt", val = folder / "val.txt";
  RunConfig config = on_text(file, some_text());
  config.val_text = val.string();
  write_file(val.string(), some_text().substr(0, 126));
  {
    Trainer t(config);
    t.step();
    t.evaluate(false);
    RunFolder(folder.path()).save(t.snapshot());
  }
  const RunFolder run(folder.path());
  CHECK(run.open("model.safetensors", Use::kSequences).task->info().data.contains("val_text_hash"));
  CHECK(run.resume().steps_done == 1);

  fs::rename(val, folder / "moved.txt");
  CHECK_THROWS_WITH(run.resume(), Contains("resume the run once with `text` or `val-text` set to"));
  CHECK(Trainer::from(run.load("", nullptr, (folder / "moved.txt").string())).steps_done == 1);
  CHECK_NOTHROW(run.open("model.safetensors", Use::kPrompts));

  write_file(val.string(), some_text().substr(14, 126));  // another text of the same length
  for (const auto& opens : std::vector<std::function<void()>>{
           [&] { run.resume(); }, [&] { run.open("model.safetensors", Use::kSequences); }})
    CHECK_THROWS_WITH(opens(), Contains("val.txt' is not the held-out text of this run"));

  // Without its held-out file, the run would be evaluated on a part of its training text.
  const std::string toml = bytes_of(folder / "config.toml");
  config.val_text.clear();
  write_file((folder / "config.toml").string(), to_toml(effective(config)));
  CHECK_THROWS_WITH(run.resume(), Contains("val-text"));
  CHECK_THROWS_WITH(run.open("model.safetensors", Use::kPrompts), Contains("val-text"));
  write_file((folder / "config.toml").string(), toml);

  Folder without;
  RunFolder(without.path()).save(Trainer(on_text(file, some_text())).snapshot());
  CHECK_THROWS_WITH(RunFolder(without.path()).load("", nullptr, val.string()),
                    Contains("has no held-out file"));
}

TEST_CASE("a state that is damaged is rejected, and one of another machine causes a warning") {
  Folder folder;
  RunFolder(folder.path()).save(Trainer(tiny_run()).snapshot());
  const fs::path state = folder / "state.safetensors";
  change_metadata(state, "simd_target", "ABACUS");
  const std::vector<std::string> warnings = warnings_of(folder.path());
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Contains("ABACUS"));
  for (const char* key : {"data_stream", "dropout_stream", "step", "best_step"}) {
    const SafeTensors good = load_safetensors(state.string());
    change_metadata(state, key, "12x");
    CHECK_THROWS_AS(RunFolder(folder.path()).resume(), IoError);
    CHECK_THROWS_WITH(RunFolder(folder.path()).resume(), Contains(state.string()));
    save_safetensors(state.string(), good.tensors, good.metadata);
  }
}

// The files that this test changes are written with a correct checksum.
TEST_CASE("the parts of a state must be consistent") {
  Folder folder;
  Trainer t(tiny_run());
  run_to(t, 6, 3);
  RunFolder(folder.path()).save(t.snapshot());
  const fs::path path = folder / "state.safetensors";
  const SafeTensors good = load_safetensors(path.string());
  const auto refusal = [&](const SafeTensors& changed) {
    save_safetensors(path.string(), changed.tensors, changed.metadata);
    return message_of<IoError>([&] { RunFolder(folder.path()).resume(); });
  };
  const auto with = [&](const std::string& key, const std::string& value) {
    SafeTensors changed = good;
    changed.metadata.at(key) = value;
    return refusal(changed);
  };
  CHECK(refusal(good).empty());
  CHECK_THAT(with("step", "5"), Contains("the step is 5, but the history ends with step 6"));
  CHECK_THAT(with("step", "9223372036854775807"), Contains("the history ends with step 6"));
  CHECK_THAT(with("best_step", "4"), Contains("but the history does not contain it"));
  CHECK_THAT(with("best_loss", "1.5"), Contains("but the history does not contain it"));
  CHECK_THAT(with("best_loss", ""), Contains("unexpected \"best."));
  const auto with_tensor = [&](const std::string& name, const Tensor& x) {
    SafeTensors changed = good;
    for (NamedTensor& n : changed.tensors)
      if (n.name == name) n.tensor = x;
    return refusal(changed);
  };
  for (const std::int64_t updates : {std::int64_t(-1), std::int64_t(7), INT64_MAX})
    CHECK_THAT(with_tensor("optimizer.tok.weight.step", from_data(std::vector{updates}, {})),
               Contains("optimizer.tok.weight.step is"));
  Tensor moment = good.find("optimizer.tok.weight.exp_avg") * 1.0;
  moment.mutable_data<float>()[1] = INFINITY;
  CHECK_THAT(with_tensor("optimizer.tok.weight.exp_avg", moment),
             Contains("optimizer.tok.weight.exp_avg is inf at [0, 1]"));
  for (const double step : {std::nan(""), 1e300, -1.0, 2.0, 0.5}) {
    Tensor rows = good.find("history") * 1.0;
    *rows.mutable_data<double>() = step;
    CHECK_THAT(with_tensor("history", rows), Contains("of the history is of step"));
  }
  CHECK_THAT(with_tensor("history", zeros({6, 11}, float64)),
             Contains("has no 'history' [rows, 10]"));
}

TEST_CASE("a history with missing columns is read; their values are NaN") {
  const Folder folder;
  Trainer t(tiny_run());
  run_to(t, 6, 3);
  RunFolder(folder.path()).save(t.snapshot());
  const std::string path = (folder / "state.safetensors").string();
  SafeTensors state = load_safetensors(path);
  // Removes the last column, clipped_norm.
  for (NamedTensor& n : state.tensors)
    if (n.name == "history") n.tensor = contiguous(slice(n.tensor, 1, 0, 7));
  save_safetensors(path, state.tensors, state.metadata);
  const Trainer resumed = RunFolder(folder.path()).resume();
  CHECK(resumed.history()[2].grad_norm == t.history()[2].grad_norm);
  CHECK(resumed.history()[2].eval_loss == t.history()[2].eval_loss);
  CHECK(std::isnan(resumed.history()[2].clipped_norm));
}

TEST_CASE("recipes are compared by value, not by text") {
  const Folder folder;
  RunConfig c = tiny_run();
  c.lr = 0.004;
  Trainer t(c);
  run_to(t, 3, 0);
  const RunFolder run(folder.path());
  run.save(t.snapshot());
  run.save_checkpoint(t.snapshot());
  const auto spelled = [](std::string text, const std::string& lr) {
    const std::size_t at = text.find("\nlr = ") + 1;
    return text.replace(at, text.find('\n', at) - at, "lr = " + lr);
  };
  for (const char* lr : {"0.004", "0.0040000000000000001", "4e-3"}) {
    INFO(lr);
    for (const fs::path& file :
         {run.file(RunFolder::kState), run.file(RunFolder::kModel), run.checkpoints()[0].file}) {
      SafeTensors content = load_safetensors(file.string());
      content.metadata.at("recipe") = spelled(content.metadata.at("recipe"), lr);
      save_safetensors(file.string(), content.tensors, content.metadata);
    }
    CHECK(run.resume().steps_done == 3);
    CHECK(run.open(RunFolder::kModel, Use::kSequences).step == 3);
    write_file(run.file(RunFolder::kConfig).string(),
               std::string_view(spelled(to_toml(t.config()), "0.00400")));
    CHECK(run.resume().steps_done == 3);
  }
  write_file(run.file(RunFolder::kConfig).string(),
             std::string_view(spelled(to_toml(t.config()), "0.0041")));
  CHECK_THROWS_WITH(run.resume(),
                    Contains("contains 'lr = 0.004") && Contains("trained with 'lr = "));
}

TEST_CASE("states of runs, and the run that was saved last") {
  using State = RunFolder::State;
  const Folder folder;
  const fs::path runs = folder / "runs";
  CHECK(!RunFolder::newest(runs));
  const auto opened = RunFolder::make_next("copy", runs), next = RunFolder::make_next("copy", runs);
  const RunFolder first(opened->folder()), second(next->folder());
  CHECK(second.path() == runs / "copy-2");
  CHECK(first.state() == State::kNew);
  const Trainer t(tiny_run());
  first.save_config(t.config(), {});
  CHECK(first.state() == State::kUnsaved);
  CHECK(!RunFolder::newest(runs));
  CHECK(RunFolder::list(runs).size() == 1);
  first.save(t.snapshot());
  CHECK((first.state() == State::kSaved && first.saved_step() == 0 && !first.finished_step()));
  second.save(t.snapshot());
  fs::last_write_time(first.file(RunFolder::kConfig),
                      *second.last_saved() + std::chrono::seconds(5));
  CHECK(RunFolder::newest(runs)->path() == first.path());
  second.finish(t.snapshot(), {});
  CHECK((second.state() == State::kFinished && second.finished_step() == 0));
  CHECK(RunFolder(folder.path()).state() == State::kNew);
}

// Changes one bit in the middle of a file.
void flip_bit(const fs::path& file) {
  std::string bytes = bytes_of(file);
  bytes[bytes.size() / 2] ^= 4;
  write_file(file.string(), std::string_view(bytes));
}

TEST_CASE("a finished run with damaged weights is saved but not finished") {
  using State = RunFolder::State;
  const Folder folder;
  const RunFolder run(folder.path());
  Trainer t(tiny_run());
  run_to(t, 3, 0);
  run.save(t.snapshot());
  run.finish(t.snapshot(), {});
  CHECK(run.state() == State::kFinished);
  const fs::path model = run.file(RunFolder::kModel);
  const std::string whole = bytes_of(model);
  CHECK(load_metadata(model.string()).at("finished") ==
        hash_of_tensors(load_safetensors(model.string()).tensors));

  change_metadata(model, "finished", "yes");  // the mark of older versions
  CHECK(run.state() == State::kFinished);
  CHECK(message_of<IoError>([&] { run.verify(RunFolder::kModel); }).empty());

  write_file(model.string(), std::string_view(whole));
  flip_bit(model);
  CHECK(run.state() == State::kSaved);
  CHECK_THROWS_WITH(run.verify(RunFolder::kModel), Contains("the file is damaged"));
  CHECK(run.finished_step() == 3);  // reads only the mark
  write_file(model.string(), std::string_view(whole).substr(0, 20));
  CHECK(run.state() == State::kSaved);

  // Other weights, in a file with a correct checksum.
  write_file(model.string(), std::string_view(whole));
  change_metadata(model, "finished", "crc32c 00000000");
  CHECK(run.state() == State::kSaved);
  CHECK_THROWS_WITH(run.verify(RunFolder::kModel),
                    Contains("but that of the finished run is crc32c 00000000"));

  const Trainer resumed = run.resume();
  run.finish(resumed.snapshot(), {});
  CHECK(bytes_of(model) == whole);
}

TEST_CASE("a result with a number out of range is damaged") {
  const RunResult good{.steps = 3,
                       .loss = 1,
                       .optimal = 0,
                       .accuracy = 1,
                       .standard_error = 0.5,
                       .sequences = 2,
                       .targets = 4,
                       .evaluation_set = 2,
                       .seconds = 1};
  CHECK(parse_run_result(to_json(good)).loss == 1);
  for (const char* key : {"loss", "optimal_loss", "accuracy", "standard_error", "seconds"})
    for (const char* value : {"-1", "1e999", "-1e-300", "\"1\"", "[1]"}) {
      INFO(key << " " << value);
      std::string text = to_json(good);
      const std::size_t at = text.find(':', text.find(key)) + 1;
      text.replace(at, text.find(',', at) - at, value);
      CHECK_THROWS_AS(parse_run_result(text), JsonError);
    }
  RunResult bad = good;
  bad.accuracy = 1.5;
  CHECK_THROWS_AS(parse_run_result(to_json(bad)), JsonError);
}

TEST_CASE("the result of a run is that of its finished weights, to the bit") {
  const Folder folder;
  const RunFolder run(folder.path());
  Trainer t(tiny_run());
  run_to(t, 3, 0);
  run.save(t.snapshot());
  CHECK(!run.result());
  RunResult result = run_result(evaluate(t.model, *t.task), *t.task, 3);
  result.seconds = 1. / 3;
  run.finish(t.snapshot(), result);
  const RunResult read = run.result().value();
  CHECK(read.loss == result.loss);
  CHECK(read.optimal == result.optimal);
  CHECK(read.accuracy == result.accuracy);
  CHECK(read.standard_error == result.standard_error);
  CHECK((read.steps == 3 && read.sequences == t.task->evaluation_size()));
  CHECK(read.targets == result.targets);
  CHECK(read.evaluation_set == t.task->evaluation_size());
  CHECK(read.weights_checksum == hash_of_tensors(t.snapshot().part("model.")));
  CHECK(run.seconds() == 1. / 3);

  RunResult other = read;
  other.steps = 2;
  run.save_result(other);
  CHECK((!run.result() && !run.seconds()));
  other = read;
  other.weights_checksum = "crc32c 00000000";
  const fs::path model = run.file(RunFolder::kModel);
  const std::string whole = bytes_of(model);
  for (const char* mark : {"", "yes"}) {  // "yes" is the mark of older versions
    if (*mark) change_metadata(model, "finished", mark);
    run.save_result(read);
    CHECK(run.result());
    run.save_result(other);
    CHECK(!run.result());
    run.save_result(
        result);  // without a checksum, like the files of older versions of `heed sweep`
    CHECK((!run.result() && run.seconds() == 1. / 3));
  }
  write_file(model.string(), std::string_view(whole));
  for (const std::string text : {"", "{", "[]", "{}", R"({"steps":"3"})"}) {
    write_file(run.file(RunFolder::kResult).string(), std::string_view(text));
    CHECK((!run.result() && !run.seconds()));
  }
  fs::remove(run.file(RunFolder::kResult));
  CHECK((!run.result() && !run.seconds()));
  run.save_result(read);
  CHECK(run.result());
  run.save(t.snapshot());  // a resume removes the mark of the finished run
  CHECK((!run.result() && !run.seconds()));
}

TEST_CASE("only a run that is not finished may have an incomplete line, or later steps") {
  const Folder folder;
  const RunFolder run(folder.path());
  Trainer t(tiny_run());
  run_to(t, 3, 0);
  run.save(t.snapshot());
  const std::string csv = bytes_of(run.file(RunFolder::kMetrics));
  const auto damage = [&](const std::string& text) {
    write_file(run.file(RunFolder::kMetrics).string(), text);
    std::string error = message_of<IoError>([&] { run.metrics(); });
    const std::string path = run.file(RunFolder::kMetrics).string() + ": damaged, ";
    return error.starts_with(path) ? error.substr(path.size()) : error;
  };
  const std::string later = csv + "4,2,,,,,,,,\n";
  for (const std::string& text : {csv, later, csv + "4,2", later + "5"}) CHECK(damage(text) == "");
  run.finish(t.snapshot(), {});
  CHECK(damage(csv) == "");
  const std::string finished = "the run finished at step 3, but the last complete line is of step ";
  CHECK(damage(later) == "line 5: " + finished + "4");
  CHECK(damage(csv + "4,2") == "line 5: " + finished + "3");
  CHECK(damage(csv.substr(0, csv.size() - 3)) == "line 4: " + finished + "2");
  CHECK(damage(csv.substr(0, csv.rfind("\n3,") + 1)) == "line 3: " + finished + "2");
}

TEST_CASE("every file of a run is verified") {
  using Proof = RunFolder::Proof;
  const Folder folder;
  const RunFolder run(folder.path());
  Trainer t(tiny_run());
  run_to(t, 6, 3);
  run.save(t.snapshot());
  run.save_checkpoint(t.snapshot());
  run.finish(t.snapshot(), {});
  write_file(run.file(RunFolder::kAudit).string(), std::string_view("audit\n"));
  const auto damage = [&](const std::string& name) {
    return message_of<Error>([&] { run.verify(name); });
  };
  const std::string checkpoint = "checkpoints/000006.safetensors";
  for (const std::string name :
       {RunFolder::kModel, RunFolder::kBest, RunFolder::kState, checkpoint.c_str()}) {
    INFO(name);
    CHECK(run.verify(name) == Proof::kChecksum);
    const std::string whole = bytes_of(run.file(name));
    flip_bit(run.file(name));
    CHECK_THAT(damage(name), Contains("the file is damaged"));
    write_file(run.file(name).string(), std::string_view(whole));
  }
  CHECK(run.verify(RunFolder::kConfig) == Proof::kState);
  CHECK(run.verify(RunFolder::kMetrics) == Proof::kState);
  CHECK(run.verify(RunFolder::kAudit) == Proof::kNone);
  CHECK(run.verify(RunFolder::kResult) == Proof::kNone);
  for (const char* text : {"{", "[]", "{}", R"({"steps":"6"})"}) {
    write_file(run.file(RunFolder::kResult).string(), std::string_view(text));
    CHECK_THAT(damage(RunFolder::kResult), Contains("result.json: damaged: "));
  }
  CHECK_THAT(damage(RunFolder::kLossPicture), Contains("No such file"));

  RunConfig other = t.config();
  other.lr *= 2;
  run.save_config(other, {});
  CHECK_THAT(damage(RunFolder::kConfig), Contains("config.toml: contains 'lr = "));
  std::vector<MetricsRow> rows = run.metrics();
  rows[1].loss = std::nextafter(rows[1].loss, 0);
  write_file(run.file(RunFolder::kMetrics).string(), std::string_view(metrics_csv(rows)));
  CHECK_THAT(damage(RunFolder::kMetrics),
             Contains("damaged, line 3: its loss is not that of state.safetensors"));
  rows = t.history();
  rows[1].loss = MetricsRow::kNone;
  write_file(run.file(RunFolder::kMetrics).string(), std::string_view(metrics_csv(rows)));
  CHECK_THAT(damage(RunFolder::kMetrics), Contains("line 3: its loss is not that of"));
  // A run that is not finished may lack the row of its last save, but no other row. A model file
  // whose header is damaged is not an error of metrics.csv.
  write_file(run.file(RunFolder::kModel).string(), std::string_view("damaged"));
  rows = t.history();
  for (const char* error : {"", "", "line 6: state.safetensors has 6 rows, but this file has 4"}) {
    write_file(run.file(RunFolder::kMetrics).string(), std::string_view(metrics_csv(rows)));
    CHECK_THAT(damage(RunFolder::kMetrics), Contains(error));
    CHECK(damage(RunFolder::kMetrics).empty() == std::string_view(error).empty());
    rows.pop_back();
  }
  run.save_results(t.snapshot());
  flip_bit(run.file(RunFolder::kState));  // without the state, the two files cannot be compared
  CHECK(run.verify(RunFolder::kConfig) == Proof::kFormat);
  CHECK(run.verify(RunFolder::kMetrics) == Proof::kFormat);
}

TEST_CASE("a config.toml that differs from the training configuration is rejected") {
  const Folder folder;
  Trainer t(tiny_run());
  run_to(t, 3, 0);
  RunFolder(folder.path()).save(t.snapshot());
  RunConfig other = t.config();
  other.steps = 20, other.eval_every = 1;  // these two may change, but the schedule may not
  write_file((folder / "config.toml").string(), std::string_view(to_toml(other)));
  CHECK_THROWS_WITH(RunFolder(folder.path()).resume(),
                    Contains("trained with 'schedule-steps = 12'"));
  other.schedule_steps = 12;
  write_file((folder / "config.toml").string(), std::string_view(to_toml(other)));
  CHECK(RunFolder(folder.path()).resume().steps_done == 3);
  other.lr *= 2;
  write_file((folder / "config.toml").string(), std::string_view(to_toml(other)));
  CHECK_THROWS_AS(RunFolder(folder.path()).resume(), IoError);
  CHECK_THROWS_AS(RunFolder(folder.path()).open("model.safetensors", Use::kSequences), IoError);
  // A value that is missing in config.toml is an error. The default is not used instead.
  const std::string whole = to_toml(t.config());
  for (const std::size_t length : {whole.size() / 2, std::size_t(0)}) {
    write_file((folder / "config.toml").string(), std::string_view(whole).substr(0, length));
    CHECK_THROWS_AS(RunFolder(folder.path()).open("model.safetensors", Use::kSequences), IoError);
  }
}

}  // namespace
