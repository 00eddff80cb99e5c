// Tests of the files of a run beside its state: the result, copies of parts of the state, and files
// of earlier runs.
#include <set>

#include "nn/io/json.h"
#include "nn/lab.h"
#include "nn/lab/run/training_run.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/runs.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;
using namespace heed::testing;
namespace fs = std::filesystem;

// Changes one bit in the middle of a file.
void flip_bit(const fs::path& file) {
  std::string bytes = bytes_of(file);
  bytes[bytes.size() / 2] ^= 4;
  write_file(file.string(), std::string_view(bytes));
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

// Trains a run of 6 steps to its end and saves it.
Trainer finished_run(const RunFolder& run) {
  RunConfig c = tiny_run();
  c.steps = 6, c.eval_every = 3, c.save_every = 3;
  Trainer t(c);
  TrainingRun(t, LockedFolder(run.path())).run();
  return t;
}

TEST_CASE("the state of a finished run has its result, to the bit, and a resume drops it") {
  const Folder folder;
  const RunFolder run(folder.path());
  Trainer t = finished_run(run);
  const RunResult result = run.summary().result.value();
  const Evaluation e = evaluate(t.model, *t.task);
  CHECK((result.loss == e.loss && result.accuracy == e.accuracy && result.targets == e.tokens));
  CHECK((result.steps == 6 && result.sequences == result.evaluation_set));
  CHECK((result.optimal == e.optimal && result.standard_error == e.standard_error));
  CHECK(result.evaluation_set == t.task->evaluation_size());
  CHECK(run.summary().last_evaluation->eval_loss == t.history().back().eval_loss);
  const std::string path = run.file(RunFolder::kState).string();
  for (const char* text : {"{", "[]", "{}", R"({"steps":"3"})"}) {
    change_metadata(path, "result", text);
    CHECK_THAT(run.summary().note, Contains("its result ") && Contains("the file is damaged"));
    CHECK((run.summary().step == 6 && !run.summary().result));
  }
  SafeTensors without = load_safetensors(path);
  without.metadata.erase("result");
  save_safetensors(path, without.tensors, without.metadata);
  CHECK((run.summary().finished && !run.summary().result));
  run.save(run.resume().snapshot());
  CHECK((!run.summary().finished && !run.summary().result));
}

TEST_CASE("a save writes each copy again, and a resume reads only the state") {
  const Folder folder;
  const RunFolder run(folder.path());
  finished_run(run);
  const Snapshot last = run.load();
  run.save(last);
  for (const char* name :
       {RunFolder::kConfig, RunFolder::kModel, RunFolder::kBest, RunFolder::kMetrics}) {
    INFO(name);
    const std::string whole = bytes_of(run.file(name));
    flip_bit(run.file(name));
    CHECK(run.resume().steps_done == 6);
    run.save(last);
    CHECK(bytes_of(run.file(name)) == whole);
  }
  flip_bit(run.file(RunFolder::kState));
  CHECK_THROWS_WITH(run.resume(), Contains("the file is damaged"));
}

TEST_CASE("a config.toml that differs from the state has no effect, and a save repairs it") {
  Folder folder;
  const RunFolder run(folder.path());
  Trainer t(tiny_run());
  run_to(t, 3, 0);
  run.save(t.snapshot(), {"a note"});
  const std::string whole = bytes_of(folder / "config.toml");
  for (const std::string& text : {spelled(whole, "0.5"), std::string("[train"), std::string()}) {
    write_file((folder / "config.toml").string(), std::string_view(text));
    CHECK(run.open(RunFolder::kState, Use::kSequences).config.lr == t.config().lr);
    CHECK(run.resume().config().lr == t.config().lr);
  }
  fs::remove(folder / "config.toml");
  CHECK(run.is_run());
  run.save(run.load(), {"a note"});
  CHECK(bytes_of(folder / "config.toml") == whole);
}

TEST_CASE("a new run replaces the files of an earlier one, and no others") {
  const Folder folder;
  const RunFolder run(folder.path());
  finished_run(run);
  const std::string mine[] = {"mine", "checkpoints/mine.safetensors", "checkpoints/7.safetensors"};
  for (const std::string& name : mine) write_file(folder / name, std::string_view("mine"));
  for (const char* name : {RunFolder::kLossPicture, RunFolder::kAttentionPicture})
    write_file(folder / name, std::string_view("old"));
  write_file(folder / "outside", std::string_view("mine"));
  for (const char* name : {RunFolder::kModel, "checkpoints/000003.safetensors"}) {
    fs::remove(folder / name);
    fs::create_symlink(folder / "outside", folder / name);
  }
  const Trainer t(tiny_run());
  run.save(t.snapshot());                // the link is replaced, and not followed
  CHECK(run.checkpoints().size() == 1);  // later steps are of the earlier run
  run.remove_earlier(t.snapshot());
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
    names.insert(entry.path().lexically_relative(folder.path()).string());
  CHECK(names == std::set<std::string>{"checkpoints", "checkpoints/7.safetensors",
                                       "checkpoints/mine.safetensors", "config.toml", "metrics.csv",
                                       "mine", "model.safetensors", "outside",
                                       "state.safetensors"});
  CHECK(bytes_of(folder / "outside") == "mine");
}

}  // namespace
