// Tests of import_weights: what the tensors show, what a configuration must state, and refusals.
#include "nn/lab/train/import_weights.h"

#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/models.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using Catch::Matchers::StartsWith;
using heed::nn::testing::random_model;

constexpr const char* kLines = "[train]\ntask = \"markov\"\nheads = 2\nmlp-act = \"gelu\"\n";

// Returns a GPT for the task markov, which has two symbols.
Transformer gpt() {
  return random_model({.vocab = 2,
                       .layers = 2,
                       .context = 32,
                       .attention = {.d_model = 8, .heads = 2},
                       .tied = true});
}

// Returns the weights of gpt() without metadata, as another program saves them.
SafeTensors gpt_file() { return {"file", weights_with_names(gpt(), WeightNames::kNanoGPT)}; }

std::string problem(const SafeTensors& file, const std::string& lines = kLines) {
  try {
    import_weights(file, read_toml(lines, "lines"));
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST_CASE("a file of another program needs only what its tensors do not show") {
  const ImportedWeights imported = import_weights(gpt_file(), read_toml(kLines, "lines"));
  const Transformer model = gpt();
  CHECK(imported.model.options == model.options);
  const auto ours = parameters(imported.model), theirs = parameters(model);
  for (std::size_t i = 0; i < ours.size(); ++i) CHECK(same_bits(ours[i].tensor, theirs[i].tensor));
  CHECK_THAT(problem(gpt_file(), ""),
             StartsWith("file: the file does not show task, heads and mlp-act; add them"));
  CHECK_THAT(problem(gpt_file(), "[train]\ntask = \"text\"\n"),
             StartsWith("file: the file does not show heads, mlp-act and text; add them"));
  CHECK(problem(gpt_file(), std::string(kLines) + "lr = 0.1\n") == "");
  const SafeTensors lens{"file", weights_with_names(gpt(), WeightNames::kTransformerLens)};
  CHECK_THAT(problem(lens), StartsWith("file: the file does not show positions and window; add"));
  CHECK(problem(lens, std::string(kLines) + "positions = \"learned\"\nwindow = 0\n") == "");
}

TEST_CASE("names of a compiled or distributed model are understood") {
  for (const std::string prefix : {"module.", "_orig_mod.module.", "module._orig_mod."}) {
    SafeTensors file = gpt_file();
    for (NamedTensor& t : file.tensors) t.name = prefix + t.name;
    CHECK(problem(file) == "");
  }
}

TEST_CASE("the model has the dtype of the tensors, unless a line states another") {
  SafeTensors file = gpt_file();
  for (NamedTensor& t : file.tensors) t.tensor = to(t.tensor, float64);
  const ImportedWeights imported = import_weights(file, read_toml(kLines, "lines"));
  CHECK(parameters(imported.model)[0].tensor.dtype() == float64);
  CHECK(imported.config.model.attention.dtype == float64);
  CHECK_THAT(problem(file, std::string(kLines) + "dtype = \"float32\"\n"),
             Contains("is float64 [2, 8] in the file, needs float32 [2, 8]"));
}

TEST_CASE("a file that contradicts its configuration or itself is an error") {
  SafeTensors file = gpt_file();
  for (const char* key : {"eps", "layer_norm_epsilon"}) {
    file.metadata = {{key, "1e-6"}};
    CHECK_THAT(problem(file), Contains("1e-6") && Contains("those of heed have 1e-05"));
    file.metadata = {{key, "0.00001"}};
    CHECK(problem(file) == "");
  }
  CHECK_THAT(problem(file, std::string(kLines) + "layers = 200\n"),
             StartsWith("file: its tensors show layers 2, but the configuration has 200"));
  CHECK_THAT(problem(file, "[train]\ntask = \"copy\"\nheads = 2\nmlp-act = \"gelu\"\n"),
             Contains("the token embedding has shape [2, 8], but the task copy has 17 symbols"));
  for (NamedTensor& t : file.tensors)
    if (t.name == "transformer.h.0.ln_1.bias") fill_(t.tensor, std::nan(""));
  CHECK_THAT(problem(file), StartsWith("file: blocks.0.ln1.bias is nan at [0]"));
  std::erase_if(file.tensors, [](const NamedTensor& t) { return Contains(".h.0.").match(t.name); });
  CHECK_THAT(problem(file), Contains("missing transformer.h.0.ln_1.weight [8]"));
  file = gpt_file();
  for (NamedTensor& t : file.tensors)
    if (t.tensor.size(0) == 2) t.tensor = zeros({50304, 8});
  CHECK_THAT(problem(file), Contains("which heed cannot read"));
  CHECK_THAT(problem(file, ""), StartsWith("file: its tokens are the 50257 byte pairs of GPT-2"));
}

}  // namespace
