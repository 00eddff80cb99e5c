// Einstein summation. The equation is parsed into labels. Then the operands are contracted from
// left to right, with one matmul or one elementwise product per step. einsum is made of public ops,
// so its gradient comes from these ops.
#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "autograd/graph/check_registry.h"
#include "autograd/ops/ops.h"

namespace heed::autograd {
namespace {

// One label and its place in the equation.
struct Label {
  std::string_view name;
  std::size_t at;
};
using Term = std::vector<Label>;

bool has(const Term& term, std::string_view name) {
  return std::ranges::find(term, name, &Label::name) != term.end();
}

struct Equation {
  std::string_view text;
  std::vector<Term> terms;
  Term output;
};

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }
bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_name(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; }

// Throws E with the text "einsum: <parts>", then a line with the equation, then a line with a caret
// under place `at` of the equation.
template <class E, class... Parts>
[[noreturn]] void fail_at(std::string_view text, std::size_t at, const Parts&... parts) {
  std::string line(text);
  std::replace_if(line.begin(), line.end(), is_space, ' ');
  // The column of the caret counts characters, not UTF-8 bytes.
  const auto column = std::count_if(line.begin(), line.begin() + std::ptrdiff_t(at),
                                    [](char c) { return !is_continuation(c); });
  fail<E>("einsum", parts..., "\n  ", line, "\n  ", std::string(std::size_t(column), ' '), "^");
}

// Throws ValueError because the character at `at` is not part of a label. If the character is 0 or
// 1 in place of a single letter, the message suggests 'o' or 'l'.
[[noreturn]] void fail_on_character(std::string_view text, std::size_t at, bool names) {
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("..."))
    fail_at<ValueError>(text, at, "'...' is not supported: label every axis");
  std::size_t length = 1;
  while (length < rest.size() && is_continuation(rest[length])) ++length;
  const std::string_view hint = names            ? ""
                                : rest[0] == '1' ? "; did you mean 'l'?"
                                : rest[0] == '0' ? "; did you mean 'o'?"
                                                 : "";
  fail_at<ValueError>(
      text, at, "'", rest.substr(0, length), "' is not a label: labels are ",
      names ? "names of letters, digits and '_' that begin with a letter" : "letters", hint);
}

// Parses text[begin, end) into labels. Labels are words if `names` is true, else single letters.
// Spaces between labels are ignored. A label that appears twice is an error.
Term parse_term(std::string_view text, std::size_t begin, std::size_t end, bool names) {
  Term term;
  for (std::size_t i = begin; i < end;) {
    if (is_space(text[i])) {
      ++i;
      continue;
    }
    if (!is_letter(text[i]) && !(names && text[i] == '_')) fail_on_character(text, i, names);
    std::size_t next = i + 1;
    while (names && next < end && is_name(text[next])) ++next;
    const Label label{text.substr(i, next - i), i};
    if (has(term, label.name))
      fail_at<ValueError>(text, i, "label '", label.name,
                          "' appears twice in a term; each axis of a term needs its own label");
    term.push_back(label);
    i = next;
  }
  return term;
}

// Returns true if the labels of a term must be names, because it has two words or an underscore.
bool needs_names(std::string_view term) {
  int words = 0;
  for (std::size_t i = 0; i < term.size(); ++i)
    words += !is_space(term[i]) && (i == 0 || is_space(term[i - 1]));
  return words >= 2 || term.find('_') != term.npos;
}

// Returns NumPy's implicit output: the labels that appear once, in alphabetical order.
Term implicit_output(const Equation& e) {
  Term all, once;
  for (const Term& term : e.terms) all.insert(all.end(), term.begin(), term.end());
  for (const Label& l : all)
    if (std::ranges::count(all, l.name, &Label::name) == 1) once.push_back(l);
  std::ranges::sort(once, {}, &Label::name);
  return once;
}

Equation parse(std::string_view text) {
  Equation e{text, {}, {}};
  const std::size_t arrow = text.find("->"), inputs_end = std::min(arrow, text.size());
  std::vector<std::array<std::size_t, 2>> pieces;  // begin and end of each term
  for (std::size_t begin = 0;;) {
    const std::size_t end = std::min(text.find(',', begin), inputs_end);
    pieces.push_back({begin, end});
    if (end == inputs_end) break;
    begin = end + 1;
  }
  bool names = arrow != text.npos && needs_names(text.substr(arrow + 2));
  for (const auto& [begin, end] : pieces)
    names = names || needs_names(text.substr(begin, end - begin));
  for (const auto& [begin, end] : pieces) e.terms.push_back(parse_term(text, begin, end, names));
  if (arrow == text.npos) {
    if (names) fail_at<ValueError>(text, text.size(), "named labels need '->' and an output");
    e.output = implicit_output(e);
    return e;
  }
  e.output = parse_term(text, arrow + 2, text.size(), names);
  for (const auto& [name, at] : e.output) {
    const bool known = std::any_of(e.terms.begin(), e.terms.end(),
                                   [&, n = name](const Term& t) { return has(t, n); });
    if (!known)
      fail_at<ValueError>(text, at, "output label '", name, "' does not appear in any operand");
  }
  return e;
}

// Checks that the rank of each operand fits its term, and that all axes with the same label have
// equal sizes.
void check_sizes(const Equation& e, Args operands) {
  struct Seen {
    std::string_view name;
    std::size_t operand;
    Index size;
  };
  std::vector<Seen> seen;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const Shape& shape = operands[k].shape();
    const Term& term = e.terms[k];
    if (std::size_t(shape.rank()) != term.size()) {
      std::string labels;
      for (const Label& l : term) labels.append(labels.empty() ? "" : " ").append(l.name);
      fail<ShapeError>("einsum", "operand ", k, " ", shape, " has rank ", shape.rank(),
                       ", its term '", labels, "' has ", term.size(), " labels\n  ", e.text);
    }
    for (int i = 0; i < shape.rank(); ++i) {
      const auto& [name, at] = term[std::size_t(i)];
      const auto before = std::ranges::find(seen, name, &Seen::name);
      if (before == seen.end())
        seen.push_back({name, k, shape[i]});
      else if (before->size != shape[i])
        fail_at<ShapeError>(e.text, at, "label '", name, "' has size ", before->size,
                            " in operand ", before->operand, " ", operands[before->operand].shape(),
                            " and ", shape[i], " in operand ", k, " ", shape,
                            "; sizes do not broadcast");
    }
  }
}

// A tensor and the labels of its axes. No label occurs twice.
struct Labeled {
  Tensor x;
  Term labels;

  Index size(std::string_view name) const { return x.shape()[axis(name)]; }
  int axis(std::string_view name) const {
    return int(std::ranges::find(labels, name, &Label::name) - labels.begin());
  }
};

// Sums over the labels for which `kept` returns false.
template <class Kept>
Labeled sum_unless(const Labeled& a, Kept kept) {
  Dims axes;
  Labeled out{a.x, {}};
  for (std::size_t i = 0; i < a.labels.size(); ++i)
    if (kept(a.labels[i]))
      out.labels.push_back(a.labels[i]);
    else
      axes.push_back(Index(i));
  if (axes.rank() > 0) out.x = sum(a.x, axes);
  return out;
}

// Returns the tensor of `a` with its axes in the order of these labels.
Tensor permuted_to(const Labeled& a, const Term& order) {
  Dims axes;
  bool same = true;
  for (const Label& l : order) {
    same = same && a.axis(l.name) == axes.rank();
    axes.push_back(a.axis(l.name));
  }
  return same ? a.x : permute(a.x, axes);
}

Term joined(const Term& a, const Term& b, const Term& c = {}) {
  Term all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

Shape label_sizes(const Labeled& a, const Term& labels) {
  Shape shape;
  for (const Label& l : labels) shape.push_back(a.size(l.name));
  return shape;
}

// Returns the product of two operands, summed over the labels that a and b both have and for which
// `kept` returns false.
template <class Kept>
Labeled contract(const Labeled& a, const Labeled& b, std::string_view text, Kept kept) {
  Term batch, contracted, a_free, b_free;
  for (const Label& l : a.labels)
    (!has(b.labels, l.name) ? a_free : kept(l) ? batch : contracted).push_back(l);
  for (const Label& l : b.labels)
    if (!has(a.labels, l.name)) b_free.push_back(l);
  const Term labels = joined(batch, a_free, b_free);
  check(labels.size() <= std::size_t(kMaxRank), "einsum", "an intermediate result has ",
        labels.size(), " axes, the limit is ", kMaxRank, "; contract in another order\n  ", text);
  const Shape b_sizes = label_sizes(b, b_free), a_sizes = label_sizes(a, a_free);
  const Shape batch_sizes = label_sizes(a, batch);
  const Shape shape = batch_sizes.joined(a_sizes).joined(b_sizes);
  if (contracted.empty()) {
    const Tensor left =
        reshape(permuted_to(a, joined(batch, a_free)),
                batch_sizes.joined(a_sizes).joined(Dims::filled(b_sizes.rank(), 1)));
    const Tensor right =
        reshape(permuted_to(b, joined(batch, b_free)),
                batch_sizes.joined(Dims::filled(a_sizes.rank(), 1)).joined(b_sizes));
    return {left * right, labels};
  }
  // Batch axes are merged only if the operands of matmul would have too many axes otherwise,
  // because a merge may need a copy.
  const Shape lead = batch_sizes.rank() + 2 <= kMaxRank ? batch_sizes : Shape{batch_sizes.numel()};
  const Index m = a_sizes.numel(), k = label_sizes(a, contracted).numel(), n = b_sizes.numel();
  const Tensor left = permuted_to(a, joined(batch, a_free, contracted));
  const Tensor right = permuted_to(b, joined(batch, contracted, b_free));
  const Tensor product =
      matmul(reshape(left, lead.joined({m, k})), reshape(right, lead.joined({k, n})));
  return {reshape(product, shape), labels};
}

}  // namespace

Tensor einsum(std::string_view text, std::span<const Tensor> operands) {
  const Equation e = parse(text);
  check<ValueError>(e.terms.size() == operands.size(), "einsum", "the equation has ",
                    e.terms.size(), e.terms.size() == 1 ? " term" : " terms", ", got ",
                    operands.size(), operands.size() == 1 ? " operand\n  " : " operands\n  ", text);
  check_sizes(e, operands);
  // Returns a function that returns true for a label of the output or of a term after term k.
  const auto read_after = [&e](std::size_t k) {
    return [&e, k](const Label& l) {
      return has(e.output, l.name) ||
             std::any_of(e.terms.begin() + std::ptrdiff_t(k) + 1, e.terms.end(),
                         [&](const Term& t) { return has(t, l.name); });
    };
  };
  Labeled result = sum_unless({operands[0], e.terms[0]}, read_after(0));
  for (std::size_t k = 1; k < operands.size(); ++k) {
    const auto kept = read_after(k);
    Labeled next{operands[k], e.terms[k]};
    next = sum_unless(next, [&](const Label& l) { return kept(l) || has(result.labels, l.name); });
    result = contract(result, next, text, kept);
  }
  return permuted_to(result, e.output);
}

Tensor einsum(std::string_view text, std::initializer_list<Tensor> operands) {
  return einsum(text, std::span(operands.begin(), operands.size()));
}

namespace {

const Check kEinsum("einsum", [](SampleGen& g) -> Samples {
  const auto equation = [](const char* text) { return [text](Args t) { return einsum(text, t); }; };
  return {{"rank 0", equation(",i->i"), {g.normal({}), g.normal({3})}},
          {"attention scores",
           equation("nqhd,nkhd->nhqk"),
           {g.normal({2, 2, 2, 3}), g.normal({2, 3, 2, 3})}},
          {"names, three operands",
           equation("b pos d_in, head d_in d, head d d_out -> b pos d_out"),
           {g.normal({2, 2, 3}), g.normal({2, 3, 2}), g.normal({2, 2, 2})}},
          {"sum times sum", equation("i,jk->"), {g.normal({2}), g.normal({2, 3})}},
          {"elementwise and outer", equation("bi,bj->jbi"), {g.normal({2, 3}), g.normal({2, 2})}},
          {"x with itself",
           [](Args t) {
             return einsum("ij,kj->ik", {t[0], t[0]});
           },
           {g.normal({2, 3})}},
          {"size 0", equation("ij,jk->ik"), {g.normal({2, 0}), g.normal({0, 3})}}};
});

}  // namespace

}  // namespace heed::autograd
