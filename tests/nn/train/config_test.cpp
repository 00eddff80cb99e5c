// A run's configuration: as text and back, and what it refuses.
#include "nn/train/config.h"

#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;

TEST_CASE("config.toml keeps every value, or validate refuses it") {
  RunConfig c = preset("reverse");
  c.task = "text", c.text = "/a b/it's [one], 2 = 3;ä.txt", c.lr = 0.1 + 0.2;
  validate(c);
  CHECK(to_toml(from_toml(to_toml(c))) == to_toml(c));
  CHECK(from_toml(to_toml(c)).text == c.text);
  for (const char* bad : {"a#b", "a\"b", "a\\b", "a\nb", "a\x7f"}) {
    c.text = bad;
    CHECK_THROWS_WITH(validate(c), Contains("text: "));
    CHECK_THROWS_AS(validate(c), ValueError);
  }
}

TEST_CASE("sizes beyond 16 GB are refused before memory is taken") {
  RunConfig c;
  c.mlp = true, c.layers = 100, c.d_model = 4096, c.heads = 1, c.batch = 1, c.context = 1;
  CHECK_THROWS_WITH(validate(c), Contains("gradients and moments"));
  RunConfig logits;
  logits.layers = 1, logits.heads = 1, logits.d_model = 2, logits.batch = 4096, logits.context = 64;
  logits.positions = "none";
  validate(logits);
  Generator g(1);
  CHECK_THROWS_AS(make_model(logits, 65536, 65536, g), ValueError);
}

}  // namespace
