// Tests of opening a run for a study.
#include "tools/heed/study/subject.h"

#include "nn/io/safetensors.h"
#include "tests/support/disk.h"
#include "tests/support/runs.h"

namespace {

using namespace heed;
using namespace heed::lab::testing;

TEST_CASE("a run is opened for prompts alone only if its text is missing or has changed") {
  const testing::Folder folder;
  const lab::RunFolder run(folder.path());
  lab::RunConfig config = tiny_run();
  config.task = "text", config.text = (folder / "text.txt").string();
  const auto write = [&](const std::string& line) {
    std::ofstream file(config.text);
    for (int i = 0; i < 40; ++i) file << line << " " << i << "\n";
  };
  const auto has_sequences = [&] {
    bool has = false;
    open_for_study(folder.path(), lab::RunFolder::kModel, has);
    return has;
  };
  write("one");
  run.save(lab::Trainer(config).snapshot());
  CHECK(has_sequences());
  write("two");
  CHECK_FALSE(has_sequences());
  std::filesystem::remove(config.text);
  CHECK_FALSE(has_sequences());
  write("one");
  // Without the entry text_hash, the weights file counts as damaged, even for a study of a prompt.
  const std::string weights = run.file(lab::RunFolder::kModel).string();
  nn::SafeTensors content = nn::load_safetensors(weights);
  content.metadata.erase("text_hash");
  nn::save_safetensors(weights, content.tensors, content.metadata);
  CHECK_THROWS_AS(has_sequences(), autograd::IoError);
}

}  // namespace
