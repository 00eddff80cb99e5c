// A run's configuration: as text and back, and what it refuses.
#include "nn/train/config.h"

#include <cmath>

#include "nn/train/trainer.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;

TEST_CASE("config.toml keeps every value") {
  RunConfig c = preset("reverse");
  c.task = "text", c.lr = 0.1 + 0.2, c.form = AttentionForm::kPerHead;
  for (const char* path :
       {"/a b/it's [one], 2 = 3;ä.txt", "a#b", "a\"b", "c:\\new\\text", "a\nb\x7f"}) {
    c.text = path;
    validate(c);
    CHECK(from_toml(to_toml(c)).text == path);
    CHECK(to_toml(from_toml(to_toml(c))) == to_toml(c));
  }
  c.text = "latin1\xe9";
  CHECK_THROWS_WITH(validate(c), Contains("not UTF-8"));
}

// The text is the recipe in every run's metadata: a byte of difference disowns all older runs.
TEST_CASE("config.toml is written as it always was") {
  CHECK(to_toml(RunConfig(), {"note"}) ==
        "# note\n[train]\ntask = \"induction\"\ntext = \"\"\n"
        "task-vocabulary = 32\ntask-periods = \"3..24\"\nlayers = 2\nheads = 2\nd-model = 64\n"
        "context = 48\nmlp = false\nbias = false\nnorm-bias = true\ntied = false\n"
        "positions = \"rope\"\nnorm = \"pre\"\nform = \"packed_qkv\"\ninit = \"fan-in\"\ndropout = "
        "0\n"
        "dtype = \"float32\"\nbatch = 32\naccumulate = 1\nsteps = 400\nwarmup = 20\nschedule = "
        "\"constant\"\nschedule-steps = 0\n"
        "lr = 0.0030000000000000001\nmin-lr = 0\ndecay-steps = 0\noptimizer = \"adamw\"\n"
        "beta1 = 0.90000000000000002\nbeta2 = 0.97999999999999998\neps = 1e-08\nmomentum = 0\n"
        "weight-decay = 0\nclip = 1\nclip-value = 0\nseed = 1\neval-every = 50\n"
        "eval-batch = 256\nsave-every = 0\npatience = 0\ntarget-loss = 0\ntarget-accuracy = 0\n");
}

TEST_CASE("a wrong config.toml is refused by file, line and key") {
  const std::string whole = to_toml(RunConfig());
  const auto refusal = [&](const std::string& from, const std::string& to) -> std::string {
    std::string text = whole;
    text.replace(text.find(from), from.size(), to);
    try {
      from_toml(text, "my.toml");
      return "";
    } catch (const ValueError& e) {
      return e.what();
    }
  };
  CHECK(refusal("layers = 2", "layers = 3").empty());
  CHECK(refusal("layers = 2", "layrs = 2") ==
        "my.toml:6: [train] has no key 'layrs'; the nearest is 'layers'");
  CHECK(refusal("layers = 2", "layers = \"2\"") ==
        "my.toml:6: layers needs a number, without quotes, got \"2\"");
  CHECK(refusal("layers = 2", "layers = 2.5") ==
        "my.toml:6: layers needs a whole number, 1 to 256, got '2.5'");
  CHECK(refusal("layers = 2", "layers = 0") ==
        "my.toml:6: layers needs a whole number, 1 to 256, got '0'");
  CHECK(refusal("mlp = false", "mlp = 0") ==
        "my.toml:10: mlp is true or false, without quotes, got 0");
  CHECK(refusal("\"rope\"", "\"roep\"") ==
        "my.toml:14: positions: 'roep' is not one of learned, sinusoidal, rope, alibi or none; did "
        "you mean 'rope'?");
  CHECK(refusal("layers = 2\n", "") == "my.toml: has no 'layers'");
  CHECK_THAT(refusal("layers = 2", "layers == 2"), Contains("my.toml:6: not TOML"));
}

TEST_CASE("config.toml keeps the parameters of its own task") {
  RunConfig c = preset("urn");
  CHECK_THAT(to_toml(c), Contains("task-colors = 3\n"));
  CHECK_THAT(to_toml(c), !Contains("task-periods"));
  c.task_parameters["colors"] = "7";
  const RunConfig back = from_toml(to_toml(c));
  CHECK(back.task_parameters == TaskParameters{{"colors", "7"}});
  CHECK(make_task(back)->facts().classes == 7);
  c.task = "reverse";
  CHECK_THROWS_WITH(validate(c), Catch::Matchers::Equals(
                                     "task-colors: the task reverse does not have it; urn has"));
  c.task_parameters = {{"vocabulary", "0"}};
  CHECK_THROWS_WITH(validate(c), Contains("task-vocabulary needs a whole number, 1 to 52"));
}

TEST_CASE("validate names what is out of range") {
  RunConfig c;
  c.dropout = 1;
  CHECK_THROWS_WITH(validate(c), Contains("dropout needs a number, 0 to below 1, got '1'"));
  c.dropout = 0, c.lr = 0;
  CHECK_THROWS_WITH(validate(c), Contains("lr needs a number, above 0 to 10, got '0'"));
  c.lr = 1e-3, c.min_lr = 2e-3;
  CHECK_THROWS_WITH(validate(c), Contains("min-lr"));
  c.min_lr = 0, c.clip = HUGE_VAL;
  CHECK_THROWS_WITH(validate(c), Contains("clip needs a number, at least 0"));
}

}  // namespace
