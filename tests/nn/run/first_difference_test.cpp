// Tests of the search for the first difference between the weights of two runs.
#include "nn/run/first_difference.h"

#include "autograd/ops/ops.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"

namespace {

namespace fs = std::filesystem;
using namespace heed::autograd;
using namespace heed::nn;
using heed::testing::Folder;

SafeTensors file_of(std::vector<float> w, std::vector<float> b) {
  SafeTensors f;
  f.path = "file";
  f.tensors = {{"w", from_data(w, {2, 3})}, {"b", from_data(b, {std::int64_t(b.size())})}};
  return f;
}

TEST_CASE("the first difference names tensor, index and both values") {
  const SafeTensors a = file_of({0, 1, 2, 3, 4, 5}, {1, 2});
  CHECK_FALSE(first_difference(a, file_of({0, 1, 2, 3, 4, 5}, {1, 2})));
  const auto w = first_difference(a, file_of({0, 1, 2, 3, 7, 8}, {1, 3}));
  REQUIRE(w);
  CHECK(w->tensor == "w");
  CHECK(w->index == Shape{1, 1});
  CHECK(w->a == 4);
  CHECK(w->b == 7);
  const auto b = first_difference(a, file_of({0, 1, 2, 3, 4, 5}, {1, 3}));
  REQUIRE(b);
  CHECK(b->tensor == "b");
  CHECK(b->index == Shape{1});
}

TEST_CASE("bits are compared, not values") {
  const SafeTensors a = file_of({0, NAN, 2, 3, 4, 5}, {1, 2});
  CHECK_FALSE(first_difference(a, file_of({0, NAN, 2, 3, 4, 5}, {1, 2})));
  const auto zero = first_difference(a, file_of({-0.0f, NAN, 2, 3, 4, 5}, {1, 2}));
  REQUIRE(zero);
  CHECK(zero->index == Shape{0, 0});
  const float next = std::nextafterf(5, 6);
  REQUIRE(first_difference(a, file_of({0, NAN, 2, 3, 4, next}, {1, 2})));
}

TEST_CASE("files with different tensors cannot be compared") {
  const SafeTensors a = file_of({0, 1, 2, 3, 4, 5}, {1, 2});
  CHECK_THROWS_AS(first_difference(a, file_of({0, 1, 2, 3, 4, 5}, {1, 2, 3})), IoError);
  SafeTensors fewer = a;
  fewer.tensors.pop_back();
  CHECK_THROWS_AS(first_difference(a, fewer), IoError);
  SafeTensors renamed = a;
  renamed.tensors[1].name = "c";
  CHECK_THROWS_AS(first_difference(a, renamed), IoError);
}

// A run directory in which each checkpoint and the final weights contain one tensor, all of whose
// elements are equal.
struct TinyRun {
  Folder folder;
  TinyRun(const std::vector<std::pair<std::int64_t, float>>& checkpoints, std::int64_t last,
          float final_value) {
    fs::create_directory(folder.path() / "checkpoints");
    for (const auto& [step, value] : checkpoints)
      write("checkpoints/" + std::to_string(step) + ".safetensors", step, value);
    write("model.safetensors", last, final_value);
  }
  void write(const std::string& name, std::int64_t step, float value) const {
    save_safetensors((folder.path() / name).string(), {{"w", full({2}, value)}},
                     {{"step", std::to_string(step)}});
  }
};

TEST_CASE("runs are compared at their common checkpoints, then at their final weights") {
  const TinyRun a({{0, 1}, {10, 2}, {20, 3}}, 30, 4);
  using Steps = std::vector<std::int64_t>;
  const RunsDifference equal = compare_weights(a.folder.path(), a.folder.path());
  CHECK_FALSE(equal.first);
  CHECK(equal.steps == Steps{0, 10, 20, 30});

  const TinyRun middle({{0, 1}, {5, 9}, {10, 7}, {20, 8}}, 30, 5);
  const RunsDifference d = compare_weights(a.folder.path(), middle.folder.path());
  CHECK(d.steps == Steps{0, 10});  // only one run has step 5
  REQUIRE(d.first);
  CHECK(d.first->a == 2);
  CHECK(d.first->b == 7);

  const TinyRun end({{0, 1}}, 30, 5);
  const RunsDifference e = compare_weights(a.folder.path(), end.folder.path());
  CHECK(e.steps == Steps{0, 30});
  REQUIRE(e.first);
  CHECK(e.first->b == 5);

  const TinyRun saved_last({{30, 4}}, 30, 5);  // the last step also has a checkpoint
  const TinyRun also({{30, 4}}, 30, 4);
  const RunsDifference g = compare_weights(saved_last.folder.path(), also.folder.path());
  CHECK(g.steps == Steps{30});
  REQUIRE(g.first);
  CHECK(g.first->a == 5);

  const TinyRun longer({{0, 1}}, 60, 5);  // final weights of different steps are not compared
  const RunsDifference f = compare_weights(a.folder.path(), longer.folder.path());
  CHECK(f.steps == Steps{0});
  CHECK_FALSE(f.first);
}

TEST_CASE("weights that are missing or have no step are not compared") {
  const TinyRun a({{0, 1}}, 30, 4), gone({{0, 1}}, 30, 5), no_step({}, 30, 5);
  fs::remove(gone.folder.path() / "model.safetensors");
  save_safetensors((no_step.folder.path() / "model.safetensors").string(), {{"w", full({2}, 5)}});
  CHECK(compare_weights(a.folder.path(), gone.folder.path()).steps == std::vector<std::int64_t>{0});
  CHECK(compare_weights(a.folder.path(), no_step.folder.path()).steps.empty());
}

}  // namespace
