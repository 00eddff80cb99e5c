// Tests of a user-defined task, which is not part of the library, and of commands on its runs.
#include "tests/support/catch.h"
#include "tests/support/commands.h"
#include "tests/support/runs.h"

// Not an anonymous namespace: the names of heed and heed::nn are ambiguous with those of other
// tests.
namespace own_task {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;
using namespace heed::testing;

// Task whose sequences count 0 1 2 3 4 0 1 ... from a random start.
TaskInfo info_of() {
  TaskInfo f;
  f.name = "counting", f.vocabulary = Vocabulary::of("01234^"), f.classes = 5, f.context = 8;
  return f;
}
class Counting : public Task {
 public:
  Counting() : Task(info_of()) {}

 private:
  Sequence draw(Generator& g) const override {
    Index at = 0;
    g.randint({&at, 1}, 0, 5);
    Sequence s;
    for (; s.inputs.size() < 8; ++at) {
      s.inputs.push_back(at % 5);
      s.targets.push_back((at + 1) % 5);
    }
    s.counted.assign(8, true);
    return s;
  }
};

TEST_CASE("a run on a user's task trains, and is resumed with the same task") {
  RunConfig c = tiny_run();
  c.lr = 1e-2, c.steps = 60;
  Folder straight, folder;
  {
    Trainer t(c, std::make_unique<Counting>());
    run_to(t, 20, 0);
    RunFolder(folder.path()).save(t.snapshot());
    run_to(t, 60, 0);
    const Evaluation e = t.evaluate(true);
    CHECK(e.accuracy == 1.0);
    CHECK(!e.optimal);
    RunFolder(straight.path()).save(t.snapshot());
  }
  Trainer t = RunFolder(folder.path()).resume(std::make_unique<Counting>());
  run_to(t, 60, 0);
  t.evaluate(true);
  RunFolder(folder.path()).save(t.snapshot());
  check_same_run(folder.path(), straight.path(), false);
  c.model.context = 10;
  CHECK_THROWS_WITH(Trainer(c, std::make_unique<Counting>()),
                    Contains("`context`: needs 8, that of the task counting, got 10"));
}

TEST_CASE("commands read a run on a user's task, unless they need its sequences") {
  const Place place;
  Trainer t(tiny_run(), std::make_unique<Counting>());
  t.step(), t.evaluate(false);
  std::filesystem::create_directories("own");
  RunFolder("own").save(t.snapshot());
  write_file("counted.txt", std::string_view("0123401234012"));
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"info", "own", "--prompt", "^01"},
           {"eval", "own", "--text", "counted.txt"},
           {"eval", "own", "--prompt", "0123"},
           {"generate", "own", "--prompt", "01", "--tokens", "3"},
           {"study", "own", "--prompt", "01230123"},
           {"plot", "own"},
           {"export", "own", "--names", "torch", "--out", "own.safetensors"},
           {"import", "own.safetensors", "--out", "imported"},
           {"generate", "imported", "--prompt", "01", "--tokens", "3"}}) {
    const heed::testing::Outcome o = Place::run(words);
    INFO(words[0] << " " << words[1] << ": " << o.err);
    CHECK(o.code == 0);
  }
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"eval", "own"},
                                             {"study", "own"},
                                             {"gradcheck", "--run", "own"},
                                             {"train", "--resume", "own"},
                                             {"eval", "imported"}}) {
    const heed::testing::Outcome o = Place::run(words);
    INFO(words[0] << ": " << o.err);
    CHECK(o.code == heed::kInputOutput);
    CHECK_THAT(o.err, Contains("its task 'counting' is defined in the program that trained it"));
  }
  SafeTensors state = load_safetensors("own/state.safetensors");
  for (const char* record :
       {"", "{}", "[1]", R"({"vocabulary":["0"],"words":false,"classes":2})"}) {
    state.metadata["own_task"] = record;
    save_safetensors("own/state.safetensors", state.tensors, state.metadata);
    CHECK_THAT(Place::run({"info", "own"}).err, Contains("intact copy") && Contains("'own_task'"));
  }
}

}  // namespace own_task
