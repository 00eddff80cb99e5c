#include "autograd/check/call_checks.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "autograd/check/array_layout.h"

namespace heed::autograd {
namespace {

// Names of a layout, and the reason why it does not exist for a function.
struct LayoutNames {
  ArrayLayout layout;
  const char* name;        // for the list of layouts that do not exist
  const char* of_array;    // follows the name of an array
  const char* impossible;  // reason if no array can have the layout
};
constexpr LayoutNames kLayouts[] = {
    {ArrayLayout::kOffset, "offset", "inside a larger array", "no elements"},
    {ArrayLayout::kTransposed, "transposed", "transposed in memory", "no array has two long axes"},
    {ArrayLayout::kEverySecond, "every second element", "as every second element of an array",
     "arrays of one element"},
    {ArrayLayout::kNegative, "negative strides", "with a negative stride", "arrays of one element"},
    {ArrayLayout::kZeroStrides, "zero strides", "constant and with strides of 0",
     "outputs of one element"},
    {ArrayLayout::kMissing, "missing gradient", "missing", "one output"}};

constexpr const char* kTwice = "backward twice";
// A sequence of calls: 'f' calls forward at x, 'g' calls forward at another point, and 'b' calls
// backward at x, always with the same cotangent.
struct Repetition {
  const char* name;
  const char* calls;
  const char* labels[2];  // names of the calls of backward
};
// The first kind uses the cotangent for the first time. Its failure therefore shows that backward
// depends on the array of the cotangent.
constexpr Repetition kRepetitions[] = {
    {"one dy for two forwards",
     "fbfb",
     {"backward after forward",
      "backward after a second forward, with an array of dy that was used before,"}},
    {"another forward between",
     "fgbb",
     {"backward at x, after forward at x and then at another point,",
      "the second backward at x, after forward at x and then at another point,"}},
    {kTwice, "fbb", {"backward after forward", "the second backward after one forward"}}};

bool is_finite(const Values& values) { return std::ranges::none_of(values, is_not_finite); }

// Runs the calls of one check, and counts them in the report.
class CallChecker {
 public:
  CallChecker(const CheckedFunction& f, const RightCall& right, CheckReport& report)
      : f_(f), right_(right), report_(report) {}

  void check_layouts() {
    if (!f_.foreign || f_.foreign->layouts == 0) return;
    count(report_.layouts, true);  // contiguous
    for (const LayoutNames& names : kLayouts) {
      const std::vector<PlacedArray> all = placed_arrays(names.layout);
      if ((f_.foreign->layouts >> (int(names.layout) - 1) & 1) == 0) {
        const std::string& caller = f_.foreign->caller;
        not_applicable(report_.layouts, names.name,
                       caller.empty() ? "not accepted" : "not in " + caller);
      } else if (all.empty()) {
        not_applicable(report_.layouts, names.name, names.impossible);
      } else {
        std::size_t refused = 0;  // number of inputs that forward does not accept in this layout
        const bool right = std::ranges::all_of(
            all, [&](const PlacedArray& a) { return layout_is_right(a, names, refused); });
        if (refused < all.size()) count(report_.layouts, right);
        if (refused > 0)
          not_applicable(report_.layouts, names.name, "inputs that forward does not accept");
      }
    }
  }

  void check_repetitions() {
    for (const Repetition& kind : kRepetitions) {
      const bool right = repetition_is_right(kind);
      if (kind.name == kTwice && f_.foreign && f_.foreign->single_use)
        not_applicable(report_.repeated, kind.name, "single use");
      else
        count(report_.repeated, right);
    }
  }

  // Counts the fourth kind of repetition: no call so far has changed its arguments, or the result
  // of an earlier call of backward.
  void check_unchanged() {
    constexpr const char* kKept = "unchanged arrays";
    if (!f_.foreign) return not_applicable(report_.repeated, kKept, "copies");
    if (!f_.foreign->changed.empty()) report_.refuse(Verdict::kWrong, f_.foreign->changed);
    count(report_.repeated, f_.foreign->changed.empty());
  }

 private:
  static void count(KindCounts& counts, bool right) { ++counts.of, counts.passed += right; }
  static void not_applicable(KindCounts& counts, const std::string& name, const std::string& why) {
    counts.not_applicable.push_back(name + ": " + why);
  }

  Values forward(const Values& x, const PlacedArray& placed = {}) const {
    return f_.foreign ? f_.foreign->call(x, nullptr, placed) : f_.forward(x);
  }
  Values backward(const Values& v, const PlacedArray& placed = {}) const {
    return f_.foreign ? f_.foreign->call(f_.x, &v, placed) : f_.backward(f_.x, v);
  }

  // Returns a PlacedArray for each array that can have this layout.
  std::vector<PlacedArray> placed_arrays(ArrayLayout layout) const {
    std::vector<PlacedArray> all;
    const auto add = [&](bool is_gradient, const std::vector<Shape>& shapes) {
      for (std::size_t i = 0; i < shapes.size(); ++i)
        if (applies(layout, shapes[i])) all.push_back({layout, is_gradient, i});
    };
    if (layout != ArrayLayout::kMissing || f_.outputs.size() > 1) add(true, f_.outputs);
    if (layout < ArrayLayout::kZeroStrides) add(false, f_.inputs);
    return all;
  }

  // Returns the cotangent with which a layout is checked.
  Values cotangent(const PlacedArray& placed) const {
    Values v = right_.v;
    std::size_t begin = 0;
    for (std::size_t o = 0; o < placed.index; ++o) begin += std::size_t(f_.outputs[o].numel());
    const auto n = std::size_t(f_.outputs[placed.index].numel());
    if (placed.layout == ArrayLayout::kZeroStrides) std::fill_n(v.data() + begin, n, v[begin]);
    if (placed.layout == ArrayLayout::kMissing) std::fill_n(v.data() + begin, n, 0.0);
    return v;
  }

  bool layout_is_right(const PlacedArray& placed, const LayoutNames& names, std::size_t& refused) {
    const std::string prefix = std::string("with ") +
                               (placed.is_gradient ? "the gradient of output " : "input ") +
                               std::to_string(placed.index) + " " + names.of_array + ", ";
    const std::string other =
        placed.layout == ArrayLayout::kMissing ? "with zeros" : "with the contiguous one";
    const Values y = forward(f_.x, placed.is_gradient ? PlacedArray{} : placed);
    if (f_.foreign->undefined) return ++refused, true;
    if (const auto k =
            find_difference(y, right_.outputs, f_.outputs, f_, [&] { return right_.noise; }))
      return refuse(prefix + "forward", y[*k], element_name("output", f_.outputs, *k), other,
                    right_.outputs[*k]);
    const Values v = placed.is_gradient ? cotangent(placed) : right_.v;
    const Values expected = v == right_.v ? right_.gradient : backward(v);
    return is_right(backward(v, placed), v, expected, prefix + "backward", other);
  }

  // Calls forward at another point, before a backward at x: where the inputs are reversed, have the
  // opposite signs and are a few percent smaller, by different factors. Otherwise a mask or the
  // index of a maximum that is kept outside of the call could be the same. If forward is not finite
  // there, the signs or the order stay. Returns false if forward is finite at none of these points.
  bool call_elsewhere() const {
    const auto smaller = [&](Values x) {
      for (std::size_t k = 0; k < x.size(); ++k) {
        x[k] *= 1 - double(1 + k % 3) / 64;
        if (f_.single()) x[k] = double(float(x[k]));
      }
      return x;
    };
    const Values reversed = smaller(reversed_inputs(f_, true));
    return is_finite(forward(times(reversed, -1))) || is_finite(forward(reversed)) ||
           is_finite(forward(smaller(f_.x)));
  }

  bool repetition_is_right(const Repetition& kind) {
    Values v = right_.v, expected = right_.gradient;
    for (double& e : v) e = -e;  // a cotangent that was not used before
    for (double& e : expected) e = -e;
    const char* const* label = kind.labels;
    for (const char call : std::string_view(kind.calls)) {
      if (call != 'b') {
        if (call == 'f' ? !is_finite(forward(f_.x)) : !call_elsewhere()) return true;
        continue;
      }
      const Values g = backward(v);
      if (!is_right(g, v, expected, *label++, "the checked gradient is")) return false;
    }
    return true;
  }

  // Returns true if rounding explains the difference of g from `expected`.
  bool is_right(const Values& g, const Values& v, const Values& expected, const std::string& call,
                const std::string& other) {
    // For a constant dy, the terms of the gradient may cancel, as those of batch norm.
    const auto noise = [&] { return right_.gradient_noise(v, expected); };
    const auto k = find_difference(g, expected, f_.inputs, f_, noise, &right_.gradient);
    return !k || refuse(call, g[*k], element_name("input", f_.inputs, *k), other, expected[*k]);
  }

  bool refuse(const std::string& call, double got, const std::string& element,
              const std::string& other, double expected) {
    report_.refuse(Verdict::kWrong, call, " returns ", number_text(got), " for ", element, ", ",
                   other, " ", number_text(expected));
    return false;
  }

  const CheckedFunction& f_;
  const RightCall& right_;
  CheckReport& report_;
};

}  // namespace

std::optional<std::size_t> find_difference(const Values& got, const Values& expected,
                                           const std::vector<Shape>& shapes,
                                           const CheckedFunction& f,
                                           const std::function<Values()>& noise,
                                           const Values* scale) {
  std::optional<std::size_t> worst;
  double most = 1;
  Values measured;
  std::size_t k = 0;
  for (const Shape& shape : shapes) {
    const std::size_t end = k + std::size_t(shape.numel());
    double largest = 0;
    for (const Values* values : {&expected, scale})
      if (values) largest = std::max(largest, largest_of(std::span(*values).subspan(k, end - k)));
    for (; k < end; ++k) {
      const double distance = std::abs(got[k] - expected[k]);
      if (std::isnan(distance)) return k;
      double tolerance =
          kRoundings * (f.roundoff * std::max(std::abs(expected[k]), largest / 8) + f.smallest());
      if (distance <= tolerance) continue;
      if (measured.empty()) measured = noise();
      tolerance += 4 * measured[k];
      if (distance > most * tolerance) worst = k, most = distance / tolerance;
    }
  }
  return worst;
}

Values reversed_inputs(const CheckedFunction& f, bool all) {
  Values x = f.x;
  auto begin = x.begin();
  for (const Shape& s : f.inputs) {
    const auto end = begin + s.numel();
    const Index row = s.rank() > 0 ? s[s.rank() - 1] : 1;
    bool rises = all, falls = all;
    for (Index k = 1; k < s.numel(); ++k)
      if (k % row != 0) rises |= begin[k] > begin[k - 1], falls |= begin[k] < begin[k - 1];
    if (rises && falls) std::reverse(begin, end);
    begin = end;
  }
  return x;
}

std::string element_name(const char* kind, const std::vector<Shape>& shapes, std::size_t k) {
  auto at = Index(k);
  std::size_t i = 0;
  while (at >= shapes[i].numel()) at -= shapes[i++].numel();
  return kind + (" " + std::to_string(i)) + " at " + to_text(unravel(at, shapes[i]));
}

void check_calls(const CheckedFunction& f, const RightCall& right, CheckReport& report) {
  CallChecker checker(f, right, report);
  checker.check_repetitions();
  // A backward that changes its arguments may raise an exception for strides of 0.
  if (!f.foreign || f.foreign->changed.empty()) checker.check_layouts();
  checker.check_unchanged();
}

}  // namespace heed::autograd
