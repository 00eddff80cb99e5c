// Compares einsum with a loop over every label, and checks the texts of its errors.
#include "autograd/ops/ops.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;

Tensor normal(const Shape& shape) {
  static Generator g(9);
  return randn(shape, float64, g);
}

// Computes einsum by its definition: for each combination of label values, adds the product of the
// operands to the output. The equation has single letters and "->".
Tensor by_loops(const std::string& equation, const std::vector<Tensor>& operands) {
  const std::size_t arrow = equation.find("->");
  std::vector<std::string> terms(1);
  for (const char c : equation.substr(0, arrow))
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  const std::string output = equation.substr(arrow + 2);
  std::map<char, Index> size, index;
  for (std::size_t k = 0; k < terms.size(); ++k)
    for (std::size_t i = 0; i < terms[k].size(); ++i)
      size[terms[k][i]] = operands[k].shape()[int(i)];
  std::vector<std::vector<double>> values;
  for (const Tensor& x : operands) values.push_back(x.to_vector<double>());
  const auto place = [&](const std::string& term) {
    Index at = 0;
    for (const char c : term) at = at * size[c] + index[c];
    return std::size_t(at);
  };
  Shape shape;
  for (const char c : output) shape.push_back(size[c]);
  Index count = 1;
  for (const auto& [label, n] : size) count *= n;
  std::vector<double> out(std::size_t(shape.numel()));
  for (Index i = 0; i < count; ++i) {
    Index rest = i;
    for (const auto& [label, n] : size) index[label] = rest % n, rest /= n;
    double product = 1;
    for (std::size_t k = 0; k < terms.size(); ++k) product *= values[k][place(terms[k])];
    out[place(output)] += product;
  }
  return from_data(out, shape);
}

bool nearly(const Tensor& a, const Tensor& b) { return allclose(a, b, 1e-12, 1e-12); }

// Returns the message of the error E that einsum throws for zero tensors of these shapes, or an
// empty text if einsum does not throw.
template <class E>
std::string message(const std::string& equation, const std::vector<Shape>& shapes) {
  std::vector<Tensor> operands;
  for (const Shape& s : shapes) operands.push_back(zeros(s));
  return message_of<E>([&] { einsum(equation, operands); });
}

}  // namespace

TEST_CASE("einsum agrees with its definition on random equations", "[einsum]") {
  Generator g(11);
  const auto draw = [&g](Index n) { return Index(randint(0, n, {}, g).item()); };
  for (int trial = 0; trial < 400; ++trial) {
    std::map<char, Index> size;
    for (const char c : std::string("abcd")) size[c] = draw(20) == 0 ? 0 : 1 + draw(3);
    std::string equation;
    std::set<char> used;
    std::vector<Tensor> operands;
    for (Index k = 0, n = 1 + draw(3); k < n; ++k) {
      if (k > 0) equation += ',';
      Shape shape;
      for (Index i = 0, rank = draw(4), first = draw(4); i < rank; ++i) {
        const char c = char('a' + (first + i * 3) % 4);
        used.insert(c);
        equation += c;
        shape.push_back(size[c]);
      }
      Tensor x = normal(shape);
      if (shape.rank() > 0 && draw(2)) x = flip(x, 0);
      if (shape.rank() > 1 && draw(2)) x = transpose(contiguous(transpose(x, 0, -1)), 0, -1);
      operands.push_back(x);
    }
    equation += "->";
    std::vector<char> labels(used.begin(), used.end());
    while (!labels.empty() && draw(3) > 0) {
      const auto pick = labels.begin() + std::ptrdiff_t(draw(Index(labels.size())));
      equation += *pick;
      labels.erase(pick);
    }
    INFO(equation);
    REQUIRE(nearly(einsum(equation, operands), by_loops(equation, operands)));
  }
}

TEST_CASE("einsum accepts letters or names, spaces, and NumPy's implicit output", "[einsum]") {
  const Tensor a = normal({2, 3}), b = normal({3, 4});
  const Tensor product = matmul(a, b);
  CHECK(nearly(einsum("ij,jk->ik", {a, b}), product));
  CHECK(nearly(einsum(" ij , jk -> ik ", {a, b}), product));
  CHECK(nearly(einsum("i j, j k -> i k", {a, b}), product));
  CHECK(nearly(einsum("row mid_1, mid_1 column -> row column", {a, b}), product));
  CHECK(nearly(einsum("ij,jk", {a, b}), product));
  CHECK(nearly(einsum("kj,ji", {a, b}), mT(product)));  // the output is "ik"
  CHECK(nearly(einsum("aB,BC", {a, b}), mT(product)));  // the output is "Ca"
  CHECK(nearly(einsum(",ij->ji", {tensor(2, float64), a}), mT(a) * 2));
  CHECK(nearly(einsum("->", {tensor(2, float64)}), tensor(2, float64)));
  CHECK(einsum("ij->ji", {a}).shares_storage(a));
}

TEST_CASE("einsum contracts operands whose full product would exceed rank 8", "[einsum]") {
  const Tensor x = normal({2, 1, 2, 1, 2, 1, 2, 3}), y = normal({2, 1, 2, 1, 2, 1, 2, 3});
  CHECK(nearly(einsum("abcdefgh,abcdefgh->abcdefg", {x, y}), sum(x * y, {-1})));
  CHECK(message<ShapeError>("abcde,fghij->", {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}).empty());
  CHECK(message<ShapeError>("abcde,fghij,abcdefgh->ij",
                            {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1}}) ==
        "einsum: an intermediate result has 10 axes, the limit is 8; contract in another order\n"
        "  abcde,fghij,abcdefgh->ij");
}

TEST_CASE("einsum points at a bad label", "[einsum]") {
  const Shape s{2, 2, 2, 2};
  CHECK(message<ValueError>("nhq1,nlhd->nqhd", {s, s}) ==
        "einsum: '1' is not a label: labels are letters; did you mean 'l'?\n"
        "  nhq1,nlhd->nqhd\n"
        "     ^");
  CHECK(message<ValueError>("i\xC3\xA9j,j\xC3\xA9->i", {s, s}) ==
        "einsum: '\xC3\xA9' is not a label: labels are letters\n"
        "  i\xC3\xA9j,j\xC3\xA9->i\n"
        "   ^");
  CHECK(message<ValueError>("d_in 2x,\nd_in -> d_in", {s, s}) ==
        "einsum: '2' is not a label: labels are names of letters, digits and '_' that begin with a "
        "letter\n"
        "  d_in 2x, d_in -> d_in\n"
        "       ^");
  CHECK(message<ValueError>("...ij,jk->ik", {s, s}) ==
        "einsum: '...' is not supported: label every axis\n"
        "  ...ij,jk->ik\n"
        "  ^");
  CHECK(message<ValueError>("ij,jk->il", {{2, 2}, {2, 2}}) ==
        "einsum: output label 'l' does not appear in any operand\n"
        "  ij,jk->il\n"
        "          ^");
  CHECK(message<ValueError>("ij->ii", {{2, 2}}) ==
        "einsum: label 'i' appears twice in a term; each axis of a term needs its own label\n"
        "  ij->ii\n"
        "       ^");
  CHECK(message<ValueError>("d_in d_out", {{2, 2}}) ==
        "einsum: named labels need '->' and an output\n"
        "  d_in d_out\n"
        "            ^");
}

TEST_CASE("einsum names operands that do not fit", "[einsum]") {
  CHECK(message<ValueError>("ij,jk->ik", {{2, 3}}) ==
        "einsum: the equation has 2 terms, got 1 operand\n"
        "  ij,jk->ik");
  CHECK(message<ShapeError>("nqhd,nkhd->nhqk", {{2, 3, 4, 5}, {2, 3, 20}}) ==
        "einsum: operand 1 [2, 3, 20] has rank 3, its term 'n k h d' has 4 labels\n"
        "  nqhd,nkhd->nhqk");
  CHECK(message<ShapeError>("ij,jk->ik", {{2, 3}, {4, 5}}) ==
        "einsum: label 'j' has size 3 in operand 0 [2, 3] and 4 in operand 1 [4, 5]; sizes do not "
        "broadcast\n"
        "  ij,jk->ik\n"
        "     ^");
  CHECK(!message<ShapeError>("ij,jk->ik", {{2, 3}, {1, 5}}).empty());  // size 1 does not broadcast
  try {
    einsum("i,i->", {zeros({2}), zeros({2}, float64)});
    FAIL("mixed dtypes must throw");
  } catch (const DTypeError& e) {
    CHECK(std::string(e.what()).find("float32 and float64") != std::string::npos);
  }
}
