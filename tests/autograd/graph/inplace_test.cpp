// Tests which in-place writes are rejected, and which saved values an in-place write makes stale.
#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/checks.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;
using namespace testing;

TEST_CASE("a value changed in place after use is an error, not a wrong gradient") {
  const Tensor x = leaf({3, 4}), w = tensor({1, 2}, float64);
  const Tensor y = sum(x * w);
  fill_(w, 7);
  CHECK_THROWS_WITH(backward(y),
                    "mul: input 1 [2] float64 was saved at version 0 and is now at version 1 "
                    "(changed in place after use); change a copy");
  const Tensor z = exp(x);
  fill_(z.detach(), 1);
  CHECK_THROWS_WITH(backward(sum(z)),
                    "exp: output [2] float64 was saved at version 0 and is now at version 1 "
                    "(changed in place after use); change a copy");
  const Tensor u = sum(x + w);  // add saves nothing, so nothing becomes stale
  fill_(w, 8);
  CHECK_NOTHROW(backward(u));
}

TEST_CASE("an input of any op changed after use is an error, or changes no gradient") {
  int errors = 0;
  for (const Check* check : library_checks())
    for (const Sample& s : check->samples())
      for (std::size_t changed = 0; changed < s.inputs.size(); ++changed) {
        CAPTURE(check->name(), s.name, changed);
        std::vector<Tensor> leaves;
        for (const Tensor& x : s.inputs) leaves.push_back((x + 0.0).detach().requires_grad_());
        const Tensor y = s.f(leaves);
        if (!y.requires_grad() || leaves[changed].numel() == 0) continue;
        const auto gradients = [&] {
          return grad(y, leaves,
                      {.grad_output = ones_like(y), .retain_graph = true, .allow_unused = true});
        };
        const std::vector<Tensor> before = gradients();
        {
          const NoGrad guard;
          copy_(leaves[changed], leaves[changed] + 0.25);
        }
        try {
          const std::vector<Tensor> after = gradients();
          for (std::size_t i = 0; i < after.size(); ++i)
            CHECK((!after[i].defined() || same_bits(after[i], before[i])));
        } catch (const ValueError&) {
          ++errors;
        }
      }
  CHECK(errors > 100);
}

TEST_CASE("masks and indices changed in place after use are errors too") {
  const Tensor x = leaf({3, 4});
  const Tensor mask = from_data(std::vector<bool>{true, false}, {2});
  const Tensor index = zeros({2}, int64);
  const std::vector<Tensor> ys = {
      masked_fill(x, mask, 0),
      where(mask, x, x * 2.0),
      gather(x, 0, index),
      index_select(x, 0, index),
      scatter_add(zeros({2}, float64), 0, index, x),
      index_add(zeros({2}, float64), 0, index, x),
      cross_entropy(x, select(index, 0, 0)),
      attention(unsqueeze(x, 1), unsqueeze(x, 1), unsqueeze(x, 1), {.keep = KeepMask(mask)})};
  fill_(mask, 1);
  fill_(index, 1);
  for (std::size_t i = 0; i < ys.size(); ++i) {
    CAPTURE(i);
    CHECK_THROWS_AS(grad(sum(ys[i]), {x}), ValueError);
  }
}

TEST_CASE(
    "in-place writes reject tensors with a history; a rejected write does not raise the version") {
  const Tensor x = leaf({1, 2});
  CHECK_THROWS_WITH(
      fill_(x, 0),
      "fill_: writes in place only into untracked leaves, or leaves under NoGrad; got "
      "a [2] leaf that requires grad");
  CHECK_THROWS_WITH(
      fill_(x * 2.0, 0),
      "fill_: writes in place only into untracked leaves, or leaves under NoGrad; got "
      "a [2] result of an op");
  CHECK_THROWS_WITH(fill_(expand(tensor({1}), {3}), 0),
                    "fill_: cannot write into an expanded tensor: [3] has stride 0 in axis 0");
  // A tensor without elements cannot overlap itself or another tensor.
  fill_(zeros({2, 0}), 1), copy_(zeros({2, 0}), zeros({2, 0}));
  const NoGrad guard;
  CHECK_THROWS_WITH(copy_(x, zeros({3}, float64)), "copy_: needs equal shapes, got [2] and [3]");
  CHECK_THROWS_WITH(copy_(x, zeros({2})), "copy_: needs equal dtypes, got float64 and float32");
  CHECK(x.version() == 0);
  copy_(x, flip(x, 0));  // x and its flip overlap; all values are read before x is written
  CHECK(values(x) == V{2, 1});
  CHECK(x.version() == 1);
}

TEST_CASE("copy_ and add_ read all values before they write, also if the memory overlaps") {
  for (const DType dtype : {float32, float64}) {
    const auto after = [&](auto write, const Tensor& x, auto view, auto source) {
      const Tensor expected = x * 1.0, from = source(x) * 1.0;
      write(view(expected), from);
      write(view(x), source(x));
      return values(x) == values(expected);
    };
    const auto part = [](Index first) {
      return [=](const Tensor& x) { return slice(x, 0, first, first + 400); };
    };
    const auto all = [](const Tensor& x) { return x; };
    const auto reversed = [](const Tensor& x) { return flip(x, 0); };
    for (const auto write : {copy_, add_}) {
      const auto x = [&] { return arange(0, 500, 1, dtype); };
      CHECK(after(write, x(), part(1), part(0)));
      CHECK(after(write, x(), part(0), part(70)));
      CHECK(after(write, x(), all, reversed));
      CHECK(after(write, x(), all, all));
      CHECK(after(write, reshape(arange(0, 400, 1, dtype), {20, 20}), all,
                  [](const Tensor& t) { return mT(t); }));
    }
  }
}

}  // namespace
