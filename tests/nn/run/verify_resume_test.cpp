// Tests of verify_resume(): it accepts correct saves and reports parts that a save has lost.
#include "nn/run/verify_resume.h"

#include "autograd/autograd.h"
#include "autograd/base/files.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/runs.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using heed::testing::Folder;
namespace fs = std::filesystem;

// Returns a configuration with more steps than verify_resume() trains.
RunConfig tiny_run_of_100() {
  RunConfig c = heed::nn::testing::tiny_run();
  c.steps = 100;
  return c;
}

TEST_CASE("a resumed run is verified for at most 40 steps") {
  const Folder folder;
  const RunFolder run(folder.path());
  RunConfig c = tiny_run_of_100();
  const ResumeCheck check = verify_resume(c, run);
  CHECK(check.ok());
  CHECK(check.steps == 40);
  REQUIRE(check.legs.size() == 2);
  CHECK(check.legs[1].name == "2 threads, 20 + 20 steps");
  CHECK(check.legs[1].hash == check.legs[0].hash);
  c.steps = 1;
  CHECK(verify_resume(c, run).ok());
  const std::uint32_t one = verify_resume(c, run).legs[0].hash;
  c.seed = 2;
  CHECK(verify_resume(c, run).legs[0].hash != one);
}

// Returns the difference that verify_resume() reports if `change` damages the saved state.
std::string difference_after(const std::function<void(SafeTensors&)>& change) {
  const Folder folder;
  const ResumeCheck check =
      verify_resume(tiny_run_of_100(), RunFolder(folder.path()), {}, [&](const RunFolder& run) {
        const std::string path = run.file(RunFolder::kState).string();
        SafeTensors state = load_safetensors(path);
        change(state);
        save_safetensors(path, state.tensors, state.metadata);
      });
  CHECK(check.legs[0].difference.empty());
  CHECK(check.ok() == check.legs[1].difference.empty());
  CHECK((check.legs[1].hash == check.legs[0].hash) == check.ok());
  return check.legs[1].difference;
}

TEST_CASE("parts that are missing from a save are found") {
  const Snapshot fresh = Trainer(tiny_run_of_100()).snapshot();
  const auto value = [](const char* name, double x) {
    return [=](SafeTensors& state) {
      for (NamedTensor& t : state.tensors)
        if (t.name == name) t.tensor = full(t.tensor.shape(), x, t.tensor.dtype());
    };
  };
  CHECK(difference_after([](SafeTensors&) {}).empty());
  for (const auto& [name, stream] : {std::pair("data_stream", fresh.data_stream),
                                     std::pair("dropout_stream", fresh.dropout_stream)})
    CHECK_THAT(difference_after([&](SafeTensors& s) { s.metadata[name] = stream; }),
               Contains("loss of step 21 is"));
  if (skips(kSanitized, "takes minutes with a sanitizer")) return;
  CHECK_THAT(difference_after(value("optimizer.tok.weight.exp_avg", 0)), Contains("of step 22 is"));
  CHECK_THAT(difference_after(value("optimizer.tok.weight.step", 1)), Contains("of step 22 is"));
  CHECK_THAT(difference_after(value("model.tok.weight", 0.5)), Contains("of step 21 is"));
  CHECK_THAT(difference_after([](SafeTensors& s) {
               s.find("history").mutable_data<double>()[10 * 3 + 1] += 1e-15;
             }),
             Contains("loss of step 3 is"));
}

}  // namespace
