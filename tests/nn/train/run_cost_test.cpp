// What a run will cost: foretold without a trace, and of whole batches where memory has no mark.
// How true it is: tests/tools/heed/memory_test.sh.
#include "nn/train/run_cost.h"

#include "autograd/autograd.h"
#include "nn/train/memory.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/runs.h"

namespace {

using namespace heed::nn;
using namespace heed::nn::testing;
using heed::autograd::NoGrad;
using heed::autograd::NumericError;
using heed::testing::Folder;
namespace fs = std::filesystem;

const auto kNoPictures = [] {};

void fill(const Trainer& t, const std::string& kind, double value) {
  const NoGrad guard;
  for (const NamedTensor& p : heed::nn::parameters(t.model))
    if (p.name.ends_with(kind)) copy_(p.tensor, heed::autograd::full(p.tensor.shape(), value));
}

// A folder that looks like / on a machine of so much memory, whose mark a process can reset or not.
class FakeRoot {
 public:
  FakeRoot(const std::string& available, bool has_mark) {
    fs::create_directories(folder_ / "proc/self");
    fs::create_symlink("/proc/self/status", folder_ / "proc/self/status");
    const fs::path mark = folder_ / "proc/self/clear_refs";
    has_mark ? fs::create_symlink("/proc/self/clear_refs", mark)
             : void(fs::create_directory(mark));  // not even root can write to it
    heed::autograd::write_file((folder_ / "proc/meminfo").string(), "MemAvailable: " + available);
  }
  double bytes(Trainer& t) const { return run_cost(t, kNoPictures, root()).bytes; }
  const fs::path& root() const { return folder_.path(); }

 private:
  Folder folder_;
};

TEST_CASE("foretelling a run changes no bit of it") {
  const auto optimizer = GENERATE(OptimizerKind::kAdamW, OptimizerKind::kSGD);
  RunConfig c = tiny_run();
  c.optimizer = optimizer, c.clip = 0, c.check_invariants = 5;
  Trainer t(c);
  t.step();
  fill(t, "bias", -0.0);  // -0 - 0 * x may be 0
  const auto before = hash_of(t.snapshot());
  const RunCost cost = run_cost(t, kNoPictures);
  CHECK((hash_of(t.snapshot()) == before));
  CHECK(cost.bytes > 1e6);
  CHECK(cost.seconds_per_step > 0);
  CHECK(cost.seconds > cost.seconds_per_step * double(c.steps));
}

TEST_CASE("a gradient that is not finite is the run's trouble, and no weight's") {
  RunConfig c = tiny_run();
  Trainer t(c);
  fill(t, "weight", HUGE_VAL);
  const auto before = hash_of(t.snapshot());
  CHECK_THROWS_AS(run_cost(t, kNoPictures), NumericError);
  CHECK((hash_of(t.snapshot()) == before));
}

TEST_CASE("a run that does not fit has no time") {
  const FakeRoot machine("1 kB\n", true);
  Trainer t(tiny_run());
  const RunCost cost = run_cost(t, kNoPictures, machine.root());
  CHECK(cost.bytes > 1e6);
  CHECK(std::isnan(cost.seconds_per_step));
  CHECK(std::isnan(cost.seconds));
}

TEST_CASE("without a mark of memory to reset, bytes are still those of a whole batch") {
  // A sanitizer has memory of another kind; a container may hide the mark.
  if (kSanitized || !reset_resident_peak()) return;
  RunConfig c = tiny_run();
  c.model.attention.d_model = 64, c.model.context = 64, c.batch = 256, c.eval_batch = 1;
  Trainer t(c);
  const double drawn_on = FakeRoot("1 kB\n", true).bytes(t);
  // The mark is now that of half a batch, and no difference is left to be seen.
  CHECK(FakeRoot("1 kB\n", false).bytes(t) > 0.9 * drawn_on);  // at most so many
  CHECK(FakeRoot("100000000 kB\n", false).bytes(t) == Approx(drawn_on).epsilon(0.15));
}

}  // namespace
