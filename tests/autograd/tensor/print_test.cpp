// Tests of operator<< for Tensor. The expected texts are those that PyTorch 2 prints for the same
// values, with heed's dtype names. In addition, the texts of 328 tensors were compared with
// PyTorch's once, when the code was written.

#include "autograd/autograd.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::string printed(const Tensor& x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

}  // namespace

TEST_CASE("numbers print with four decimals, and integers with a point", "[print]") {
  CHECK(printed(tensor({{0.1, 0.2}, {-3, 4}})) ==
        "tensor([[ 0.1000,  0.2000],\n"
        "        [-3.0000,  4.0000]])");
  CHECK(printed(tensor({1, -2, 30})) == "tensor([ 1., -2., 30.])");
  CHECK(printed(tensor({0, -0.0})) == "tensor([0., -0.])");
  CHECK(printed(tensor(3)) == "tensor(3.)");
  CHECK(printed(tensor(2.5)) == "tensor(2.5000)");
}

TEST_CASE("scientific notation depends on the range and the size of the values", "[print]") {
  CHECK(printed(tensor({1, 1000})) == "tensor([   1., 1000.])");
  CHECK(printed(tensor({1, 1001})) == "tensor([1.0000e+00, 1.0010e+03])");
  CHECK(printed(tensor({0.00099, 1})) == "tensor([9.9000e-04, 1.0000e+00])");
  CHECK(printed(tensor({1e8})) == "tensor([100000000.])");
  CHECK(printed(tensor({2e8})) == "tensor([2.0000e+08])");
  CHECK(printed(tensor({9e-5, 0})) == "tensor([9.0000e-05, 0.0000e+00])");
}

TEST_CASE("nan and inf print, and do not change the format of other values", "[print]") {
  CHECK(printed(tensor({kNaN, 1, -kInf})) == "tensor([nan, 1., -inf])");
  CHECK(printed(tensor({-kNaN, 0.5, -kInf})) == "tensor([   nan, 0.5000,   -inf])");
  CHECK(printed(tensor({kNaN, 0, kInf})) == "tensor([nan, 0., inf])");
}

TEST_CASE("integers and truth values print without a dtype", "[print]") {
  CHECK(printed(tensor({1, -20, 300}, int64)) == "tensor([  1, -20, 300])");
  CHECK(printed(tensor({1, 0}, bool8)) == "tensor([ True, False])");
  const std::vector<Index> extremes{std::numeric_limits<Index>::min(),
                                    std::numeric_limits<Index>::max()};
  CHECK(printed(from_data(extremes, {2})) ==
        "tensor([-9223372036854775808,  9223372036854775807])");
}

TEST_CASE("empty tensors print shape and dtype if these are not the default", "[print]") {
  CHECK(printed(zeros({0})) == "tensor([])");
  CHECK(printed(zeros({0, 3})) == "tensor([], size=(0, 3))");
  CHECK(printed(zeros({0}, int64)) == "tensor([], dtype=int64)");
  CHECK(printed(zeros({2, 0}, bool8)) == "tensor([], size=(2, 0), dtype=bool8)");
  CHECK(printed(Tensor()) == "tensor(undefined)");
}

TEST_CASE("dtype, requires_grad and grad_fn are printed after the values", "[print]") {
  CHECK(printed(tensor({0.5}, float64)) == "tensor([0.5000], dtype=float64)");
  const Tensor leaf = tensor({0.5}).requires_grad_();
  CHECK(printed(leaf) == "tensor([0.5000], requires_grad=True)");
  CHECK(printed(leaf * leaf) == "tensor([0.2500], grad_fn=<mul>)");
  // A suffix also starts a new line if the line would have more than 80 columns.
  const Tensor wide = tensor({-681697, -133549, 65800, 12, 1, 2, 3, 4, 5}, float64);
  CHECK(printed(wide.requires_grad_()) ==
        "tensor([-6.8170e+05, -1.3355e+05,  6.5800e+04,  1.2000e+01,  1.0000e+00,\n"
        "         2.0000e+00,  3.0000e+00,  4.0000e+00,  5.0000e+00], dtype=float64,\n"
        "       requires_grad=True)");
}

TEST_CASE("axes print as nested brackets, and rows wrap at 80 columns", "[print]") {
  CHECK(printed(reshape(arange(0, 12, 1, float32), {2, 2, 3})) ==
        "tensor([[[ 0.,  1.,  2.],\n"
        "         [ 3.,  4.,  5.]],\n"
        "\n"
        "        [[ 6.,  7.,  8.],\n"
        "         [ 9., 10., 11.]]])");
  CHECK(printed(arange(0, 5, 0.25, float32)) ==
        "tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000, 1.2500, 1.5000, 1.7500, 2.0000,\n"
        "        2.2500, 2.5000, 2.7500, 3.0000, 3.2500, 3.5000, 3.7500, 4.0000, 4.2500,\n"
        "        4.5000, 4.7500])");
}

TEST_CASE("a tensor with any strides prints in the order of its axes", "[print]") {
  const Tensor x = reshape(arange(0, 6, 1, float32), {3, 2});
  CHECK(printed(mT(x)) == "tensor([[0., 2., 4.],\n        [1., 3., 5.]])");
  CHECK(printed(flip(x, 0)) == "tensor([[4., 5.],\n        [2., 3.],\n        [0., 1.]])");
  CHECK(printed(expand(tensor({1, 2}), {3, 2})) ==
        "tensor([[1., 2.],\n        [1., 2.],\n        [1., 2.]])");
}

TEST_CASE("of more than 1000 elements only the edges print", "[print]") {
  CHECK(printed(arange(1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
  CHECK(printed(reshape(arange(1000), {2, 500})).find("...") == std::string::npos);
  CHECK(printed(reshape(arange(1008), {8, 126})) ==
        "tensor([[   0,    1,    2,  ...,  123,  124,  125],\n"
        "        [ 126,  127,  128,  ...,  249,  250,  251],\n"
        "        [ 252,  253,  254,  ...,  375,  376,  377],\n"
        "        ...,\n"
        "        [ 630,  631,  632,  ...,  753,  754,  755],\n"
        "        [ 756,  757,  758,  ...,  879,  880,  881],\n"
        "        [ 882,  883,  884,  ..., 1005, 1006, 1007]])");
  // Only the printed values determine whether the notation is scientific.
  CHECK(printed(slice(arange(0, 500, 0.125, float32), 0, 1, 1400)) ==
        "tensor([1.2500e-01, 2.5000e-01, 3.7500e-01,  ..., 1.7462e+02, 1.7475e+02,\n"
        "        1.7488e+02])");
}

TEST_CASE("to_dot draws the graph with the values and gradients of small tensors", "[print]") {
  const Tensor x = tensor({1, 2}), w = tensor({0.5, -1}).requires_grad_();
  const Tensor y = (w * x).retain_grad(), loss = sum(y * y);
  backward(loss, {.retain_graph = true});
  const Tensor other = ones({1}).requires_grad_();  // not in the graph of the loss
  CHECK(to_dot(loss, {{"w", w}, {"y", y}, {"loss", loss}, {"other", other}}) == R"(digraph {
  rankdir=BT
  node [shape=box fontname=monospace]
  n0 [label="loss = sum
float32 []
4.2500"]
  n1 -> n0
  n1 [label="mul
float32 [2]"]
  n2 -> n1
  n2 -> n1
  n2 [label="y = mul
float32 [2]
[ 0.5000, -2.0000]
grad [ 1., -4.]"]
  n3 -> n2
  n3 [label="w = leaf
float32 [2]
[ 0.5000, -1.0000]
grad [ 1., -8.]"]
}
)");
  const Tensor large = ones({7}).requires_grad_();
  CHECK_THAT(to_dot(large), Contains("[label=\"leaf\nfloat32 [7]\"]"));
  CHECK_THROWS_WITH(to_dot(x),
                    "to_dot: this [2] tensor has no graph; call requires_grad_() on a leaf first");
  backward(loss);
  CHECK_THROWS_WITH(to_dot(loss),
                    "to_dot: an earlier backward pass freed the graph; pass "
                    "retain_graph = true to it");
}
