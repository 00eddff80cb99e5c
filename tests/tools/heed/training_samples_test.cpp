// Tests of the continuations that `heed train --sample-every` writes to samples.txt.
#include "tools/heed/train/training_samples.h"

#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/runs.h"

namespace {

using namespace heed;
using namespace heed::nn;
using namespace heed::nn::testing;
using heed::testing::Folder;

RunConfig sampled(const char* task, const std::string& prompt = "") {
  RunConfig c = tiny_run(task);
  c.sample_every = 2, c.sample_prompt = prompt;
  if (c.task == "induction") c.model.context = 48;
  return c;
}

// Trains until `step`, and writes the samples as `heed train` does.
void train_with_samples(Trainer& t, const RunFolder& run, std::int64_t step) {
  TrainingSamples samples(run, t);
  samples.after_step();
  while (t.steps_done < step) {
    t.step();
    samples.after_step();
  }
}

TEST_CASE("samples.txt has a continuation of every second step, and training does not change") {
  const Folder folder;
  const RunFolder run(folder.path());
  Trainer plain(tiny_run()), watched(sampled("reverse"));
  train_with_samples(watched, run, 5);
  run_to(plain, 5, 0);
  const Snapshot a = plain.snapshot(), b = watched.snapshot();
  CHECK(hash_of(a) == hash_of(b));
  std::istringstream lines(autograd::read_file(run.file(RunFolder::kSamples).string()));
  std::int64_t step = 0;
  for (std::string line; std::getline(lines, line); step += 2) {
    const std::string start = std::to_string(step) + ": ";
    REQUIRE(line.starts_with(start));
    // Prompt and continuation have the tokens of a sequence and the last target.
    const std::string text = line.substr(start.size());
    CHECK(watched.task->info().vocabulary.encode(text).size() == 9);
    CHECK(text.starts_with(
        watched.task->info().vocabulary.decode(TrainingSamples::prompt_of(watched))));
  }
  CHECK(step == 6);
}

TEST_CASE("a resumed run has the samples of an uninterrupted one") {
  const Folder whole_folder, folder;
  const RunFolder whole_run(whole_folder.path()), run(folder.path());
  Trainer whole(sampled("induction", "abc")), first(sampled("induction", "abc"));
  train_with_samples(whole, whole_run, 6);
  train_with_samples(first, run, 3);
  run.save(first.snapshot());
  train_with_samples(first, run, 5);  // step 4 is not saved: a resume removes its line
  Trainer second = run.resume();
  train_with_samples(second, run, 6);
  const std::string text = autograd::read_file(run.file(RunFolder::kSamples).string());
  CHECK(text == autograd::read_file(whole_run.file(RunFolder::kSamples).string()));
  CHECK(text.starts_with("0: ^abc"));
}

TEST_CASE("a wrong prompt is an error; samples.txt exists only with sample-every") {
  const Folder folder;
  Trainer wrong(sampled("induction", "a?")), t(tiny_run());
  CHECK_THROWS_WITH(TrainingSamples(RunFolder(folder.path()), wrong), Contains("'?'"));
  CHECK(!TrainingSamples(RunFolder(folder.path()), t).after_step());
  CHECK(!std::filesystem::exists(folder / RunFolder::kSamples));
  RunConfig c = tiny_run();
  c.sample_prompt = "abc";
  CHECK(find_setting(c.settings(), "sample-prompt")->unmet_need("x").find("sample-every") !=
        std::string::npos);
}

}  // namespace
