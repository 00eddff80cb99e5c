// Test of a user-defined task, which is not part of the library.
#include "nn/run/run_folder.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/runs.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;
using heed::testing::Folder;

// Task whose sequences count 0 1 2 3 4 0 1 ... from a random start.
TaskInfo info_of() {
  TaskInfo f;
  f.name = "counting", f.vocabulary = Vocabulary::of("01234"), f.classes = 5, f.context = 8;
  return f;
}
class Counting : public Task {
 public:
  Counting() : Task(info_of()) {}

 private:
  Sequence draw(Generator& g) const override {
    std::int64_t at = 0;
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
  CHECK_THROWS_WITH(RunFolder(folder.path()).resume(), Contains("unknown task 'counting'"));
  Trainer t = RunFolder(folder.path()).resume(std::make_unique<Counting>());
  run_to(t, 60, 0);
  t.evaluate(true);
  RunFolder(folder.path()).save(t.snapshot());
  check_same_run(folder.path(), straight.path(), false);
  c.model.context = 10;
  CHECK_THROWS_WITH(Trainer(c, std::make_unique<Counting>()),
                    Contains("`context`: needs 8, that of the task counting, got 10"));
}

}  // namespace
