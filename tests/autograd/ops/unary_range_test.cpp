// Compares functions of one operand and their first and second derivatives with right values of
// 60 digits (tests/data/unary_functions.txt), over the whole range of both dtypes and on every SIMD
// target.
#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/simd_targets.h"

namespace {

using namespace heed::autograd;
using kernels::OnSimdTarget;
using UnaryFunction = Tensor (*)(const Tensor&);

Tensor power_2_5(const Tensor& x) { return pow(x, 2.5); }
Tensor clamp_unevenly(const Tensor& x) { return clamp(x, -2, 3); }

// The zero of a derivative, and the largest of the terms that cancel there.
struct ZeroAt {
  double x, term;
};
// The allowed errors of a function. Within 1 % of a zero of a derivative, the error is at most 4
// units in the last place (ulp) of the largest term. A result below the smallest normal number may
// differ by it. The second derivative has a relative error of 1e-4 or 1e-10.
struct UnaryLimits {
  UnaryFunction f;
  std::array<double, 6> at_infinity{};  // f, f' and f'' at inf, and then at -inf
  // Errors in ulp of the value and the first derivative, if |x| <= 4 and elsewhere.
  double near = 4, far = 16;
  std::array<ZeroAt, 3> zeros{};  // of the first and (two) of the second derivative
};
std::array<ZeroAt, 3> zeros_of(ZeroAt first, ZeroAt second) {
  return {first, second, ZeroAt{-second.x, second.term}};
}
const std::map<std::string, UnaryLimits> kLimits = {
    {"tanh", {tanh, {1, 0, 0, -1, 0, 0}}},
    {"sigmoid", {sigmoid, {1, 0, 0, 0, 0, 0}}},
    {"gelu", {gelu, {kInf, 1}, 4, 16, zeros_of({-0.7517915247, 0.226}, {1.414213562, 0.2935})}},
    {"gelu_tanh",
     {gelu_tanh, {kInf, 1}, 4, 16, zeros_of({-0.7524614221, 0.226}, {1.418504009, 0.354})}},
    {"silu", {silu, {kInf, 1}, 4, 16, zeros_of({-1.278464543, 0.218}, {2.399357281, 0.1526})}},
    {"exp", {exp, {kInf, kInf, kInf, 0, 0, 0}, 2, 2}},
    {"log", {log, {}, 2, 2}},
    {"sqrt", {sqrt, {}, 2, 2}},
    {"rsqrt", {rsqrt, {}, 8, 8}},
    {"pow_2.5", {power_2_5, {}, 2, 2}}};

// f, f' and f'' at one x.
struct RangeRow {
  double x;
  std::array<long double, 3> right;
};
std::map<std::string, std::vector<RangeRow>> read_rows() {
  std::map<std::string, std::vector<RangeRow>> rows;
  std::ifstream file(heed::testing::data_file("unary_functions.txt"));
  std::string name, text;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::vector<std::string> parts;
    while (words >> text) parts.push_back(text);
    if (parts.size() == 1) name = line;
    if (parts.size() != 4) continue;
    RangeRow row{std::stod(parts[0]), {}};
    for (std::size_t i = 0; i < 3; ++i) row.right[i] = std::strtold(parts[i + 1].c_str(), nullptr);
    rows[name].push_back(row);
  }
  return rows;
}

// Returns f, f' and f'' at x. The first derivative is computed with create_graph or without.
std::array<std::vector<double>, 3> two_derivatives(UnaryFunction f, const Tensor& points,
                                                   bool create_graph) {
  const Tensor x = points.detach().requires_grad_();
  const Tensor y = f(x), plain = grad(sum(y), x, {.retain_graph = true});
  const Tensor slope = grad(sum(y), x, {.create_graph = true});
  // A second derivative that is 0 everywhere is not in the graph.
  const Tensor curvature =
      slope.requires_grad() ? grad({sum(slope)}, {x}, {.allow_unused = true})[0] : Tensor();
  const auto numbers = [](const Tensor& t) { return to(t.detach(), float64).to_vector<double>(); };
  return {numbers(y), numbers(create_graph ? slope : plain),
          numbers(curvature.defined() ? curvature : zeros_like(x))};
}

template <class T>
struct UnaryFormat {
  static constexpr double kSmallest = double(std::numeric_limits<T>::min());
  static constexpr long double kLargest = std::numeric_limits<T>::max();
  static constexpr double kSecond = sizeof(T) == 4 ? 1e-4 : 1e-10;
  // Returns the unit in the last place of a normal number.
  static long double ulp(long double x) {
    return std::ldexp(1.0L, std::ilogb(x) - std::numeric_limits<T>::digits + 1);
  }
  // Returns true if y is an accepted result for derivative number `order` at row.x.
  static bool accepts(const UnaryLimits& limits, const RangeRow& row, std::size_t order, double y) {
    const long double right = row.right[order], size = std::abs(right), error = std::abs(y - right);
    if (size > kLargest) return y == (right > 0 ? kInf : -kInf);
    if (size < kSmallest) return error <= kSmallest;
    for (std::size_t i = 0; i < 3; ++i)
      if (limits.zeros[i].term > 0 && order == (i == 0 ? 1u : 2u) &&
          std::abs(row.x / limits.zeros[i].x - 1) <= 0.01)
        return error <= 4 * ulp(limits.zeros[i].term);
    if (order == 2) return error <= kSecond * size;
    return error <= (std::abs(row.x) <= 4 ? limits.near : limits.far) * ulp(right);
  }
};

// Returns the number of wrong results of f in dtype T, and prints the first ones.
template <class T>
int wrong_results(const std::string& name, const UnaryLimits& limits,
                  const std::vector<RangeRow>& rows) {
  int wrong = 0;
  std::vector<T> points;
  for (const RangeRow& row : rows) points.push_back(T(row.x));
  const Tensor x = from_data(points, {Index(points.size())});
  for (const bool create_graph : {false, true}) {
    const auto y = two_derivatives(limits.f, x, create_graph);
    for (std::size_t order = 0; order < 3; ++order)
      for (std::size_t i = 0; i < rows.size(); ++i)
        if (!UnaryFormat<T>::accepts(limits, rows[i], order, y[order][i]) && ++wrong <= 5)
          UNSCOPED_INFO(name << " of " << rows[i].x << ", derivative " << order << ": "
                             << y[order][i] << ", right " << double(rows[i].right[order]));
  }
  return wrong;
}

TEST_CASE("functions of one operand and their derivatives are right over the whole range") {
  const auto all = read_rows();
  REQUIRE(all.size() == kLimits.size());
  for (const std::string& target : kernels::simd_targets()) {
    const OnSimdTarget here(target);
    for (const auto& [name, rows] : all) {
      CAPTURE(target, name);
      REQUIRE(rows.size() > 170);
      CHECK(wrong_results<float>(name, kLimits.at(name), rows) == 0);
      CHECK(wrong_results<double>(name, kLimits.at(name), rows) == 0);
    }
  }
}

TEST_CASE("functions of one operand and their derivatives at NaN and at infinity") {
  for (const std::string& target : kernels::simd_targets())
    for (const DType dtype : {float32, float64})
      for (const auto& [name, limits] : kLimits) {
        const OnSimdTarget here(target);
        CAPTURE(target, dtype, name);
        for (const bool create_graph : {false, true}) {
          const auto y =
              two_derivatives(limits.f, tensor({std::nan(""), kInf, -kInf}, dtype), create_graph);
          for (std::size_t order = 0; order < 3; ++order) {
            CAPTURE(order, create_graph);
            CHECK(std::isnan(y[order][0]));
            if (limits.at_infinity == std::array<double, 6>{}) continue;
            CHECK(y[order][1] == limits.at_infinity[order]);
            CHECK(y[order][2] == limits.at_infinity[3 + order]);
          }
        }
      }
}

TEST_CASE("abs, relu and clamp are exact over the whole range") {
  const auto all = read_rows();
  for (const RangeRow& row : all.at("tanh")) {
    const double v = row.x;
    const std::tuple<UnaryFunction, double, double> cases[] = {
        {abs, std::abs(v), v > 0 ? 1.0 : -1.0},
        {relu, std::max(v, 0.0), v > 0 ? 1.0 : 0.0},
        {clamp_unevenly, std::clamp(v, -2.0, 3.0), v > -2 && v < 3 ? 1.0 : 0.0}};
    for (const auto& [f, value, slope] : cases)
      for (const DType dtype : {float32, float64})
        for (const bool create_graph : {false, true}) {
          const auto y = two_derivatives(f, tensor({v}, dtype), create_graph);
          CAPTURE(v, dtype, create_graph);
          CHECK((y[0][0] == value && y[1][0] == slope && y[2][0] == 0));
        }
  }
}

TEST_CASE("gradcheck accepts gelu in its tail") {
  for (const double x : {-8.0, -13.0, -30.0})
    for (const UnaryFunction f : {gelu, gelu_tanh, silu})
      CHECK(gradcheck([f](Args t) { return f(t[0]); }, std::vector{tensor({x}, float64)}).ok());
}

}  // namespace
