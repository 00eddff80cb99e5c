// Tests of studies over the checkpoints of a run: which files are checkpoints, the order of
// checkpoints, the numbers of each of them, and errors.
#include "nn/lab/study/over_time.h"

#include <fmt/format.h>

#include "nn/nn.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/studies.h"

namespace {

namespace fs = std::filesystem;
using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;
using heed::testing::Folder;

Batch two_cycles() {
  Sequence a, b;
  a.inputs = {0, 1, 2, 0, 1, 2}, a.targets = {1, 2, 0, 1, 2, 0};
  b.inputs = {3, 4, 3, 4, 3, 4}, b.targets = {4, 3, 4, 3, 4, 3};
  a.counted = {false, false, true, true, true, true};
  b.counted = {false, true, true, true, true, true};
  a.optimal = 0.25, b.optimal = 0.75;
  return make_batch({a, b});
}

// Returns the model of a checkpoint.
Transformer model_at(Index step) { return random_module<Transformer>(small_options(), step + 1); }

// A run directory with checkpoints.
struct Checkpoints {
  Folder folder;
  Checkpoints() { fs::create_directory(folder.path() / "checkpoints"); }
  fs::path path(const std::string& name) const { return folder.path() / "checkpoints" / name; }
  void write(const std::string& name, Index step, const std::string& recipe = recipe_text({}),
             std::optional<std::vector<NamedTensor>> tensors = {}) const {
    save_safetensors(path(name).string(), tensors ? *tensors : parameters(model_at(step)),
                     {{"step", std::to_string(step)}, {"recipe", recipe}});
  }
  std::vector<CheckpointFile> files() const { return RunFolder(folder.path()).checkpoints(); }
  OverTime study(const Objective& objective = {Objective::kLogLikelihood}) const {
    Transformer model(small_options());
    return over_time(model, files(), {two_cycles(), next_donors(two_cycles()), 0}, objective);
  }
};

TEST_CASE("checkpoints are sorted by step; other files and an unreadable directory are not") {
  const Checkpoints c;
  const auto other = [&](const char* name) { std::ofstream(c.path(name)) << "x"; };
  for (const char* name : {"mine.safetensors", "12x4.safetensors", "-5.safetensors", "notes.txt",
                           "77", "000010.safetensors.tmp12.0"})
    other(name);
  CHECK(c.files().empty());
  c.write("1000000.safetensors", 1000000);  // sorted as text, it precedes 999999
  c.write("999999.safetensors", 999999);
  c.write("000000.safetensors", 0);
  c.write("000500.safetensors", 500);  // steps need not be evenly spaced
  CHECK(c.study().steps == std::vector<Index>{0, 500, 999999, 1000000});
  const Folder empty;
  CHECK(RunFolder(empty.path()).checkpoints().empty());
  std::ofstream(empty.path() / "checkpoints") << "a file";
  CHECK_THROWS_AS(RunFolder(empty.path()).checkpoints(), IoError);
}

TEST_CASE("numbers are those of each checkpoint, with the first donor of each sequence") {
  const Checkpoints c;
  for (const Index step : {0, 10, 20}) c.write(fmt::format("{:06}.safetensors", step), step);
  const Batch batch = two_cycles();
  for (const Objective& objective :
       {Objective{Objective::kLogLikelihood}, Objective{Objective::kDifference, 1, 2, {3}}}) {
    const OverTime all = c.study(objective);
    REQUIRE((all.components.size() == 8 && all.resid.size() == 3));
    for (std::size_t i = 0; i < 3; ++i) {
      const Transformer model = model_at(Index(i) * 10);
      const BaseRun run(model, batch, objective);
      const Donors donors = next_donors(batch).first();
      const ComponentStudy expected = study_components(run, donors, kSmallestEffect, false);
      const auto same = [](double x, double y) {
        CHECK(x == Approx(y).epsilon(1e-12).margin(1e-13));
      };
      same(all.value[i], effect_of(run.values, run.counts).mean);
      // 9 of the 12 positions count in the accuracy: all except 0, 1 and 6.
      const auto losses =
          cross_entropy(model(batch.inputs), batch.targets, {.reduction = Reduction::kNone})
              .to_vector<double>();
      double sum = 0, counted = 0;
      for (std::size_t k = 0; k < 12; ++k) {
        sum += losses[k];
        if (k != 0 && k != 1 && k != 6) counted += losses[k];
      }
      same(all.loss[i], sum / 12), same(all.counted_loss[i], counted / 9);
      if (objective.is_of_targets()) same(all.value[i], -counted / 9);
      for (std::size_t k = 0; k < 8; ++k) {
        const ComponentCurves& curves = all.components[k];
        CHECK((curves.name == expected.rows[k].place && curves.head.has_value() == (k < 6)));
        same(curves.effect[i], expected.rows[k].effect.mean);
        same(curves.accuracy[i], expected.rows[k].effect.accuracy);
        same(curves.path[i], expected.rows[k].path);
        CHECK(std::isnan(curves.passes[i]) == (k >= 6));
        if (k < 6) same(curves.passes[i], expected.attribution.flow.passes[k]);
        CHECK_FALSE((curves.score[i] < 0 || curves.score[i] > 1 + 1e-9));
      }
      same(all.resid[2][i], expected.attribution.flow.resid[2]);
    }
  }
}

// Returns a study whose checkpoints have these losses.
OverTime with_losses(const std::vector<Index>& steps, const std::vector<double>& losses,
                     const std::vector<double>& counted) {
  return {.steps = steps, .loss = losses, .counted_loss = counted};
}

TEST_CASE("the steepest fall uses the counted loss per step, or the whole loss if none counts") {
  const std::vector<Index> steps{0, 100, 110, 200, 210};
  const std::vector<double> loss{1, 2, 2.5, 4, 3.8}, none(5, NAN);
  // Falls per step: 0.01, 0.05, 0.017, less than 0.
  const auto fall = steepest_fall(with_losses(steps, loss, {4, 3, 2.5, 1, 1.2}));
  REQUIRE(fall);
  CHECK((fall->from == 100 && fall->to == 110 && fall->middle() == 105));
  CHECK(steepest_fall(with_losses(steps, loss, none)).value().to == 210);
  CHECK_FALSE(steepest_fall(with_losses({0, 10}, {9, 3}, {1, 2})));
  CHECK_FALSE(steepest_fall(with_losses({0}, {1}, {1})));
}

TEST_CASE("the error for a damaged, renamed or foreign checkpoint has the name of the file") {
  const Checkpoints c;
  const std::string name = "000010.safetensors";
  c.write("000000.safetensors", 0);
  const auto fails = [&](const std::string& text) {
    CHECK_THAT(message_of<IoError>([&] { c.study(); }), Contains(name) && Contains(text));
  };
  c.write(name, 20);
  fails(name + ": contains step 20, not the step in its name");
  RunConfig other;
  other.lr = 0.5;
  c.write(name, 10, recipe_text(other));
  fails(name + ": belongs to another run than ");
  save_safetensors(c.path(name).string(), {{"x", zeros({2})}});
  fails("has no 'step'; heed train did not write this file");
  // A valid file that has only half of the tensors of the model.
  std::vector<NamedTensor> tensors = parameters(model_at(10));
  c.write(name, 10, recipe_text({}), {{tensors.begin(), tensors.begin() + 5}});
  fails(name + " does not fit: missing");
  const NoGrad guard;
  copy_(tensors.back().tensor, tensors.back().tensor / 0.0);
  c.write(name, 10, recipe_text({}), tensors);
  CHECK_THROWS_AS(c.study(), NumericError);  // the loss of these weights is not finite
}

}  // namespace
