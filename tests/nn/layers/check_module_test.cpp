// Tests of check_module(): right modules pass, and a wrong gradient names its parameter.
#include "nn/layers/check_module.h"

#include "nn/layers/transformer.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;

// x * scale + shift, with a factor on the gradient of one of the parameters.
struct Scaled : Module {
  struct Options {
    std::string wrong;  // name of the parameter whose gradient is wrong; "" if none is
    double factor = 1;
  } options;
  Tensor scale, shift;

  explicit Scaled(const Options& o, Generator& g)
      : options(o), scale(ones({3}, float64)), shift(zeros({3}, float64)) {
    (void)g;
  }
  template <class F>
  void visit(F&& f) {
    f("scale", scale), f("shift", shift);
  }
  // Returns p, whose gradient is options.factor times the right one if `name` is wrong.
  Tensor seen(const char* name, const Tensor& p) const {
    if (options.wrong != name) return p;
    return p * options.factor + p.detach() * (1 - options.factor);
  }
  Tensor operator()(const Tensor& x) const {
    return x * seen("scale", scale) + seen("shift", shift);
  }
};

TEST_CASE("check_module() accepts right modules and names the parameter of a wrong gradient") {
  Generator g(1);
  const Tensor x = from_data(std::vector<double>{0.5, -1, 2, 3, 0.25, -0.5}, {2, 3});
  const ModuleReport right = check_module(Scaled({}, g), {x});
  CHECK(right.ok());
  REQUIRE(right.tensors.size() == 3);
  CHECK((right.tensors[0].name == "scale" && right.tensors[2].name == "input 0"));
  for (const std::string wrong : {"scale", "shift"})
    for (const double factor : {0.0, 1 + 1e-6, -1.0}) {
      CAPTURE(wrong, factor);
      const ModuleReport report = check_module(Scaled({wrong, factor}, g), {x});
      CHECK(!report.ok());
      CHECK(report.message().starts_with(wrong + ": "));
    }
  CHECK(!ModuleReport().ok());
}

TEST_CASE("check_module() checks a layer in float32, and a model whose input has token ids") {
  Generator g(1);
  const Linear layer({.in = 3, .out = 2}, g);
  const Tensor x = to(from_data(std::vector<double>{0.5, -1, 2}, {1, 3}), float32);
  const ModuleReport report = check_module(layer, {x});
  CHECK(report.message() == "");
  CHECK(report.tensors.size() == 3);
  const Transformer model({.vocab = 5,
                           .classes = 5,
                           .layers = 1,
                           .context = 4,
                           .attention = {.d_model = 8, .heads = 2}},
                          g);
  const Tensor tokens = from_data(std::vector<std::int64_t>{0, 3, 1, 3}, {1, 4});
  const ModuleReport of_model =
      check_module(model, {tokens}, {.dual_entries = 4, .difference_entries = 4});
  CHECK(of_model.message() == "");
  CHECK(of_model.tensors.size() == parameters(model).size());
}

}  // namespace
