#include "autograd/check/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "autograd/base/text.h"
#include "autograd/ops/ops.h"

namespace heed::autograd {
namespace {

// Share of the entries that an explanation must explain, and the least number of them.
constexpr double kShare = 0.99;
constexpr Index kFewest = 16;
// The text describes the wrong inputs, and right ones before this index.
constexpr std::size_t kMostInputs = 8;

// A mistake, with the values that it gives to entries of one input. Entries without a value are not
// known, because they depend on entries that were not compared.
struct Explanation {
  std::string detail;  // follows Kind::text
  Estimates values;
  Estimate factor = {};
  Index agree = 0, of = 0;  // number of entries that agree, and of those with a value
};
using Explanations = std::vector<Explanation>;

// One input of a gradient, with the data that the functions of kKinds use.
struct Input {
  Input(const ComparedGradient& gradient, std::size_t i)
      : g(gradient), shape(g.inputs[i]), right(g.right[i]) {
    for (std::size_t j = 0; j < i; ++j) start += std::size_t(g.inputs[j].numel());
    for (const auto& [at, value] : right) wrong += !agrees(at, value);
  }
  double given(std::size_t at, std::size_t c) const { return g.gradients[c][start + at]; }
  bool is_given_zero(std::size_t at) const {
    return std::ranges::all_of(g.gradients, [&](const auto& v) { return v[start + at] == 0; });
  }
  // Returns true if the given values of an entry equal `values` within the noise of both.
  bool agrees(std::size_t at, const std::vector<Estimate>& values) const {
    bool agree = true;
    for (std::size_t c = 0; c < values.size(); ++c)
      agree &= std::abs(given(at, c) - values[c].value) <= values[c].noise + right.at(at)[c].noise;
    return agree;
  }
  bool is_wrong(std::size_t at) const { return !agrees(at, right.at(at)); }

  const ComparedGradient& g;
  const Shape& shape;
  const Estimates& right;
  std::size_t start = 0;  // index of the first entry, among the entries of all inputs
  Index wrong = 0;        // number of wrong entries
};

bool is_zero(const std::vector<Estimate>& values) {
  return std::ranges::all_of(values, [](const Estimate& e) { return e.value == 0; });
}

void constant_factor(const Input& x, Explanations& out) {
  double clearest = 0;
  Estimate f;
  for (const auto& [at, values] : x.right)
    for (std::size_t c = 0; c < values.size(); ++c)
      if (const auto [value, noise] = values[c]; std::abs(value) > clearest * noise) {
        clearest = std::abs(value) / noise;
        f = {x.given(at, c) / value, (1 + std::abs(x.given(at, c) / value)) / clearest};
      }
  if (f.value == 0) return;
  std::set<Index> sizes = {1, 2};
  for (const auto* shapes : {&x.g.inputs, &x.g.outputs})
    for (const Shape& shape : *shapes) sizes.insert(shape.begin(), shape.end());
  const double measured = f.value;
  std::optional<std::string> origin;
  for (const Index n : sizes)
    for (const double power : {1.0, -1.0, 0.5, -0.5}) {
      const double exact = std::copysign(std::pow(double(n), power), measured);
      if (origin || !(std::abs(exact - measured) <= f.noise)) continue;
      f.value = exact;
      TextStream text;
      if (n > 2) text << " (" << n << "^" << power << "; " << n << " is the size of an axis)";
      origin = text.str();
    }
  TextStream detail;
  detail << f.value << origin.value_or("");
  Estimates scaled = x.right;
  for (auto& [at, values] : scaled)
    for (auto& [value, noise] : values) {
      noise = std::abs(f.value) * noise + std::abs(value) * f.noise;
      value *= f.value;
    }
  out.push_back({detail.str(), scaled, f});
}

void transposed(const Input& x, Explanations& out) {
  for (int b = 1; b < x.shape.rank(); ++b)
    for (int a = 0; a < b; ++a) {
      const std::vector<double> from =
          transpose(reshape(arange(0, double(x.shape.numel()), 1, float64), x.shape), a, b)
              .to_vector<double>();
      Estimates moved;
      for (std::size_t at = 0; at < from.size(); ++at)
        if (const auto source = x.right.find(std::size_t(from[at])); source != x.right.end())
          moved[at] = source->second;
      out.push_back({"axes " + std::to_string(a) + " and " + std::to_string(b), moved});
    }
}

void exchanged(const Input& x, Explanations& out) {
  for (std::size_t j = 0; j < x.g.inputs.size(); ++j) {
    const Input y(x.g, j);
    if (y.start == x.start || y.right.size() != x.right.size() ||
        std::ssize(x.right) != x.shape.numel())
      continue;
    if (std::ranges::all_of(x.right, [&](const auto& r) {
          return y.right.contains(r.first) && y.agrees(r.first, r.second);
        }))
      out.push_back({std::to_string(j), y.right});
  }
}

// Adds the right gradient for other dys. Stops without adding it when more than 1 % of the entries
// disagree, because each measurement calls forward.
void add_for_dys(const Input& x, const std::string& detail, Explanations& out,
                 const std::vector<std::vector<double>>& dys) {
  Estimates measured;
  double misses = 0;
  for (const auto& [at, right] : x.right) {
    measured[at] = x.g.right_for(x.start + at, dys);
    misses += !x.agrees(at, measured[at]);
    if (misses > (1 - kShare) * double(x.right.size())) return;
  }
  out.push_back({detail, measured});
}

void without_dy(const Input& x, Explanations& out) {
  add_for_dys(x, "", out, {x.g.dys.size(), std::vector(x.g.y.size(), 1.0)});
}

void not_summed(const Input& x, Explanations& out) {
  const Shape& output = x.g.outputs[0];
  if (x.g.outputs.size() > 1) return;
  std::vector<std::pair<std::string, Shape>> sums = {{"the broadcast axes", x.shape}};
  for (int a = 0, lead = output.rank() - x.shape.rank(); a < output.rank(); ++a)
    if (a < lead || x.shape[a - lead] < output[a])
      sums.emplace_back("axis " + std::to_string(a), output.with(a, 1));
  for (const auto& [name, shape] : sums)
    for (const bool last : {false, true}) {
      std::vector<std::vector<double>> dys;
      for (const auto& dy : x.g.dys)
        dys.push_back(unsummed(from_data(dy, output), shape, last).to_vector<double>());
      add_for_dys(x, name + (last ? ", the last" : ", the first"), out, dys);
    }
}

// Adds the right gradient plus w times a number that is constant along one axis, or along all. The
// sum of the right gradient along the axis is 0, which determines the number.
void add_sums(const Input& x, const Tensor& w, const std::string& number_text, Explanations& out) {
  for (int axis = 0; axis <= w.rank(); ++axis) {
    const Dims axes = axis < w.rank() ? Dims(axis) : Dims();
    Estimates values = x.right;
    for (std::size_t c = 0; c < x.g.dys.size(); ++c) {
      const auto first = x.g.gradients[c].begin() + std::ptrdiff_t(x.start);
      const Tensor given = from_data(std::vector<double>(first, first + w.numel()), x.shape);
      const Tensor number = sum(given, axes, true) / sum(w, axes, true);
      // If the number is the same along all other axes, another mistake added it.
      const auto numbers = number.to_vector<double>();
      const auto [least, most] = std::ranges::minmax(numbers);
      if (c == 0 && numbers.size() > 1 && most - least <= 1e-6 * std::abs(most)) return;
      const auto added = (w * number).to_vector<double>();
      for (auto& [at, value] : values) value[c].value += added[at];
    }
    const std::string along = axis < w.rank() ? "axis " + std::to_string(axis) : "all axes";
    out.push_back({number_text + " that is constant along " + along, values});
  }
}

void without_row_sum(const Input& x, Explanations& out) {
  if (x.g.outputs.size() > 1 || x.g.outputs[0] != x.shape) return;
  add_sums(x, from_data(x.g.y, x.shape), "y times a number", out);
  // If y is a log softmax, the row sum is multiplied by the softmax.
  add_sums(x, exp(from_data(x.g.y, x.shape)), "exp(y) times a number", out);
}

void without_mean(const Input& x, Explanations& out) {
  add_sums(x, ones(x.shape, float64), "a number", out);
}

// Adds a gradient that is right where is_right(at), and wrong in any way elsewhere.
void add_right_where(const Input& x, const std::string& detail, Explanations& out,
                     const std::function<bool(std::size_t at)>& is_right) {
  Estimates values = x.right;
  for (auto& [at, value] : values)
    for (std::size_t c = 0; c < value.size() && !is_right(at); ++c)
      value[c] = {x.is_wrong(at) ? x.given(at, c) : std::numeric_limits<double>::infinity(), 0};
  out.push_back({detail, values});
}

void without_mask(const Input& x, Explanations& out) {
  const auto zeros =
      std::ranges::count_if(x.right, [](const auto& r) { return is_zero(r.second); });
  if (zeros > 1 && zeros < std::ssize(x.right))
    add_right_where(x, "", out, [&](std::size_t at) { return !is_zero(x.right.at(at)); });
}

// Adds gradients that are right before an index, of the flattened input or along an axis. After it,
// they are 0 (if `zero`), or have any other values.
void add_right_before(const Input& x, bool zero, Explanations& out) {
  for (int axis = x.shape.rank(); axis >= 0; --axis) {
    const bool flat = axis == x.shape.rank();
    const auto index = [&](std::size_t at) {
      return flat ? Index(at) : unravel(Index(at), x.shape)[axis];
    };
    Index begin = x.shape.numel(), before = 0, nonzero = 0, others = 0;
    for (const auto& [at, right] : x.right) {
      if (!x.is_wrong(at)) continue;
      begin = std::min(begin, index(at));
      nonzero += !x.is_given_zero(at);
      others += !x.is_given_zero(at) && !is_zero(right);
    }
    for (const auto& [at, right] : x.right) before += index(at) < begin && !is_zero(right);
    // The first index alone may be right by chance, for example in a sum over previous entries.
    bool first = begin == 1;
    for (int a = 0; flat && a < x.shape.rank(); ++a)
      first |= begin == x.shape.sub(a, x.shape.rank()).numel();
    if (zero ? nonzero > 0 : first || before < 2 || others < 2) continue;
    const std::string name = flat ? "the flattened input" : "axis " + std::to_string(axis);
    add_right_where(x, std::to_string(begin) + " of " + name, out, [&](std::size_t at) {
      return index(at) < begin || (is_zero(x.right.at(at)) && x.is_given_zero(at));
    });
  }
}
void right_in_first(const Input& x, Explanations& out) { add_right_before(x, false, out); }
void zero_from_index(const Input& x, Explanations& out) { add_right_before(x, true, out); }

struct Kind {
  const char* name;
  const char* text;  // of the values; the detail of the explanation replaces the first %
  void (*explain)(const Input& x, Explanations& out);
};
constexpr Kind kKinds[] = {
    {"constant factor", "% times the right values", constant_factor},
    {"transposed", "the right values of the transposed gradient (%)", transposed},
    {"not multiplied by dy", "right for dy = 1, where dy is the gradient of the output",
     without_dy},
    {"row sum not subtracted", "right plus %", without_row_sum},
    {"mean not subtracted", "right plus %", without_mean},
    {"broadcast not summed", "one term of the right sum (over %)", not_summed},
    {"mask not applied", "right or, where the right value is 0, not 0", without_mask},
    {"two inputs exchanged", "the right values of input %", exchanged},
    {"right only in the first entries", "right before index %, and wrong from there on",
     right_in_first},
    {"zero from an index on", "right before index %, and 0 from there on", zero_from_index}};

// Returns true if an explanation fits, and stores its number of entries. It must differ from the
// right gradient where the given gradient is wrong.
bool fits(const Input& x, Explanation& explanation) {
  Index wrong = 0, agree_wrong = 0;
  for (const auto& [at, values] : explanation.values) {
    const auto right = x.right.find(at);
    if (right == x.right.end()) continue;
    bool agree = x.agrees(at, values), differs = false;
    for (std::size_t c = 0; c < values.size(); ++c)
      differs |= std::abs(values[c].value - right->second[c].value) >
                 values[c].noise + right->second[c].noise;
    if (x.is_wrong(at)) ++wrong, agree = agree && differs, agree_wrong += agree;
    explanation.agree += agree, ++explanation.of;
  }
  return explanation.of >= std::min(kFewest, std::ssize(x.right)) && wrong > 0 &&
         double(explanation.agree) >= kShare * double(explanation.of) &&
         double(agree_wrong) >= kShare * double(wrong);
}

// Returns an explanation for each wrong input, or nothing if one has none. Their factors are equal.
std::map<std::size_t, Explanation> explain(const std::vector<Input>& inputs, const Kind& kind) {
  std::map<std::size_t, Explanation> chosen;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].wrong == 0) continue;
    Explanations all;
    kind.explain(inputs[i], all);
    const auto found = std::ranges::find_if(all, [&](Explanation& x) {
      const Estimate f = chosen.empty() ? x.factor : chosen.begin()->second.factor;
      return std::abs(x.factor.value - f.value) <= x.factor.noise + f.noise && fits(inputs[i], x);
    });
    if (found == all.end()) return {};
    chosen[i] = *found;
  }
  return chosen;
}

}  // namespace

Tensor unsummed(const Tensor& g, const Shape& input, bool last) {
  Tensor result = g;
  const int lead = g.rank() - input.rank();
  for (int a = 0; a < g.rank(); ++a) {
    const Index n = g.size(a);
    if (n < 2 || (a >= lead && input[a - lead] == n)) continue;
    Shape along = Dims::filled(g.rank(), 1);
    along[a] = n;
    const Tensor others = ne(reshape(arange(n), along), double(last ? n - 1 : 0));
    result = masked_fill(result, expand(others, g.shape()), 0);
  }
  return result;
}

Diagnosis diagnose(const ComparedGradient& gradient) {
  std::vector<Input> inputs;
  for (std::size_t i = 0; i < gradient.right.size(); ++i) inputs.emplace_back(gradient, i);
  std::vector<const Kind*> kinds;
  std::map<std::size_t, Explanation> chosen;
  for (const Kind& kind : kKinds)
    if (auto found = explain(inputs, kind); !found.empty())
      kinds.push_back(&kind), chosen.swap(found);
  if (kinds.size() != 1) chosen.clear();
  Diagnosis d;
  for (const Kind* kind : kinds)
    d.text += (d.text.empty() ? chosen.empty() ? "possible: " : "likely mistake: " : ", ") +
              std::string(kind->name);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Index of = std::ssize(inputs[i].right), agree = of - inputs[i].wrong;
    if (of == 0 || (agree == of && i >= kMostInputs)) continue;
    std::string text = "right";
    if (const auto found = chosen.find(i); found != chosen.end()) {
      text = kinds[0]->text, agree = found->second.agree, of = found->second.of;
      if (const auto at = text.find('%'); at != text.npos)
        text.replace(at, 1, found->second.detail);
      d.agree += agree, d.of += of;
    }
    d.text += (d.text.empty() ? "input " : "; input ") + std::to_string(i) + ": " +
              std::to_string(agree) + " of " + std::to_string(of) + " entries are " + text;
  }
  if (chosen.empty()) return d;
  d.kind = kinds[0]->name;
  if (chosen.size() == 1) d.input = chosen.begin()->first;
  if (const double f = chosen.begin()->second.factor.value; f != 0) d.factor = f;
  return d;
}

}  // namespace heed::autograd
