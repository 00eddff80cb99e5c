// The choice of the next token.
#include "nn/train/generate.h"

#include <cmath>

#include "autograd/ops/ops.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;

TEST_CASE("a temperature near 0 takes the likeliest") {
  Generator g(1);
  const Tensor logits = heed::autograd::tensor({1000.0, 1001.0, -1000.0}, heed::autograd::float32);
  for (int i = 0; i < 20; ++i) CHECK(sample_token(logits, {.temperature = 1e-300}, g) == 1);
}

TEST_CASE("a logit that is not a number is no choice") {
  CHECK_THROWS_WITH(sample_token(full({3}, std::nan("")), {.greedy = true}, default_generator()),
                    Contains("the logit of token 0 is nan"));
}

}  // namespace
