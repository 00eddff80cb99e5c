// Tests of studies over the checkpoints of a run: which files are checkpoints, the order of
// checkpoints, the values of each study, and errors.
#include "nn/study/over_time.h"

#include "nn/nn.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/models.h"

namespace {

namespace fs = std::filesystem;
using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;
using heed::testing::Folder;

Transformer::Options cycle_reader() {
  Transformer::Options o;
  o.vocab = 6, o.attention.d_model = 8, o.attention.heads = 2, o.layers = 2, o.context = 6,
  o.attention.dtype = float64;
  return o;
}

Batch two_cycles() {
  Sequence a, b;
  a.inputs = {0, 1, 2, 0, 1, 2}, a.targets = {1, 2, 0, 1, 2, 0};
  b.inputs = {3, 4, 3, 4, 3, 4}, b.targets = {4, 3, 4, 3, 4, 3};
  a.counted = {false, false, true, true, true, true};
  b.counted = {false, true, true, true, true, true};
  a.optimal = 0.25, b.optimal = 0.75;
  return make_batch({a, b});
}

// A run directory whose checkpoints have random weights. The seed of a checkpoint is its step + 1.
struct Checkpoints {
  Folder folder;
  fs::path path(const std::string& name) const { return folder.path() / "checkpoints" / name; }
  Checkpoints() { fs::create_directory(folder.path() / "checkpoints"); }
  void write(const std::string& name, std::int64_t step,
             const std::string& recipe = recipe_text({})) const {
    const Transformer model = random_module<Transformer>(cycle_reader(), step + 1);
    save_safetensors(path(name).string(), parameters(model),
                     {{"step", std::to_string(step)}, {"recipe", recipe}});
  }
  OverTime study() const {
    Transformer model(cycle_reader());
    return over_time(model, RunFolder(folder.path()).checkpoints(),
                     {two_cycles(), {Objective::kLogOdds}, two_cycles()});
  }
  std::string error() const {
    return message_of<IoError>([&] { study(); });
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("checkpoints are sorted by step, and other files are left out") {
  const Checkpoints c;
  c.write("1000000.safetensors", 1000000);  // sorted as text, it precedes 999999
  c.write("999999.safetensors", 999999);
  c.write("000000.safetensors", 0);
  c.write("000500.safetensors", 500);  // steps need not be evenly spaced
  for (const char* other : {"mine.safetensors", "12x4.safetensors", "-5.safetensors", "notes.txt",
                            "77", "000010.safetensors.tmp12.0"})
    std::ofstream(c.path(other)) << "x";
  std::vector<std::int64_t> steps;
  for (const CheckpointFile& found : RunFolder(c.folder.path()).checkpoints())
    steps.push_back(found.step);
  CHECK(steps == std::vector<std::int64_t>{0, 500, 999999, 1000000});
  const OverTime study = c.study();
  REQUIRE(study.checkpoints.size() == 4);
  CHECK(study.checkpoints[2].step == 999999);
}

TEST_CASE("each entry is the study of its own checkpoint on the same batch") {
  const Checkpoints c;
  for (const std::int64_t step : {0, 10, 20}) c.write(std::to_string(step) + ".safetensors", step);
  const OverTime all = c.study();
  CHECK(all.sequences == 2);
  CHECK(all.optimal == Approx(0.5));
  REQUIRE(all.checkpoints.size() == 3);
  const Batch batch = two_cycles();
  for (const CheckpointStudy& m : all.checkpoints) {
    const Transformer model = random_module<Transformer>(cycle_reader(), m.step + 1);
    const Study expected = heed::nn::study(model, batch, {.kind = Objective::kLogOdds});
    CHECK(m.value == expected.value);
    CHECK(m.loss == mean(objective_values(model(batch.inputs), batch, {})).item());
    REQUIRE(m.heads.size() == 4);
    for (std::size_t i = 0; i < 4; ++i)
      for (const HeadQuantity& q : head_quantities())
        if (q.source == q.kStudy) CHECK(m.heads[i][q.quantity] == expected.heads[i][q.quantity]);
    const Replacement means = replacement(model, batch, Ablation::kMean);
    const MeasuredHeads measured =
        measure_heads({model, batch, {.kind = Objective::kLogOdds}}, means, EffectParts::kMeasured);
    for (std::size_t i = 0; i < 4; ++i)
      for (const Quantity q : {kNeeded, kPredicted})
        CHECK(m.heads[i][q] == Approx(measured.reports[i][q]));
    REQUIRE(m.flow.size() == 2);
    CHECK(m.flow[1].resid_post_grad == expected.flow[1].resid_post_grad);
    // 9 of the 12 positions count in the accuracy: all except 0, 1 and 6.
    const auto losses =
        cross_entropy(model(batch.inputs), batch.targets, {.reduction = Reduction::kNone})
            .to_vector<double>();
    double sum = 0;
    for (std::size_t i = 0; i < 12; ++i)
      if (i != 0 && i != 1 && i != 6) sum += losses[i];
    CHECK(m.counted_loss == Approx(sum / 9));
  }
  CHECK(all.checkpoints[0].loss != all.checkpoints[1].loss);
}

TEST_CASE("L may be on other sequences than the losses and the means") {
  const Checkpoints c;
  for (const std::int64_t step : {0, 10}) c.write(std::to_string(step) + ".safetensors", step);
  Transformer model(cycle_reader());
  const Batch one = batch_of({{1, 2, 0, 1}});
  const Objective o{Objective::kDifference, 1, 2, {3}};
  const OverTime all =
      over_time(model, RunFolder(c.folder.path()).checkpoints(), {one, o, two_cycles()});
  const OverTime whole = c.study();
  CHECK(all.sequences == 1);
  for (std::size_t i = 0; i < 2; ++i) {
    const CheckpointStudy& m = all.checkpoints[i];
    const Transformer at = random_module<Transformer>(cycle_reader(), m.step + 1);
    CHECK(m.loss == whole.checkpoints[i].loss);
    CHECK(m.value == objective_values(at(one.inputs), one, o).item());
    const Replacement means = replacement(at, two_cycles(), Ablation::kMean);
    CHECK(m.heads[3][kNeeded] == Approx(ablate({at, one, o}, {{1, 1}}, means).mean));
  }
}

TEST_CASE("the page has the first and last checkpoint, the steepest fall, and others evenly") {
  OverTime study;
  std::vector<CheckpointFile> all;
  for (std::int64_t step = 0; step <= 100; step += 10) {
    all.push_back({step, ""});
    CheckpointStudy m;
    m.step = step, m.counted_loss = step < 40 ? 3 : 1;
    study.checkpoints.push_back(m);
  }
  const auto steps = [&](std::size_t most) {
    std::vector<std::int64_t> found;
    for (const CheckpointFile& c : select_checkpoints(all, study, most)) found.push_back(c.step);
    return found;
  };
  CHECK(steps(11).size() == 11);
  CHECK(steps(0) == std::vector<std::int64_t>{0, 30, 40, 100});
  CHECK(steps(6) == std::vector<std::int64_t>{0, 20, 30, 40, 60, 100});
}

TEST_CASE("the error for a damaged, renamed or foreign checkpoint has the name of the file") {
  const Checkpoints c;
  c.write("000000.safetensors", 0);
  c.write("000010.safetensors", 10);
  REQUIRE(c.study().checkpoints.size() == 2);

  fs::resize_file(c.path("000010.safetensors"), fs::file_size(c.path("000010.safetensors")) / 2);
  CHECK(has(c.error(), "000010.safetensors"));
  c.write("000010.safetensors", 20);
  CHECK(has(c.error(), "000010.safetensors: contains step 20, not the step in its name"));
  RunConfig other;
  other.lr = 0.5;
  c.write("000010.safetensors", 10, recipe_text(other));
  CHECK(has(c.error(), "000010.safetensors: belongs to another run than "));
  save_safetensors(c.path("000010.safetensors").string(), {{"x", zeros({2})}});
  CHECK(has(c.error(), "has no 'step' in its metadata, so it is not a checkpoint of heed train"));
  // A valid file that has only half of the tensors of the model.
  const Transformer model(cycle_reader());
  std::vector<NamedTensor> half = parameters(model);
  half.resize(half.size() / 2);
  save_safetensors(c.path("000010.safetensors").string(), half,
                   {{"step", "10"}, {"recipe", recipe_text({})}});
  CHECK(has(c.error(), "000010.safetensors does not fit: missing"));
}

TEST_CASE("weights whose loss is not finite are a NumericError") {
  const Checkpoints c;
  c.write("000000.safetensors", 0);
  Transformer model(cycle_reader());
  const NoGrad guard;
  copy_(model.head->weight, zeros(model.head->weight.shape(), float64) / 0.0);
  save_safetensors(c.path("000010.safetensors").string(), parameters(model),
                   {{"step", "10"}, {"recipe", recipe_text({})}});
  CHECK_THROWS_AS(c.study(), NumericError);
}

TEST_CASE("files with other names are not checkpoints; an unreadable directory is an error") {
  const Folder empty;
  CHECK(RunFolder(empty.path()).checkpoints().empty());
  const Checkpoints none;
  std::ofstream(none.path("mine.safetensors")) << "x";
  CHECK(RunFolder(none.folder.path()).checkpoints().empty());
  std::ofstream(empty.path() / "checkpoints") << "a file";
  CHECK_THROWS_AS(RunFolder(empty.path()).checkpoints(), IoError);
}

OverTime with_losses(const std::vector<std::pair<std::int64_t, double>>& counted) {
  OverTime study;
  for (const auto& [step, loss] : counted) {
    CheckpointStudy m;
    m.step = step, m.loss = 5 - loss, m.counted_loss = loss;
    m.heads = {HeadReport{}, HeadReport{}};
    m.heads[1].layer = 1, m.heads[1][kInduction] = 1 - loss / 4;
    study.checkpoints.push_back(m);
  }
  return study;
}

TEST_CASE("the steepest fall uses the counted loss per step, or the whole loss if none counts") {
  OverTime study = with_losses({{0, 4}, {100, 3}, {110, 2.5}, {200, 1}, {210, 1.2}});
  const auto fall = steepest_fall(study);  // falls per step: 0.01, 0.05, 0.017, less than 0
  REQUIRE(fall);
  CHECK(fall->from == 100);
  CHECK(fall->to == 110);
  CHECK(fall->middle() == 105);
  for (CheckpointStudy& m : study.checkpoints) m.counted_loss = NAN;  // `loss` is 1, 2, 2.5, 4, 3.8
  REQUIRE(steepest_fall(study));
  CHECK(steepest_fall(study)->to == 210);
  CHECK_FALSE(steepest_fall(with_losses({{0, 1}, {10, 2}})));
  CHECK_FALSE(steepest_fall(with_losses({{0, 1}})));
}

TEST_CASE("first_reached returns the first step of a head in the given layer") {
  const OverTime study = with_losses({{0, 4}, {100, 3}, {110, 2}, {200, 1}});
  CHECK(first_reached(study, kInduction, 1, 0.5) == 110);
  CHECK_FALSE(first_reached(study, kInduction, 1, 0.9));
  CHECK_FALSE(first_reached(study, kInduction, 0, 0.5));
}

}  // namespace
