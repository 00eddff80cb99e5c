// Tests of runs that start from the weights of another run (RunConfig::from), and of frozen
// parameters. resume_test.cpp resumes a run that started from weights.
#include "nn/train/source.h"

#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/runs.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;
using heed::testing::Folder;

std::map<std::string, std::vector<double>> values_of(const Trainer& t) {
  std::map<std::string, std::vector<double>> values;
  for (const NamedTensor& p : parameters(t.model))
    values[p.name] = to(p.tensor, float64).to_vector<double>();
  return values;
}

// A directory with a text and a run of a few steps that learned it.
struct TextRun {
  Folder folder;
  RunConfig config = preset("shakespeare-cpu");

  explicit TextRun(
      const std::string& text, const std::function<void(RunConfig&)>& change = [](RunConfig&) {}) {
    config.task = "text", config.text = write("source.txt", text);
    config.model.layers = 2, config.model.context = 8, config.model.mlp = false;
    config.model.attention.d_model = 16, config.model.attention.heads = 2;
    config.model.attention.dropout = 0;
    config.batch = 8, config.eval_batch = 4, config.steps = 3;
    change(config);
    Trainer t(config);
    run_to(t, 3, 0);
    t.evaluate(false);
    RunFolder(folder.path()).save(t.snapshot());
  }
  std::string write(const std::string& name, const std::string& text) const {
    write_file((folder / name).string(), std::string_view(text));
    return (folder / name).string();
  }
  std::string weights() const { return (folder / RunFolder::kModel).string(); }
  // Returns the configuration of a run that starts from this one.
  RunConfig next(const std::string& text_file = "") const {
    RunConfig c = config;
    c.from = weights();
    if (!text_file.empty()) c.text = text_file;
    return c;
  }
};

std::string repeated(const std::string& words, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += words;
  return text;
}

TEST_CASE("a run from weights has them to the bit, and a new optimizer") {
  const TextRun source(repeated("to be or not ", 40));
  RunConfig c = source.next();
  c.steps = 0;
  Trainer t(c);
  const Trainer old = RunFolder(source.folder.path()).resume();
  CHECK(values_of(t) == values_of(old));
  CHECK(t.steps_done == 0);
  CHECK(t.config().from_weights.starts_with("step 3, crc32c "));
  CHECK(t.evaluate(true).loss == evaluate(old.model, *old.task).loss);
  for (const NamedTensor& x : t.snapshot().part("optimizer."))
    CHECK(all(eq(to(x.tensor, float64), 0.0)).item() != 0);
}

TEST_CASE("weights of tokens are copied by symbol") {
  for (const bool tied : {false, true}) {
    CAPTURE(tied);
    const TextRun source(repeated("abcde fgh ", 40), [&](RunConfig& c) { c.model.tied = tied; });
    const std::string text = repeated("zghab ", 60);  // z is new, c, d, e and f are missing
    RunConfig c = source.next(source.write("next.txt", text));
    CHECK_THROWS_WITH(Trainer(c), Contains("does not know 'z' of 6 symbols; add `new-tokens`"));
    c.new_tokens = true;
    const Trainer t(c), again(c), old = RunFolder(source.folder.path()).resume();
    CHECK(values_of(t) == values_of(again));
    const Vocabulary &symbols = t.task->info().vocabulary, &before = old.task->info().vocabulary;
    for (const std::string& symbol : symbols.symbols()) {
      const auto row = [&](const Transformer& model, const Vocabulary& v) {
        const Tensor x = tied ? model.tok.weight : model.head->weight;
        return std::pair(
            contiguous(select(model.tok.weight, 0, *v.find(symbol))).to_vector<float>(),
            contiguous(select(x, 0, *v.find(symbol))).to_vector<float>());
      };
      if (symbol != "z")
        CHECK(row(t.model, symbols) == row(old.model, before));
      else
        for (const float x : row(t.model, symbols).first) CHECK((std::isfinite(x) && x != 0));
    }
    CHECK(t.model.blocks[1].attn.weights.out_proj_weight.to_vector<float>() ==
          old.model.blocks[1].attn.weights.out_proj_weight.to_vector<float>());
  }
}

TEST_CASE("rows of new tokens have the mean and the deviation of the columns of the source") {
  std::string letters, more;
  for (char c = 'a'; c <= 'z'; ++c) letters += c, more += c, more += char(c - 'a' + 'A');
  const TextRun source(repeated(letters, 40));
  RunConfig c = source.next(source.write("next.txt", repeated(more, 40)));
  c.new_tokens = true;
  const Trainer old = RunFolder(source.folder.path()).resume();
  const Tensor x = to(old.model.tok.weight.detach(), float64);
  const Tensor center = mean(x, {0}), deviation = sqrt(var(x, {0}, {.correction = 0}));
  double sum = 0, squares = 0, n = 0;
  for (c.seed = 1; c.seed <= 8; ++c.seed) {
    const Trainer t(c);
    for (char upper = 'A'; upper <= 'Z'; ++upper) {
      const std::int64_t id = *t.task->info().vocabulary.find(std::string(1, upper));
      const Tensor row = to(select(t.model.tok.weight, 0, id).detach(), float64);
      for (const double z : ((row - center) / deviation).to_vector<double>())
        sum += z, squares += z * z, ++n;
    }
  }
  CHECK(std::abs(sum / n) < 5 / std::sqrt(n));
  CHECK(std::abs(squares / n - 1) < 5 * std::sqrt(2 / n));
}

TEST_CASE("frozen parameters keep their bytes and have no gradient, state or share in the norm") {
  const TextRun source(repeated("to be or not ", 40));
  for (const std::int64_t shards : {1, 2}) {
    RunConfig c = source.next();
    c.train_only = "blocks.1.*", c.weight_decay = 0.5, c.shards = shards;
    Trainer t(c);
    const auto before = values_of(t);
    const MetricsRow report = t.step();
    double squares = 0;
    for (const NamedTensor& p : parameters(t.model)) {
      CAPTURE(p.name, shards);
      const bool trained = p.name.starts_with("blocks.1.");
      CHECK(p.tensor.requires_grad() == trained);
      CHECK(p.tensor.grad().defined() == trained);
      CHECK((values_of(t)[p.name] != before.at(p.name)) == trained);
      if (trained)
        squares += sum(to(p.tensor.grad(), float64) * to(p.tensor.grad(), float64)).item();
    }
    CHECK(report.grad_norm == Approx(std::sqrt(squares)));
    for (const NamedTensor& x : t.snapshot().part("optimizer."))
      CHECK(x.name.starts_with("blocks.1."));
    CHECK(t.parameters_without_gradient().empty());
    c.train_only = "", c.freeze = "tok.*,blocks.0.*,ln.*,pos.*";
    CHECK(frozen_parameters(Trainer(c).model) == frozen_parameters(t.model));
  }
}

TEST_CASE("the context can be longer than that of the source, but not with learned positions") {
  const TextRun learned(repeated("to be or not ", 40)),
      rope(repeated("to be or not ", 40),
           [](RunConfig&c) { c.model.positions = Positions::kRope; });
  for (const TextRun* source : {&learned, &rope}) {
    RunConfig c = source->next();
    c.model.context = 6;
    CHECK(Trainer(c).model.options.context == 6);
    c.model.context = 9;
    if (source == &rope)
      CHECK(Trainer(c).step().step == 1);
    else
      CHECK_THROWS_WITH(Trainer(c), Contains("has learned only 8 positions; needs at most 8"));
  }
}

TEST_CASE("wrong uses of from, freeze and train-only") {
  const TextRun source(repeated("to be or not ", 40));
  const auto problem = [&](const std::function<void(RunConfig&)>& change) {
    RunConfig c = source.next();
    change(c);
    return message_of<Error>([&] { Trainer t(c); });
  };
  CHECK_THAT(problem([](RunConfig& c) { c.model.layers = 3; }),
             Contains("`layers`: is 3, but the model of `from` has 2"));
  CHECK_THAT(problem([](RunConfig& c) { c.model.positions = Positions::kRope; }),
             Contains("`positions`: is rope, but the model of `from` has learned"));
  CHECK_THAT(problem([](RunConfig& c) { c.unit = Unit::kWord; }), Contains("a token of `from` is"));
  CHECK_THAT(problem([](RunConfig& c) { c.freeze = "block.*"; }),
             Contains("'block.*' matches none of the parameters"));
  CHECK_THAT(problem([](RunConfig& c) { c.freeze = "*"; }),
             Contains("leaves no parameter to train"));
  CHECK_THAT(problem([](RunConfig& c) { c.freeze = "tok.*", c.train_only = "ln.*"; }),
             Contains("are both given"));
  CHECK_THAT(problem([](RunConfig& c) { c.from_weights = "step 3, crc32c 00000000"; }),
             Contains("but `from-weights` is 'step 3, crc32c 00000000'"));
  CHECK_THAT(problem([](RunConfig& c) { c.from += "x"; }), Contains("cannot read"));

  const SafeTensors file = load_safetensors(source.weights());
  const std::string other = (source.folder / "other.safetensors").string();
  save_safetensors(other, file.tensors);
  CHECK_THAT(problem([&](RunConfig& c) { c.from = other; }),
             Contains("heed import makes a run of other files"));
  for (const auto& [name, shape] : std::vector<std::pair<std::string, Shape>>{
           {"tok.weight", {1, 16}}, {"tok.weight", {8, 32}}, {"pos.weight", {1, 16}}}) {
    CAPTURE(name, shape);
    SafeTensors changed = file;
    for (NamedTensor& t : changed.tensors)
      if (t.name == name) t.tensor = zeros(shape, float32);
    save_safetensors(other, changed.tensors, file.metadata);
    CHECK_THAT(problem([&](RunConfig& c) { c.from = other; }),
               Contains(name + " is float32") && Contains("was changed: restore it"));
  }
  CHECK(read_source((source.folder / RunFolder::kState).string()).text() ==
        read_source(source.weights()).text());
  save_safetensors(other, {{"a", zeros({2}, float32)}}, file.metadata);
  CHECK_THAT(problem([&](RunConfig& c) { c.from = other; }),
             Contains("contains no token embedding"));
  fill_(file.find("blocks.1.ln1.weight"), std::nan(""));
  save_safetensors(other, file.tensors, file.metadata);
  CHECK_THAT(problem([&](RunConfig& c) { c.from = other; }),
             Contains("blocks.1.") && Contains("is nan") && Contains("start from other weights"));
}

}  // namespace
