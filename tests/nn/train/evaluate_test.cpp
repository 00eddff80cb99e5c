// What an evaluation says of a model.
#include "nn/train/evaluate.h"

#include "tests/support/catch.h"

namespace {

using namespace heed::nn;

TEST_CASE("a loss below the best possible one is a leak") {
  Evaluation e;
  e.loss = 1.0, e.optimal = 1.1, e.standard_error = 0.01;
  CHECK(leaks(e));
  e.standard_error = 0.03;  // 3.3 standard errors may be luck
  CHECK(!leaks(e));
  e.loss = 1.2, e.standard_error = 0.01;
  CHECK(!leaks(e));
  e.loss = 0, e.standard_error = 0;  // all targets seen: every sequence has the same gap
  CHECK(leaks(e));
  e.loss = 1.0, e.optimal.reset();
  CHECK(!leaks(e));
}

}  // namespace
