// Tests of tests/data/old_run, a run of commit 83ccf26f. Its configuration has settings that heed
// no longer has, and its state contains lines of logs.
#include "nn/lab.h"
#include "nn/lab/run/snapshot_file.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/files.h"
#include "tests/support/runs.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;
using namespace heed::testing;

TEST_CASE("a run of 83ccf26f is evaluated and resumed with the bits of 83ccf26f") {
  const RunFolder run(data_file("old_run"));
  const std::string path = run.file(RunFolder::kState).string();
  const bool same_bits = snapshot_warnings(load_safetensors(path)).empty();  // same machine code
  const RunResult result = run.summary().result.value();
  const LoadedRun loaded = run.open(RunFolder::kState, Use::kSequences);
  const double loss = evaluate(loaded.model, *loaded.task, 0).loss;
  CHECK(loss == Approx(result.loss));
  if (same_bits) CHECK(loss == result.loss);
  RunConfig longer = run.config();
  longer.steps = 8;
  Trainer t = run.resume();
  t.set(longer);
  run_to(t, 8, 2);
  const auto expected = load_safetensors(data_file("old_run/resumed.safetensors").string()).tensors;
  const std::vector<NamedTensor> resumed = t.snapshot().part("model.");
  if (same_bits) CHECK(hash_of_tensors(resumed) == hash_of_tensors(expected));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(expected[i].name);
    REQUIRE(resumed[i].name == expected[i].name);
    CHECK(allclose(resumed[i].tensor, expected[i].tensor, 1e-3, 1e-4));
  }
}

TEST_CASE("a run that was trained with a removed option can be read, but not resumed") {
  const Folder folder;
  const RunFolder run(folder.path());
  const std::string path = run.file(RunFolder::kState).string();
  SafeTensors state = load_safetensors(data_file("old_run/state.safetensors").string());
  std::string& config = state.metadata.at("config");
  const auto save_with = [&](const std::string& from, const std::string& to) {
    config.replace(config.find(from), from.size(), to);
    save_safetensors(path, state.tensors, state.metadata);
  };
  save_with("clip-value = 0", "clip-value = 0.5");
  CHECK(run.open(RunFolder::kState, Use::kSequences).step == 4);
  CHECK_THROWS_WITH(run.resume(),
                    path +
                        ":60: this run uses clip-value = 0.5, which heed no longer has; use the "
                        "version that trained it");
  save_with("modadd", "sort");
  CHECK_THROWS_AS(run.open(RunFolder::kState, Use::kSequences), RemovedError);
  CHECK_THROWS_AS(run.summary(), RemovedError);
}

}  // namespace
