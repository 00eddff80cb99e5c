// Tests of runs that start from the weights of another run (RunConfig::from). resume_test.cpp
// resumes a run that started from weights.
#include "nn/lab/train/source.h"

#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/runs.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;
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

TEST_CASE("weights of tokens are copied by symbol; the data may lack symbols of the model") {
  const TextRun source(repeated("to be or not ", 40), [](RunConfig& c) { c.model.tied = false; });
  RunConfig c = source.next(source.write("next.txt", repeated("to be or ", 40)));
  c.steps = 0;
  const Trainer t(c), old = RunFolder(source.folder.path()).resume();
  const Vocabulary &ours = t.task->info().vocabulary, &theirs = old.task->info().vocabulary;
  REQUIRE(ours.size() < theirs.size());
  for (Index id = 0; id < ours.size(); ++id) {
    const Index row = theirs.find(ours.symbols()[std::size_t(id)]).value();
    CHECK(same_bits(slice(t.model.tok.weight, 0, id, id + 1),
                    slice(old.model.tok.weight, 0, row, row + 1)));
    CHECK(same_bits(slice(t.model.head->weight, 0, id, id + 1),
                    slice(old.model.head->weight, 0, row, row + 1)));
  }
}

TEST_CASE("wrong uses of from") {
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
  const std::string next = source.write("next.txt", repeated("to be or not z ", 40));
  CHECK_THAT(
      problem([&](RunConfig& c) { c.text = next; }),
      Contains(
          "does not know 'z', one of the 8 symbols of the data; choose data with its symbols"));
  CHECK_THAT(problem([](RunConfig& c) { c.unit = Unit::kWord; }),
             Contains("does not know ' be', one of the 6 symbols"));
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
    CHECK_THAT(problem([&](RunConfig& c) { c.from = other; }), Contains(name + " is float32"));
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
