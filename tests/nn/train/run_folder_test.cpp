// The folder that keeps a run: whole whatever happens while it is written; what does not fit is
// refused, naming the file.
#include "nn/train/run_folder.h"

#include <cmath>
#include <filesystem>

#include "autograd/base/files.h"
#include "autograd/ops/ops.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/runs.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;
using heed::testing::Folder;
namespace fs = std::filesystem;

RunConfig on_text(const fs::path& file, const std::string& text) {
  write_file(file.string(), text);
  RunConfig c = tiny_run();
  c.task = "text", c.text = file.string();
  return c;
}

std::string some_text() {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "naïve line " + std::to_string(i) + "\n";
  return text;
}

// Writes a safetensors file again with one metadata entry changed.
void change_metadata(const fs::path& file, const std::string& key, const std::string& value) {
  SafeTensors content = load_safetensors(file.string());
  content.metadata.at(key) = value;
  save_safetensors(file.string(), content.tensors, content.metadata);
}

TEST_CASE("a save that fails leaves the old files whole") {
  Folder folder;
  Trainer t(tiny_run());
  t.step();
  t.save(folder.path());
  const std::string model = bytes_of(folder / "model.safetensors");
  const std::string state = bytes_of(folder / "state.safetensors");
  t.step();
  {
    const heed::testing::FullDisk full(
        4096);  // config.toml and metrics.csv still fit, weights do not
    CHECK_THROWS_AS(t.save(folder.path()), IoError);
  }
  CHECK(bytes_of(folder / "model.safetensors") == model);
  CHECK(bytes_of(folder / "state.safetensors") == state);
  CHECK(Trainer::resume(folder.path()).steps_done == 1);
  for (const auto& entry : fs::directory_iterator(folder.path()))
    CHECK(entry.path().filename().string().find("tmp") == std::string::npos);
}

TEST_CASE("a run on a text needs the text to evaluate and resume, not to generate") {
  Folder folder;
  const fs::path file = folder / "text.txt";
  {
    Trainer t(on_text(file, some_text()));
    t.step();
    t.evaluate(false);
    t.save(folder.path());
  }
  const LoadedRun full = load_run(folder.path(), "best.safetensors", Use::kSequences);
  CHECK(full.step == 1);
  CHECK(full.task->evaluation(0, 1).references.contains("4-gram"));

  std::string other = some_text();
  other[3] = 'a', other[4] = 'a';  // as long, but not the same
  write_file(file.string(), other);
  CHECK_THROWS_WITH(load_run(folder.path(), "model.safetensors", Use::kSequences),
                    Contains(file.string()));
  CHECK_THROWS_AS(load_run(folder.path(), "model.safetensors", Use::kSequences), IoError);
  CHECK_THROWS_WITH(Trainer::resume(folder.path()), Contains(file.string()));

  fs::remove(file);
  CHECK_THROWS_AS(load_run(folder.path(), "model.safetensors", Use::kSequences), IoError);
  CHECK_THROWS_AS(Trainer::resume(folder.path()), IoError);
  const LoadedRun prompts = load_run(folder.path(), "model.safetensors", Use::kPrompts);
  CHECK(prompts.task->facts().vocabulary == full.task->facts().vocabulary);
  CHECK(prompts.task->prompt("naïve").inputs.to_vector<std::int64_t>() ==
        full.task->prompt("naïve").inputs.to_vector<std::int64_t>());
  CHECK_THROWS_AS(prompts.task->evaluation(0, 1), ValueError);
}

TEST_CASE("a damaged or foreign state is refused or told of") {
  Folder folder;
  Trainer(tiny_run()).save(folder.path());
  const fs::path state = folder / "state.safetensors";
  change_metadata(state, "simd_target", "ABACUS");
  const std::vector<std::string> warnings = Trainer::resume(folder.path()).warnings;
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Contains("ABACUS"));
  for (const char* key : {"data_stream", "dropout_stream", "step", "best_step"}) {
    const SafeTensors good = load_safetensors(state.string());
    change_metadata(state, key, "12x");
    CHECK_THROWS_AS(Trainer::resume(folder.path()), IoError);
    CHECK_THROWS_WITH(Trainer::resume(folder.path()), Contains(state.string()));
    save_safetensors(state.string(), good.tensors, good.metadata);
  }
}

// As an editor that keeps the checksum right would do it.
TEST_CASE("what a state says must fit together") {
  Folder folder;
  Trainer t(tiny_run());
  run_to(t, 6, 3);
  t.save(folder.path());
  const fs::path path = folder / "state.safetensors";
  const SafeTensors good = load_safetensors(path.string());
  const auto refusal = [&](const SafeTensors& changed) {
    save_safetensors(path.string(), changed.tensors, changed.metadata);
    try {
      Trainer::resume(folder.path());
    } catch (const IoError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto with = [&](const std::string& key, const std::string& value) {
    SafeTensors changed = good;
    changed.metadata.at(key) = value;
    return refusal(changed);
  };
  CHECK(refusal(good).empty());
  CHECK_THAT(with("step", "5"), Contains("says step 5, its history ends with step 6"));
  CHECK_THAT(with("step", "9223372036854775807"), Contains("its history ends with step 6"));
  CHECK_THAT(with("best_step", "4"), Contains("which its history does not have"));
  CHECK_THAT(with("best_loss", "1.5"), Contains("which its history does not have"));
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
    CHECK_THAT(with_tensor("history", rows), Contains("of its history is of step"));
  }
  CHECK_THAT(with_tensor("history", zeros({6, 3}, float64)),
             Contains("has no 'history' [rows, 8]"));
}

TEST_CASE("a config.toml that the run was not trained with is refused") {
  const Folder folder;
  Trainer t(tiny_run());
  run_to(t, 3, 0);
  t.save(folder.path());
  RunConfig other = t.config();
  other.steps = 20, other.eval_every = 1;  // these may change, the schedule may not
  write_file((folder / "config.toml").string(), std::string_view(to_toml(other)));
  CHECK_THROWS_WITH(Trainer::resume(folder.path()), Contains("trained with 'schedule-steps = 12'"));
  other.schedule_steps = 12;
  write_file((folder / "config.toml").string(), std::string_view(to_toml(other)));
  CHECK(Trainer::resume(folder.path()).steps_done == 3);
  other.lr *= 2;
  write_file((folder / "config.toml").string(), std::string_view(to_toml(other)));
  CHECK_THROWS_AS(Trainer::resume(folder.path()), IoError);
  CHECK_THROWS_AS(load_run(folder.path(), "model.safetensors", Use::kSequences), IoError);
  // A lost value is not its default.
  const std::string whole = to_toml(t.config());
  for (const std::size_t length : {whole.size() / 2, std::size_t(0)}) {
    write_file((folder / "config.toml").string(), std::string_view(whole).substr(0, length));
    CHECK_THROWS_AS(load_run(folder.path(), "model.safetensors", Use::kSequences), IoError);
  }
}

}  // namespace
