// Tests of plan_sweep(): grids of options, names of runs, pairs of options, errors, and changes of
// a sweep file.
#include "tools/heed/plan/sweep_plan.h"

#include <filesystem>

#include "autograd/base/files.h"
#include "tests/support/catch.h"
#include "tools/heed/report/output.h"
#include "tools/heed/sweep/sweep_run.h"

namespace {

using namespace heed;
namespace fs = std::filesystem;

std::vector<std::string> names(const SweepPlan& plan) {
  std::vector<std::string> list;
  for (const PlannedRun& run : plan.runs) list.push_back(run.name);
  return list;
}

// Returns the message of the error that plan_sweep() throws for an invalid sweep file.
std::string refusal(const std::string& text) {
  return message_of<autograd::Error>([&] { plan_sweep(text, "s.toml"); });
}
bool says(const std::string& text, const std::string& part) {
  INFO("'" << text << "' lacks '" << part << "'");
  CHECK(text.find(part) != std::string::npos);
  return true;
}

TEST_CASE("every combination is a run, the last list changes fastest, in the file's order") {
  const SweepPlan plan = plan_sweep(
      "[train]\ntask = \"induction\"\nsteps = 7\n[sweep]\nscale = [\"none\", 0.5]\nkv-heads = [1, "
      "2]\nseed = [3, 1]\n",
      "s.toml");
  CHECK(names(plan) ==
        std::vector<std::string>{"scale=none,kv-heads=1,seed=3", "scale=none,kv-heads=1,seed=1",
                                 "scale=none,kv-heads=2,seed=3", "scale=none,kv-heads=2,seed=1",
                                 "scale=0.5,kv-heads=1,seed=3", "scale=0.5,kv-heads=1,seed=1",
                                 "scale=0.5,kv-heads=2,seed=3", "scale=0.5,kv-heads=2,seed=1"});
  const PlannedRun& run = plan.runs[6];
  CHECK(run.config.steps == 7);
  CHECK(run.config.model.attention.kv_heads == 2);
  CHECK(run.config.seed == 3);
  CHECK(std::get<double>(run.config.model.attention.scale) == 0.5);
  CHECK(run.recipe ==
        "[train]\ntask = \"induction\"\nkv-heads = 2\nscale = 0.5\nsteps = 7\nseed = 3\n");
}

TEST_CASE("names of runs contain only characters of file names, and numbers in their short form") {
  const SweepPlan plan = plan_sweep(
      "[sweep]\nscale = [\"1/sqrt-d-head\", 1e-3]\nlr = [1e-2, 0.50]\nmlp = [true]\n", "s.toml");
  CHECK(names(plan) == std::vector<std::string>{"scale=1_sqrt-d-head,lr=0.01,mlp=true",
                                                "scale=1_sqrt-d-head,lr=0.5,mlp=true",
                                                "scale=0.001,lr=0.01,mlp=true",
                                                "scale=0.001,lr=0.5,mlp=true"});
}

TEST_CASE("options named by pairs are combined value by value") {
  const std::string lists = "[sweep]\nlayers = [1, 2]\nseed = [1, 2]\nheads = [2, 4]\n";
  const std::vector<std::string> together = {"layers=1,seed=1,heads=2", "layers=1,seed=2,heads=2",
                                             "layers=2,seed=1,heads=4", "layers=2,seed=2,heads=4"};
  CHECK(names(plan_sweep(lists + "pairs = [\"layers\", \"heads\"]\n", "s.toml")) == together);
  CHECK(plan_sweep(lists, "s.toml").runs.size() == 8);
  const auto refused = [](const std::string& text, const char* second) {
    return refusal(fmt::format("{}pairs = [\"layers\", \"{}\"]\n", text, second));
  };
  says(refused("[sweep]\nlayers = [1, 2]\nheads = [2]\n", "heads"),
       "s.toml:3: pairs needs lists of equal length; layers has 2 values, heads has 1");
  says(refused(lists, "head"), "which is not in [sweep]; the nearest is 'heads'");
  says(refused(lists, "layers"), "pairs needs at least two different options");
}

TEST_CASE("the error of an invalid sweep states place and reason") {
  says(refusal(""), "needs a section [sweep]");
  says(refusal("[train]\nsteps = 5\n"), "needs a section [sweep]");
  says(refusal("seed = [1]\n"), "is outside a section");
  says(refusal("[sweeps]\nseed = [1]\n"), "unknown section [sweeps]");
  says(refusal("[sweep]\nseed = []\n"), "s.toml:2: the list seed is empty");
  says(refusal("[sweep]\nseeds = [1]\n"), "has no key 'seeds'; the nearest is 'seed'");
  says(refusal("[sweep]\nout = [\"a\"]\n"), "has no key 'out'");
  says(refusal("[sweep]\nseed = [1, \"2\"]\n"), "needs a number, without quotes");
  says(refusal("[sweep]\nseed = [\"2\", 1]\n"), "needs a number, without quotes, got \"2\"");
  says(refusal("[sweep]\nseed = [1, true]\n"), "needs a number, without quotes, got true");
  says(refusal("[sweep]\nscale = [true, 0.5]\n"), "needs a number, or a name in quotes, got true");
  says(refusal("[sweep]\nseed = [1, [2]]\n"), "needs true, false, a number or a text");
  says(refusal("[sweep]\nseed = [1, 2, 1]\n"), "the list seed contains 1 twice");
  says(refusal("[sweep]\nlr = [1e-3, 0.001]\n"), "the list lr contains 0.001 twice");
  says(refusal("[sweep]\nseed = [1]\nseed = [2]\n"), "s.toml:3");
  says(refusal("[sweep]\nscale = [\"nine\"]\n"), "nine");
  says(refusal("[sweep]\nlayers = [0]\n"), "s.toml:2: layers needs");
  says(refusal("[train]\nseed = 1\n[sweep]\nseed = [1]\n"), "seed is in [train], too");
  says(refusal("[train]\nsteps = [1, 2]\n[sweep]\nseed = [1]\n"), "takes one value");
  says(refusal("[sweep]\nheads = [2, 3]\n"), "heads=3: ");  // 3 does not divide d-model = 64
  says(refusal("[sweep]\nmomentum = [0.5]\n"), "needs `optimizer` sgd");
  says(refusal("[sweep]\nanswer-after = [\"/\", \"?\"]\n[train]\nlines = \"x\"\n"),
       "two runs would have the name answer-after=_");
  says(refusal("[sweep]\nanswer-after = [\"\\u0001\", \"=\"]\n[train]\nlines = \"x\"\n"),
       "two runs would have the name answer-after=_");
  says(refusal("[sweep]\ntext = [\"" + std::string(300, 'a') + "\"]\n"), "the limit is 200");
  says(refusal("[sweep]\nseed = [1"), "not TOML");
}

TEST_CASE("a sweep has at most 10,000 runs") {  // sweep_test.sh tests that 10,000 are accepted
  std::string hundred = "[1";
  for (int i = 2; i <= 100; ++i) hundred += ", " + std::to_string(i);
  hundred += "]\n";
  const std::string most = "[sweep]\nseed = " + hundred + "steps = " + hundred;
  says(refusal(most + "batch = [1, 2]\n"), "describes more than 10,000 runs");
  std::string list = "[sweep]\nseed = [1";
  for (int i = 2; i <= 20000; ++i) list += ", " + std::to_string(i);
  says(refusal(list + "]\n"), "describes more than 10,000 runs");
}

TEST_CASE("a sweep may be extended by values, but not changed") {
  const auto plan = [](const std::string& train, const std::string& sweep) {
    return plan_sweep("[train]\n" + train + "[sweep]\n" + sweep, "s.toml");
  };
  const SweepPlan before = plan("steps = 5\nlr = 1e-3\n", "kv-heads = [1]\nseed = [1, 2]\n");
  const auto change = [&](const std::string& train, const std::string& sweep) {
    return no_longer_planned(before, plan(train, sweep));
  };
  CHECK(change("lr = 0.001\nsteps = 5\n", "kv-heads = [1]\nseed = [1, 2]\n").empty());
  CHECK(change("steps = 5\nlr = 1e-3\n", "kv-heads = [2, 1]\nseed = [1, 2, 3]\n").empty());
  says(change("steps = 6\nlr = 1e-3\n", "kv-heads = [1]\nseed = [1, 2]\n"), "steps was 5 there");
  says(change("steps = 5\n", "kv-heads = [1]\nseed = [1, 2]\n"), "lr was 0.001 there and is not");
  says(change("steps = 5\nlr = 1e-3\nbatch = 8\n", "kv-heads = [1]\nseed = [1, 2]\n"),
       "batch was not given there and is 8 now");
  says(change("steps = 5\nlr = 1e-3\n", "seed = [1, 2]\nkv-heads = [1]\n"),
       "its [sweep] has kv-heads");
  says(change("steps = 5\nlr = 1e-3\n", "kv-heads = [1]\nseed = [1]\n"), "seed = 2 is missing now");
}

TEST_CASE("the pairs of a sweep cannot be removed, even if all its runs remain") {
  const std::string lists = "[sweep]\nscale = [\"none\", 0.5]\nkv-heads = [1, 2]\nseed = [1, 2]\n";
  const auto plan = [](const std::string& text) { return plan_sweep(text, "s.toml"); };
  const std::string pairs = "pairs = [\"scale\", \"seed\"]\n";
  const SweepPlan paired = plan(lists + pairs);
  CHECK(paired.pairs == std::vector<std::string>{"scale", "seed"});
  CHECK(no_longer_planned(paired, plan(lists)) == "its pairs were scale,seed and are none now");
  CHECK(no_longer_planned(paired, plan(lists + "pairs = [\"seed\", \"scale\"]\n")).empty());
  says(no_longer_planned(plan(lists), paired), "is no longer in the grid");
  const std::string one = "[sweep]\nscale = [\"none\"]\nseed = [1]\n",
                    two = "[sweep]\nscale = [\"none\", 0.5]\nseed = [1, 2]\n";
  CHECK(no_longer_planned(plan(one), plan(two + pairs)) ==
        "its pairs were none and are scale,seed now");
}

TEST_CASE("the sweeps in examples/ are valid, have three seeds, and are on their page") {
  const fs::path root = HEED_SOURCE_DIR, folder = root / "examples/sweeps";
  const std::string page = autograd::read_file((folder / "README.md").string());
  int sweeps = 0;
  for (const fs::directory_entry& file : fs::directory_iterator(folder)) {
    if (file.path().extension() != ".toml") continue;
    const std::string path = file.path().string(), name = file.path().stem().string();
    INFO(path);
    const SweepPlan plan = plan_sweep(nn::read_toml_text(path), path);
    CHECK(plan.lists.back().key == "seed");
    CHECK(plan.lists.back().values.size() >= 3);
    if (const std::string& text = plan.runs[0].config.text; !text.empty())
      says(page, "> " + text + "\n");  // the command that makes the text
    says(page, "heed sweep examples/sweeps/" + name + ".toml\n");
    says(page, "heed compare sweeps/" + name);
    says(page, "](" + name + ".png)");
    CHECK(fs::exists(folder / (name + ".png")));
    ++sweeps;
  }
  CHECK(sweeps == 4);
}

TEST_CASE("the remaining time is estimated from waiting, running and finished runs") {
  SweepPace pace;
  CHECK(std::isnan(pace.left(10, {}, 2)));
  pace.add(10, 2);
  pace.add(20, 4);  // in total 30 units of work in 6 s: 5 per second
  CHECK(pace.left(100, {}, 1) == Approx(20));
  CHECK(pace.left(100, {{10, 1}, {10, 5}}, 2) == Approx((100 + 5 + 0) / 10.0));
  CHECK(pace.left(0, {{100, 2}, {10, 0}}, 4) == Approx(90 / 5.0));  // one run uses only one job
}

TEST_CASE("the estimated work grows with steps and layers") {
  nn::RunConfig c = nn::preset("induction");
  const double work = work_of(c);
  c.steps *= 3;
  CHECK(work_of(c) == Approx(3 * work));
  c.model.layers *= 2;
  CHECK(work_of(c) > 4 * work);
}

}  // namespace
