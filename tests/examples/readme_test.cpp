// What README shows is so: the tour word for word, its prompts as the default model answers them.
#include <regex>

#include "autograd/base/files.h"
#include "nn/study/study.h"
#include "nn/train/generate.h"
#include "nn/train/trainer.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;

std::string readme() { return read_file(HEED_SOURCE_DIR "/README.md"); }

// What the pattern's groups match in README.
std::smatch shown(const std::string& text, const char* pattern) {
  std::smatch match;
  INFO(pattern);
  REQUIRE(std::regex_search(text, match, std::regex(pattern)));
  return match;
}

// The length of the block that a prompt repeats.
std::size_t period(const std::string& prompt) {
  std::size_t p = 1;
  while (!prompt.starts_with(prompt.substr(p))) ++p;
  return p;
}

TEST_CASE("README quotes the tour word for word") {
  const std::string tour = read_file(HEED_SOURCE_DIR "/examples/tour.cpp");
  CHECK(readme().find("```cpp\n" + tour + "```") != std::string::npos);
}

TEST_CASE("README's prompts are continued rightly, and its gradients are the induction circuit's") {
  if (kSanitized) return;  // trains for some seconds
  Trainer trainer(preset("induction"));
  for (std::int64_t step = 0; step < preset("induction").steps; ++step) trainer.step();
  const Vocabulary& spelling = trainer.task->facts().vocabulary;
  const auto ids = [&](const std::string& prompt) {
    return trainer.task->prompt(prompt).inputs.to_vector<std::int64_t>();
  };
  const std::string text = readme();

  const std::string prompt = shown(text, "heed generate --prompt ([a-z]+) --greedy")[1];
  Generator g(1);
  std::string wanted, got;
  for (std::size_t i = prompt.size(); i < prompt.size() + 20; ++i)
    wanted += prompt[i % period(prompt)];
  generate(trainer.model, ids(prompt), 20, {.greedy = true}, g, [&](const GeneratedToken& token) {
    got += spelling.label(token.id);
    return true;
  });
  CHECK(got == wanted);

  // "At the last h, L1H0 should look less at the start and more at e, which followed h last time;
  // and at e, both heads of layer 0 should look at the h before it."
  const std::smatch command = shown(text, "heed study --prompt ([a-z]+) --of diff:([a-z])-([a-z])");
  const std::string asked = command[1];
  const auto last = std::int64_t(asked.size()), before = last - std::int64_t(period(asked));
  CHECK(asked[std::size_t(before)] == command.str(2)[0]);
  const Study s = study(trainer.model, trainer.task->prompt(asked),
                        {.kind = Objective::kDifference,
                         .a = spelling.encode(command.str(2))[0],
                         .b = spelling.encode(command.str(3))[0],
                         .position = last});
  CHECK(s.value > 0);
  const auto gradient = [&](int layer) {
    const std::string name = "blocks." + std::to_string(layer) + ".attn.hook_attn_scores_grad";
    for (const NamedTensor& array : s.arrays)
      if (array.name == name) return array.tensor;
    FAIL("no " << name);
    return Tensor();
  };
  const Tensor row = select(select(select(gradient(1), 0, 0), 0, 0), 0, last);
  CHECK(argmax(row, 0).item() == double(before + 1));
  CHECK(argmax(-row, 0).item() == 0);
  for (const std::int64_t head : {0, 1}) CHECK(gradient(0).at({0, head, before + 1, before}) > 1);
}

}  // namespace
