// Tests of a run's configuration: writing and reading config.toml, and rejected values.
#include <fmt/format.h>

#include <cstdio>

#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using heed::autograd::testing::is_zero;

TEST_CASE("config.toml keeps every value") {
  RunConfig c = preset("reverse");
  c.task = "text", c.lr = 0.1 + 0.2;
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

TEST_CASE("a double in config.toml reads back to the same bits, also as 1a44110 wrote it") {
  for (const double lr : {0.1 + 0.2, 1.0 / 3, 5e-324, 2.2250738585072011e-308, 1e-300, 9.0 / 11,
                          std::nextafter(1.0, 0.0), std::nextafter(1.0, 2.0), 0.004, 1e-8, 10.0}) {
    RunConfig c;
    c.lr = lr;
    CHECK(from_toml(to_toml(c)).lr == lr);
    std::string text = to_toml(RunConfig());
    char digits[40];
    std::snprintf(digits, sizeof digits, "lr = %.17g\n", lr);
    text.replace(text.find("lr = 0.003\n"), 11, digits);
    CHECK(from_toml(text).lr == lr);
    CHECK(to_toml(from_toml(text)) == to_toml(c));
  }
}

TEST_CASE("config.toml contains every setting in a fixed order") {
  CHECK(to_toml(RunConfig(), {"note"}) ==
        "# note\n[train]\ntask = \"induction\"\n"
        "task-vocabulary = 32\ntask-periods = \"3..24\"\nlayers = 2\nheads = 2\nd-model = 64\n"
        "context = 48\nd-head = 0\nd-value = 0\nkv-heads = 0\nscale = \"1/sqrt-d-head\"\n"
        "qk-norm = false\nsoft-cap = 0\nwindow = 0\nmlp = false\n"
        "mlp-act = \"gelu\"\nmlp-ratio = 4\nbias = false\n"
        "o-bias = \"as-bias\"\nnorm-bias = true\n"
        "tied = false\npositions = \"rope\"\nnorm = \"pre\"\nnorm-kind = \"layernorm\"\n"
        "init = \"fan-in\"\ndropout = 0\n"
        "dtype = \"float32\"\nbatch = 32\nshards = 0\naccumulate = 1\nsteps = "
        "400\nwarmup = "
        "20\nschedule = "
        "\"constant\"\nschedule-steps = 0\n"
        "lr = 0.003\nmin-lr = 0\ndecay-steps = 0\noptimizer = \"adamw\"\n"
        "beta1 = 0.9\nbeta2 = 0.98\neps = 1e-08\nmomentum = 0\n"
        "weight-decay = 0\nclip = 1\nseed = 1\neval-every = 50\n"
        "eval-batch = 256\neval-train = 512\nsave-every = 0\nsample-every = 0\npatience = "
        "0\ntarget-loss = 0\n");
}

TEST_CASE("a missing key of config.toml means the default, and what heed no longer has is named") {
  CHECK(to_toml(from_toml("[train]\nlayers = 3\n")).find("layers = 3\n") != std::string::npos);
  CHECK(to_toml(from_toml("[train]\ntext = \"\"\nnewlines = \"lf\"\n")) == to_toml(RunConfig()));
  for (const auto& [key, value] :
       {std::pair("newlines", "keep"), {"task", "urn"}, {"val-text", "v"}, {"form", "per_head"}})
    CHECK_THROWS_WITH(from_toml(fmt::format("[train]\n{} = \"{}\"\n", key, value), "my.toml"),
                      fmt::format("my.toml:2: this run uses {} = {}, which heed no longer has; use "
                                  "the version that trained it",
                                  key, value));
  for (const char* key : {"init", "q-init"})  // of the initial weights: such a run is not resumed
    CHECK_THAT(from_toml(fmt::format("[train]\n{} = \"mup\"\n", key)).removed,
               Contains(fmt::format("this run uses {} = mup", key)));
}

TEST_CASE("errors of config.toml name file, line and key") {
  const std::string whole = to_toml(RunConfig());
  const auto refusal = [&](const std::string& from, const std::string& to) -> std::string {
    std::string text = whole;
    text.replace(text.find(from), from.size(), to);
    return message_of<ValueError>([&] { from_toml(text, "my.toml"); });
  };
  CHECK(refusal("layers = 2", "layers = 3").empty());
  CHECK(refusal("layers = 2", "layrs = 2") ==
        "my.toml:5: [train] has no key 'layrs'; the nearest is 'layers'");
  CHECK(refusal("layers = 2", "layers = \"2\"") ==
        "my.toml:5: layers needs a number, without quotes, got \"2\"");
  CHECK(refusal("layers = 2", "layers = 2.5") ==
        "my.toml:5: layers needs a whole number, 1 to 256, got '2.5'");
  CHECK(refusal("layers = 2", "layers = 0") ==
        "my.toml:5: layers needs a whole number, 1 to 256, got '0'");
  CHECK(refusal("mlp = false", "mlp = 0") ==
        "my.toml:16: mlp needs true or false, without quotes, got 0");
  CHECK(refusal("\"rope\"", "\"roep\"") ==
        "my.toml:23: positions: 'roep' is not one of learned, sinusoidal, rope, alibi or none; did "
        "you mean 'rope'?");
  CHECK_THAT(refusal("layers = 2", "layers == 2"), Contains("my.toml:5: not TOML"));
}

TEST_CASE("config.toml contains only the parameters of the run's task") {
  RunConfig c = preset("markov");
  CHECK_THAT(to_toml(c), Contains("task-symbols = 2\n"));
  CHECK_THAT(to_toml(c), !Contains("task-periods"));
  c.task_parameters["symbols"] = "7";
  const RunConfig back = from_toml(to_toml(c));
  CHECK(back.task_parameters == TaskParameters{{"symbols", "7"}});
  CHECK(make_task(back)->info().classes == 7);
  c.task = "reverse";
  CHECK_THROWS_WITH(
      validate(c), Catch::Matchers::Equals(
                       "`task-symbols`: the task reverse does not have this parameter; only markov "
                       "has it"));
  c.task_parameters = {{"vocabulary", "0"}};
  CHECK_THROWS_WITH(validate(c), Contains("`task-vocabulary` needs a whole number, 1 to 52"));
}

TEST_CASE("validate names a value that is out of range") {
  RunConfig c;
  c.model.attention.dropout = 1;
  CHECK_THROWS_WITH(validate(c), Contains("`dropout` needs a number, 0 to below 1, got '1'"));
  c.model.attention.dropout = 0, c.lr = 0;
  CHECK_THROWS_WITH(validate(c), Contains("`lr` needs a number, above 0 to 10, got '0'"));
  c.lr = 1e-3, c.min_lr = 2e-3;
  CHECK_THROWS_WITH(validate(c), Contains("min-lr"));
  c.min_lr = 0, c.clip = HUGE_VAL;
  CHECK_THROWS_WITH(validate(c), Contains("`clip` needs a finite number, at least 0"));
}

TEST_CASE("validate names options that contradict each other, and how to resolve it") {
  const auto problem = [](auto change) -> std::string {
    RunConfig c;
    change(c);
    return message_of<ValueError>([&] { validate(c); });
  };
  using C = RunConfig;
  using A = MultiHeadAttention::Options;
  const auto attention_problem = [&](auto change) {
    return problem([&](C& c) { change(c.model.attention); });
  };
  CHECK(attention_problem([](A& a) { a.heads = 3, a.d_head = 10; }).empty());
  CHECK(attention_problem([](A& a) { a.heads = 3; }) ==
        "MultiHeadAttention: `d_model` 64 is not divisible by `heads` 3; choose a multiple, or set "
        "`d_head`");
  CHECK(attention_problem([](A& a) { a.d_head = 7; }) ==
        "MultiHeadAttention: RoPE needs an even `d_head` (by default `d_model` / `heads`), got 7");
  CHECK(attention_problem([](A& a) { a.heads = 4, a.kv_heads = 3; }) ==
        "MultiHeadAttention: `kv_heads` needs 0 or a positive divisor of `heads` 4, got 3");
  CHECK(attention_problem([](A& a) { a.out_bias = true; }).empty());
  CHECK(problem([](C& c) { c.model.activation = Activation::kSilu; }) ==
        "`mlp-act`: there is no MLP; add `mlp`");
  CHECK(problem([](C& c) { c.model.mlp_ratio = 2; }) == "`mlp-ratio`: there is no MLP; add `mlp`");
  CHECK_THAT(problem([](C& c) { c.model.mlp = true, c.model.mlp_ratio = 0.001; }),
             Contains("an MLP of at least 1 neuron, got `mlp_ratio` 0.001 with `d_model` 64"));
  CHECK(problem([](C& c) {
          c.model.norm = NormPlacement::kNone, c.model.norm_kind = NormKind::kRMSNorm;
        }) == "`norm-kind`: rmsnorm has no effect with `norm` none; choose `norm` pre or post");
}

TEST_CASE("every init draws the documented standard deviations, and zero biases") {
  const auto std_dev = [](const Tensor& x) {
    return std::sqrt(var(x.detach(), {}, {.correction = 0}).item());
  };
  struct Row {
    Init init;
    double embedding, inside, into_stream, readout;
  };
  const double in = 1 / std::sqrt(64.0), wide = 1 / std::sqrt(256.0), third = std::sqrt(1 / 3.0);
  for (const Row& r : {Row{Init::kFanIn, 0.5, third * in, third * wide, third * in},
                       Row{Init::kGPT2, 0.02, 0.02, 0.01, 0.02}, Row{Init::kOnes, 0.5, 0, 0, 0}}) {
    RunConfig c;
    c.init = r.init, c.model.mlp = c.model.attention.bias = true, c.model.context = 256,
    c.model.positions = Positions::kLearned;
    Generator g(1);
    const Transformer m = make_model(c, 100, 100, g);
    CAPTURE(enum_name(r.init));
    const auto near = [](double x) { return Approx(x).epsilon(0.03); };
    CHECK(std_dev(m.tok.weight) == near(r.embedding));
    CHECK(std_dev(m.pos->weight) == near(r.embedding));
    for (const Block& b : m.blocks) {
      CHECK(std_dev(slice(b.attn.weights.in_proj_weight, 0, 64, 128)) == near(r.inside));
      CHECK(std_dev(b.mlp->down.weight) == near(r.into_stream));
      const bool zero = is_zero(b.mlp->down.bias);
      CHECK(zero == (r.init != Init::kFanIn));
    }
    CHECK(std_dev(m.head->weight) == near(r.readout));
  }
}

}  // namespace
