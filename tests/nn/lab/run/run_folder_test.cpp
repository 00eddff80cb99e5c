// Tests of RunFolder: saves are atomic, the state decides, and a damaged state is rejected with an
// error that contains the file name. run_copies_test.cpp tests the files beside the state.
#include <chrono>
#include <fstream>

#include "autograd/base/files.h"
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/runs.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;
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
  CHECK(full.task->evaluation(0, 1).references.contains("2-gram"));

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
  fs::remove(folder / "state.safetensors");  // a run of weights cannot be resumed
  CHECK_THROWS_WITH(RunFolder(folder.path()).open("model.safetensors", Use::kSequences),
                    Contains("move it back") && !Contains("resume"));
}

TEST_CASE("a state of another machine causes a warning") {
  Folder folder;
  RunFolder(folder.path()).save(Trainer(tiny_run()).snapshot());
  const fs::path state = folder / "state.safetensors";
  change_metadata(state, "simd_target", "ABACUS");
  const std::vector<std::string> warnings = warnings_of(folder.path());
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Contains("ABACUS"));
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
  for (const char* key : {"data_stream", "dropout_stream", "step", "best_step"})
    CHECK_THAT(with(key, "12x"), Contains(path.string()));
  CHECK_THAT(with("step", "5"), Contains("the step is 5, but the history ends with step 6"));
  CHECK_THAT(with("step", "9223372036854775807"), Contains("the history ends with step 6"));
  CHECK_THAT(with("best_step", "4"), Contains("but the history does not contain it"));
  CHECK_THAT(with("best_loss", "1.5"), Contains("but the history does not contain it"));
  CHECK_THAT(with("best_loss", ""), Contains("unexpected \"best."));
  CHECK_THAT(with("config", spelled(to_toml(t.config()), "0.5")),
             Contains("was trained with 'lr =") && !Contains("restore the line"));
  // The file is said to be changed only if its checksum is wrong.
  CHECK_THAT(with("config", spelled(to_toml(t.config()), "-1")), !Contains("changed"));
  std::string bytes = bytes_of(path);
  bytes[bytes.find("\\nlr = -1") + 7] = 'x';
  write_file(path.string(), std::string_view(bytes));
  CHECK_THROWS_WITH(RunFolder(folder.path()).config(), Contains("its checksum is"));
  const std::string last = good.metadata.at("last_evaluation");
  for (const char* step : {"-1", "18446744073709551615"}) {
    with("last_evaluation", std::string("{\"step\":") + step + last.substr(last.find(',')));
    CHECK_THROWS_AS(RunFolder(folder.path()).summary(), IoError);
    CHECK_THAT(with("step", step), Contains("needs a whole number of at least 0"));
    CHECK_THROWS_AS(RunFolder(folder.path()).summary(), IoError);
  }
  const auto with_tensor = [&](const std::string& name, const Tensor& x) {
    SafeTensors changed = good;
    for (NamedTensor& n : changed.tensors)
      if (n.name == name) n.tensor = x;
    return refusal(changed);
  };
  for (const Index updates : {Index(-1), Index(7), INT64_MAX})
    CHECK_THAT(with_tensor("optimizer.tok.weight.step", from_data(std::vector{updates}, {})),
               Contains("optimizer.tok.weight.step is"));
  Tensor moment = good.find("optimizer.tok.weight.exp_avg") * 1.0;
  moment.mutable_data<float>()[1] = INFINITY;
  CHECK_THAT(with_tensor("optimizer.tok.weight.exp_avg", moment),
             Contains("optimizer.tok.weight.exp_avg is inf at [0, 1]"));
  CHECK_THROWS_WITH(RunFolder(folder.path()).load(), Contains("is inf at [0, 1]"));
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

TEST_CASE("weights that replace a run remove its state last, so no file of it seems to be theirs") {
  const Folder folder;
  const RunFolder run(folder.path());
  Trainer t(tiny_run());
  t.step();
  run.save(t.snapshot());
  for (const char* name : {RunFolder::kBest, "checkpoints/000001.safetensors"}) {
    fs::remove(run.file(name));
    fs::create_directories(run.file(name) / "inside");  // cannot be removed
    CHECK_THROWS_WITH(run.save_as_weights(t.snapshot()), Contains("cannot remove"));
    CHECK(run.has_state());
    fs::remove_all(run.file(name));
  }
  run.save_as_weights(t.snapshot());
  CHECK((run.is_run() && !run.has_state()));
}

TEST_CASE("a run of weights can be used, and its recipe is compared by value, not by text") {
  const Folder folder;
  RunConfig c = tiny_run();
  c.lr = 0.004;
  Trainer t(c);
  run_to(t, 3, 0);
  const RunFolder run(folder.path());
  run.save(t.snapshot());
  fs::remove(run.file(RunFolder::kState));
  CHECK((run.is_run() && !run.has_state()));
  const LoadedRun opened = run.open(RunFolder::kState, Use::kSequences);
  CHECK((opened.weights == RunFolder::kModel && opened.step == 3 && opened.note.empty()));
  CHECK((run.summary().step == 3 && !run.summary().finished && !run.summary().last_evaluation));
  CHECK_THROWS_WITH(run.load(), Contains("holds only weights, without a history or a state"));
  const fs::path model = run.file(RunFolder::kModel);
  const auto write_config = [&](const std::string& lr) {
    write_file(run.file(RunFolder::kConfig).string(), spelled(to_toml(t.config()), lr));
  };
  for (const char* lr : {"0.004", "0.0040000000000000001", "4e-3"}) {
    INFO(lr);
    write_config(lr);
    CHECK(run.open(RunFolder::kModel, Use::kSequences).step == 3);
    change_metadata(model, "recipe", spelled(recipe_text(t.config()), lr));
    CHECK(run.open(RunFolder::kModel, Use::kSequences).step == 3);
  }
  write_config("0.0041");
  CHECK_THROWS_WITH(
      run.open(RunFolder::kModel, Use::kSequences),
      Contains("config.toml: contains 'lr = 0.0041'") && Contains("was trained with 'lr = 0.004'"));
  // The key decides, not the spelling of its line.
  const std::string toml = to_toml(t.config()), line = "task = \"" + t.config().task + "\"";
  for (const bool has_task : {true, false}) {
    std::string changed = toml;
    changed.replace(changed.find(line), line.size(),
                    (has_task ? "task=\"" : "# task = \"") + t.config().task + "\"");
    write_file(run.file(RunFolder::kConfig).string(), std::string_view(changed));
    CHECK((message_of<IoError>([&] { run.config(); }) == "") == has_task);
  }
  // A value that is missing in config.toml is an error. The default is not used instead.
  const std::string whole = to_toml(t.config());
  for (const std::size_t length : {whole.size() / 2, std::size_t(0)}) {
    write_file(run.file(RunFolder::kConfig).string(), std::string_view(whole).substr(0, length));
    CHECK_THROWS_AS(run.open(RunFolder::kModel, Use::kSequences), IoError);
  }
}

TEST_CASE("states of runs, and the run that was saved last") {
  const Folder folder;
  const fs::path runs = folder / "runs";
  CHECK(!RunFolder::newest(runs));
  const auto opened = RunFolder::make_next("copy", runs), next = RunFolder::make_next("copy", runs);
  const RunFolder first(opened.path()), second(next.path());
  CHECK(second.path() == runs / "copy-2");
  CHECK_FALSE(first.is_run());
  CHECK((!RunFolder::newest(runs) && RunFolder::list(runs).empty()));
  const Trainer t(tiny_run());
  first.save(t.snapshot());
  CHECK(RunFolder::list(runs).size() == 1);
  CHECK((!first.summary().finished && first.summary().step == 0));
  second.save(t.snapshot());
  fs::last_write_time(first.file(RunFolder::kState),
                      *second.last_saved() + std::chrono::seconds(5));
  CHECK(RunFolder::newest(runs)->path() == first.path());
  Snapshot last = t.snapshot();
  last.finished = true;
  second.save(last);
  CHECK(second.summary().finished);
  CHECK_FALSE(RunFolder(folder.path()).is_run());
}

TEST_CASE("the header of a state of 12,000 steps stays small") {
  const Folder folder;
  Snapshot s = Trainer(tiny_run()).snapshot();
  for (Index step = 1; step <= 12'000; ++step)
    s.history.emplace_back(step).eval_loss = 1.0 / double(step);
  s.step = 12'000, s.best_loss = {}, s.best_step = 0;
  RunFolder(folder.path()).save(s);
  std::uint64_t header = 0;
  std::ifstream(folder / "state.safetensors").read(reinterpret_cast<char*>(&header), 8);
  CHECK(header < 50'000);
  CHECK(RunFolder(folder.path()).load().history.size() == 12'000);
}

}  // namespace
