// Prints tensors as PyTorch does, by the rules of torch/_tensor_str.py with its default options.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iomanip>
#include <limits>
#include <map>
#include <string>

#include "autograd/base/text.h"
#include "autograd/graph/graph.h"
#include "autograd/tensor/tensor_access.h"

namespace heed::autograd {
namespace {

// If a tensor has more than kThreshold elements, only kEdgeItems elements at each end of an axis
// are printed.
constexpr Index kThreshold = 1000;
constexpr Index kEdgeItems = 3;
constexpr Index kLineWidth = 80;   // characters
constexpr int kPrecision = 4;      // digits after the point
constexpr Index kDotElements = 6;  // to_dot() prints up to this number of elements

// Texts of the printed elements in row-major order, and the width of a column in characters.
struct Cells {
  std::vector<std::string> text;
  Index width = 1;
};

// Returns the text of v. printf is not used, because its result depends on the locale.
std::string to_text(double v, std::chars_format format, int precision) {
  if (std::isnan(v)) return "nan";
  std::array<char, 400> buffer;  // DBL_MAX has 309 digits
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), v, format, precision);
  return std::string(buffer.data(), end.ptr);
}

std::string padded(const std::string& text, Index width) {
  const Index missing = width - Index(text.size());
  return missing > 0 ? std::string(std::size_t(missing), ' ') + text : text;
}

Cells format_integers(const std::vector<Index>& values, bool is_bool) {
  Cells cells;
  for (const Index v : values) {
    cells.text.push_back(!is_bool ? std::to_string(v) : v ? "True" : "False");
    cells.width = std::max(cells.width, Index(cells.text.back().size()));
  }
  for (std::string& t : cells.text) t = padded(t, cells.width);
  return cells;
}

Cells format_floats(const std::vector<double>& values) {
  // The format of all values and the width depend only on the nonzero finite values.
  bool whole = true;
  double smallest = std::numeric_limits<double>::infinity(), largest = 0;
  const auto counts = [](double v) { return std::isfinite(v) && v != 0; };
  for (const double v : values) {
    if (!counts(v)) continue;
    whole = whole && v == std::ceil(v);
    smallest = std::min(smallest, std::abs(v));
    largest = std::max(largest, std::abs(v));
  }
  const bool scientific =
      largest > 0 && (largest / smallest > 1000 || largest > 1e8 || smallest < 1e-4);
  const auto form = [&](double v) {
    if (scientific) return to_text(v, std::chars_format::scientific, kPrecision);
    if (!whole) return to_text(v, std::chars_format::fixed, kPrecision);
    return to_text(v, std::chars_format::fixed, 0) + (std::isfinite(v) ? "." : "");
  };
  Cells cells;
  for (const double v : values) {
    cells.text.push_back(form(v));
    if (counts(v)) cells.width = std::max(cells.width, Index(cells.text.back().size()));
  }
  for (std::string& t : cells.text) t = padded(t, cells.width);
  return cells;
}

// Returns true if only the edges of an axis of this size are printed.
bool is_cut(Index size, bool summarize) { return summarize && size > 2 * kEdgeItems; }

// Returns the offsets of the printed elements from the first element, in row-major order.
std::vector<Index> shown_offsets(const Layout& layout, bool summarize) {
  std::vector<Index> offsets{0};
  for (int axis = 0; axis < layout.shape.rank(); ++axis) {
    const Index n = layout.shape[axis];
    std::vector<Index> next;
    for (const Index from : offsets)
      for (Index i = 0; i < n; ++i) {
        if (is_cut(n, summarize) && i == kEdgeItems) i = n - kEdgeItems;
        next.push_back(from + i * layout.strides[axis]);
      }
    offsets = std::move(next);
  }
  return offsets;
}

template <class T, class V = T>
std::vector<V> shown(const Tensor& x, bool summarize) {
  std::vector<V> out;
  const T* data = x.data<T>();
  for (const Index at : shown_offsets(x.layout(), summarize)) out.push_back(V(data[at]));
  return out;
}

Cells format_cells(const Tensor& x, bool summarize) {
  switch (x.dtype()) {
    case float32:
      return format_floats(shown<float, double>(x, summarize));
    case float64:
      return format_floats(shown<double>(x, summarize));
    case int64:
      return format_integers(shown<std::int64_t>(x, summarize), false);
    case bool8:
      return format_integers(shown<bool, std::int64_t>(x, summarize), true);
    default: {  // tracked64: only the values
      std::vector<double> values;
      for (const Tracked& v : shown<Tracked>(x, summarize)) values.push_back(real(v));
      return format_floats(values);
    }
  }
}

// Writes the cells one after the other, in nested brackets. The elements of a row share lines. The
// parts of any other axis start on new lines.
std::string write(const Cells& cells, const Shape& shape, bool summarize, Index indent, int axis,
                  std::size_t& next) {
  const int deeper = shape.rank() - axis - 1;  // number of axes inside this one
  if (deeper < 0) return cells.text[next++];
  const Index per_line =
      deeper == 0 ? std::max<Index>(1, (kLineWidth - indent) / (cells.width + 2)) : 1;
  const std::string new_line = "," + std::string(std::size_t(std::max(1, deeper)), '\n') +
                               std::string(std::size_t(indent + 1), ' ');
  std::string out = "[";
  Index items = 0;
  const auto add = [&](const std::string& item) {
    if (items > 0) out += items % per_line == 0 ? new_line : ", ";
    out += item;
    ++items;
  };
  for (Index n = shape[axis], i = 0; i < n; ++i) {
    if (is_cut(n, summarize) && i == kEdgeItems) {
      add(deeper == 0 ? " ..." : "...");
      i = n - kEdgeItems;
    }
    add(write(cells, shape, summarize, indent + 1, axis + 1, next));
  }
  return out + "]";
}

// Returns the elements of x in brackets, for a line that already has `indent` characters.
std::string brackets(const Tensor& x, std::size_t indent) {
  if (x.numel() == 0) return "[]";
  const bool summarize = x.numel() > kThreshold;
  std::size_t next = 0;
  return write(format_cells(x, summarize), x.shape(), summarize, Index(indent), 0, next);
}

// Returns the texts after the values: the size of an empty tensor, such as "size=(0, 3)", a dtype
// other than float32 that the values do not show, and the op or requires_grad.
std::vector<std::string> suffixes(const Tensor& x) {
  std::vector<std::string> found;
  const bool is_empty = x.numel() == 0;  // then no printed element shows the dtype
  if (is_empty && x.rank() != 1) {
    std::string size = "size=(";
    for (int i = 0; i < x.rank(); ++i) size += (i ? ", " : "") + std::to_string(x.shape()[i]);
    found.push_back(size + ")");
  }
  if (x.dtype() != float32 && (is_empty || is_floating(x.dtype())))
    found.push_back("dtype=" + std::string(dtype_name(x.dtype())));
  if (!x.is_leaf())
    found.push_back("grad_fn=<" + std::string(detail::TensorAccess::node(x)->op()->name()) + ">");
  else if (x.requires_grad())
    found.push_back("requires_grad=True");
  return found;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& x) {
  if (!x.defined()) return out << "tensor(undefined)";
  constexpr std::string_view prefix = "tensor(";
  std::string text = std::string(prefix) + brackets(x, prefix.size());
  // PyTorch counts the line of the first suffix as two characters longer than it is.
  std::size_t line = text.size() - (text.rfind('\n') + 1) + 2;
  for (const std::string& suffix : suffixes(x)) {
    if (line + suffix.size() + 2 > std::size_t(kLineWidth)) {
      text += ",\n" + std::string(prefix.size(), ' ') + suffix;
      line = prefix.size() + suffix.size();
    } else {
      text += ", " + suffix;
      line += suffix.size() + 2;
    }
  }
  return out << text + ")";
}

namespace {

// Returns a line with `before` and the elements of x, or "" if x is undefined or large.
std::string small(const std::string& before, const Tensor& x) {
  if (!x.defined() || x.numel() > kDotElements) return "";
  return "\n" + before + brackets(x, before.size());
}

}  // namespace

std::string to_dot(const Tensor& y, const std::vector<std::pair<std::string, Tensor>>& names) {
  using detail::TensorAccess;
  check<ValueError>(y.requires_grad(), "to_dot", "this ", y.shape(),
                    " tensor has no graph; call requires_grad_() on a leaf first");
  struct Box {
    Ref<Node> node;
    Tensor value;
    std::string name;
    std::size_t number = 0;
  };
  std::map<std::uint64_t, Box, std::greater<>> boxes;  // by sequence number, latest first
  boxes[TensorAccess::node(y)->sequence()] = {TensorAccess::node(y), y, ""};
  for (const auto& [sequence, box] : boxes) {  // also visits the boxes that the loop adds
    check<ValueError>(!box.node->released(), "to_dot",
                      "an earlier backward pass freed the graph; pass retain_graph = true to it");
    for (const Node::Input& input : box.node->inputs()) {
      if (!input.node) continue;
      Box& found = boxes[input.node->sequence()];
      found.node = input.node;
      if (!found.value.defined()) found.value = input.value;
    }
  }
  for (const auto& [name, x] : names) {
    const auto found =
        x.requires_grad() ? boxes.find(TensorAccess::node(x)->sequence()) : boxes.end();
    if (found != boxes.end()) found->second.name = name, found->second.value = x;
  }
  std::size_t count = 0;
  for (auto& [sequence, box] : boxes) box.number = count++;
  TextStream out;
  out << "digraph {\n  rankdir=BT\n  node [shape=box fontname=monospace]\n";
  for (const auto& [sequence, box] : boxes) {
    Node& node = *box.node;
    TextStream text;
    text << box.name << (box.name.empty() ? "" : " = ") << (node.op() ? node.op()->name() : "leaf")
         << "\n"
         << node.dtype() << " " << node.shape() << small("", box.value)
         << small("grad ", node.has_extras() ? node.extras().grad : Tensor());
    out << "  n" << box.number << " [label=" << std::quoted(text.str()) << "]\n";
    for (const Node::Input& input : node.inputs())
      if (input.node)
        out << "  n" << boxes[input.node->sequence()].number << " -> n" << box.number << "\n";
  }
  return out.str() + "}\n";
}

}  // namespace heed::autograd
