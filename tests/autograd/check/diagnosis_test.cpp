// Tests of diagnose() with right gradients that are random numbers, and gradients made from them by
// one mistake. tests/tools/python/diagnosis_test.py applies mistakes to functions.
#include "autograd/check/diagnosis.h"

#include <cmath>

#include "autograd/tensor/random.h"
#include "tests/support/catch.h"

using namespace heed::autograd;

namespace {

using Values = std::vector<double>;
constexpr double kNoise = 1e-9;

Values random_values(Index n, std::uint64_t seed) {
  Generator random(seed);
  Values values;
  for (Index k = 0; k < n; ++k) values.push_back(random.uniform_double() - 0.5);
  return values;
}

// Returns right gradients for three random dys of one output [4, 5]. right_for() returns the values
// for dy = 1 if `dys` are 1, otherwise those for a quarter of dy.
ComparedGradient right_gradient(const std::vector<Shape>& inputs) {
  ComparedGradient g;
  g.inputs = inputs, g.outputs = {{4, 5}}, g.y = random_values(20, 90);
  g.right.resize(inputs.size());
  for (std::uint64_t c = 0; c < 3; ++c) {
    g.dys.push_back(random_values(20, 50 + c));
    Values& all = g.gradients.emplace_back();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Values right = random_values(inputs[i].numel(), 10 * c + i);
      for (std::size_t at = 0; at < right.size(); ++at)
        g.right[i][at].push_back({right[at], kNoise}), all.push_back(right[at]);
    }
  }
  g.right_for = [](std::size_t k, const std::vector<Values>& dys) {
    std::vector<Estimate> values;
    for (const Values& dy : dys) values.push_back({std::sin(double(k)) * dy[0] * dy[19], kNoise});
    return values;
  };
  return g;
}

// Replaces each given value by change(value, its position in all inputs, the dy).
template <class F>
Diagnosis changed(ComparedGradient g, F change) {
  for (std::size_t c = 0; c < g.gradients.size(); ++c) {
    const Values before = g.gradients[c];
    for (std::size_t k = 0; k < before.size(); ++k) g.gradients[c][k] = change(before, k, c);
  }
  return diagnose(g);
}

}  // namespace

TEST_CASE("a constant factor is named with its value and its likely origin") {
  const ComparedGradient g = right_gradient({{4, 5}, {3}});
  const auto times = [&](double factor) {
    return changed(
        g, [&](const Values& v, std::size_t k, auto) { return k < 20 ? v[k] : factor * v[k]; });
  };
  const Diagnosis d = times(-1);
  CHECK(d.kind == "constant factor");
  CHECK(d.factor == -1);
  CHECK(d.input == 1);
  CHECK((d.agree == 3 && d.of == 3));
  CHECK(d.text ==
        "likely mistake: constant factor; input 0: 20 of 20 entries are right; "
        "input 1: 3 of 3 entries are -1 times the right values");
  CHECK(
      times(std::sqrt(3))
          .text.ends_with("are 1.73205 (3^0.5; 3 is the size of an axis) times the right values"));
  CHECK(times(2).text.ends_with("are 2 times the right values"));  // not 4^0.5
  CHECK(times(1 + 1e-12).kind.empty());                            // right within the noise
  CHECK(times(1.001).factor == Approx(1.001));
}

TEST_CASE("factors of several inputs must be equal") {
  const ComparedGradient g = right_gradient({{4, 5}, {3}});
  const auto times = [&](double first, double second) {
    return changed(
        g, [&](const Values& v, std::size_t k, auto) { return (k < 20 ? first : second) * v[k]; });
  };
  CHECK(times(7, 7).kind == "constant factor");
  CHECK(!times(7, 7).input);
  CHECK(times(7, 7).of == 23);
  CHECK(times(7, 8).kind.empty());
}

TEST_CASE("99 of 100 entries must agree, and 99 of 100 wrong entries") {
  const ComparedGradient g = right_gradient({{10, 100}});
  const auto with = [&](std::size_t others, std::size_t doubled) {
    return changed(g, [&](const Values& v, std::size_t k, auto) {
      return k < others ? v[k] + 0.3 : k < doubled ? 2 * v[k] : v[k];
    });
  };
  CHECK(with(10, 1000).kind == "constant factor");
  CHECK(with(10, 1000).agree == 990);
  CHECK(with(11, 1000).kind.empty());
  CHECK(with(5, 5).kind.empty());  // 995 entries are right, but the wrong ones have no explanation
  CHECK(with(0, 0).text == "input 0: 1000 of 1000 entries are right");
}

TEST_CASE("sums that are not subtracted are named if they are added along one axis") {
  ComparedGradient g = right_gradient({{4, 5}});
  // Returns the gradient that lacks the sum of each row times w.
  const auto lacking = [&](const Values& w, double factor) {
    ComparedGradient wrong = g;
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t row = 0; row < 20; row += 5) {
        double total = 0, weights = 0;
        for (std::size_t k = row; k < row + 5; ++k) total += g.gradients[c][k], weights += w[k];
        for (std::size_t k = row; k < row + 5; ++k)
          wrong.right[0][k][c].value = g.gradients[c][k] - factor * w[k] * total / weights;
      }
    return diagnose(wrong);
  };
  CHECK(lacking(g.y, 1).kind == "row sum not subtracted");
  CHECK(lacking(g.y, 0.9).kind.empty());
  CHECK(lacking(Values(20, 1.0), 1).kind == "mean not subtracted");
  CHECK(lacking(random_values(20, 7), 1).kind.empty());
  // One number for all rows differs from the mean of each row.
  for (Values& gradient : g.gradients)
    for (std::size_t k = 4; k < 20; k += 5)
      gradient[k] = 1 - gradient[k - 4] - gradient[k - 3] - gradient[k - 2] - gradient[k - 1];
  CHECK(lacking(Values(20, 1.0), 1).kind.empty());
}

TEST_CASE("right gradients for other dys are named") {
  ComparedGradient g = right_gradient({{5}});
  const auto for_dy = [&](double (*product)(const Values& dy)) {
    return changed(g, [&](const Values&, std::size_t k, std::size_t c) {
      return std::sin(double(k)) * product(g.dys[c]);
    });
  };
  CHECK(for_dy([](const Values&) { return 1.0; }).kind == "not multiplied by dy");
  CHECK(for_dy([](const Values&) { return 2.0; }).kind.empty());
  g.right_for = [](std::size_t k, const std::vector<Values>& dys) {
    std::vector<Estimate> values;
    for (const Values& dy : dys)
      values.push_back({dy[k] + dy[k + 5] + dy[k + 10] + dy[k + 15], kNoise});
    return values;
  };
  const auto row = [&](std::size_t first) {
    return changed(
        g, [&](const Values&, std::size_t k, std::size_t c) { return g.dys[c][first + k]; });
  };
  CHECK(row(0).kind == "broadcast not summed");
  CHECK(row(15).kind == "broadcast not summed");
  CHECK(row(5).kind.empty());
}

TEST_CASE("gradients that are right in a part of the entries are named") {
  ComparedGradient g = right_gradient({{4, 5}});
  const auto where = [&](bool (*is_right)(std::size_t k), double factor) {
    return changed(g, [&](const Values& v, std::size_t k, std::size_t c) {
      return is_right(k) ? v[k] : factor * double(k + c) * (v[k] + 0.1);
    });
  };
  const auto before_7 = [](std::size_t k) { return k < 7; };
  const auto two_columns = [](std::size_t k) { return k % 5 < 2; };
  CHECK(where(before_7, 1).kind == "right only in the first entries");
  CHECK(where(before_7, 1)
            .text.ends_with("20 of 20 entries are right before index 7 of the flattened input, and "
                            "wrong from there on"));
  CHECK(where(before_7, 0).kind == "zero from an index on");
  CHECK(
      where(two_columns, 0).text.ends_with("right before index 2 of axis 1, and 0 from there on"));
  CHECK(where([](std::size_t) { return false; }, 0).kind == "zero from an index on");
  // The first entry, row or column alone may be right by chance.
  CHECK(where([](std::size_t k) { return k == 0; }, 1).kind.empty());
  CHECK(where([](std::size_t k) { return k < 5; }, 1).kind.empty());
  CHECK(where([](std::size_t k) { return k % 5 == 0; }, 1).kind.empty());
  CHECK(where([](std::size_t k) { return k != 8; }, 1).kind.empty());

  for (auto& [at, right] : g.right[0])
    if (at >= 10)
      for (Estimate& e : right) e.value = 0;
  CHECK(where([](std::size_t) { return true; }, 1).kind == "mask not applied");
  CHECK(where([](std::size_t k) { return k != 12; }, 0).kind.empty());
}

TEST_CASE("without compared entries the text is empty") { CHECK(diagnose({}).text.empty()); }
