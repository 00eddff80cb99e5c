#include "tests/golden/page.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>

namespace heed::notebook {
namespace {

using namespace autograd;

// The cells of a matrix as NumPy writes them: the decimals they need, at most 8, points aligned.
std::vector<std::string> numpy_cells(const Tensor& x) {
  struct Cell {
    std::string whole, rest;  // "-1", ".25"; "-inf", ""
  };
  std::vector<Cell> cells;
  std::size_t rest = 0, width = 0;
  for (const double v : x.to_vector<double>()) {
    char buffer[400];
    std::snprintf(buffer, sizeof buffer, "%.8f", v);
    const std::string all = buffer;
    const std::size_t point = std::min(all.find('.'), all.size());
    cells.push_back(
        {all.substr(0, point), all.substr(point, all.find_last_not_of('0') + 1 - point)});
    rest = std::max(rest, cells.back().rest.size());
  }
  for (Cell& cell : cells) {
    if (!cell.rest.empty()) cell.rest.resize(rest, ' ');
    width = std::max(width, cell.whole.size() + cell.rest.size());
  }
  std::vector<std::string> out;
  out.reserve(cells.size());
  for (const Cell& cell : cells)
    out.push_back(std::string(width - cell.whole.size() - cell.rest.size(), ' ') + cell.whole +
                  cell.rest);
  return out;
}

std::string numpy(const Tensor& x, const std::string& prefix, const std::string& separator) {
  constexpr std::size_t kLineWidth = 75;
  const std::vector<std::string> cells = numpy_cells(x);
  const std::string indent(prefix.size() + 2, ' ');
  std::string out, line = prefix + "[[";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool row_starts = std::int64_t(i) % x.size(1) == 0;
    if (i > 0) line += row_starts ? "]" + separator : separator;
    if (i > 0 && (row_starts || line.size() + cells[i].size() > kLineWidth)) {
      out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
      line = row_starts ? indent.substr(1) + "[" : indent;
    }
    line += cells[i];
  }
  return out + line + "]]" + (prefix.empty() ? "" : ")");
}

}  // namespace

std::string numpy_repr(const Tensor& x) { return numpy(x, "array(", ", "); }
std::string numpy_str(const Tensor& x) { return numpy(x, "", " "); }

void Page::cell(std::string_view label) { std::cout << "\n" << label << "\n"; }

void Page::say(std::string_view line) { std::cout << line << "\n"; }

void Page::tensor(const std::string& number, const Tensor& x, std::string_view printed) {
  const Tensor shown = is_floating(x.dtype()) ? to(x.detach(), float32) : x;
  say(text(shown));
  keep(number, x);
  require(number, text(shown), printed);
}

void Page::array(const std::string& number, const Tensor& x, std::string_view printed) {
  say(numpy_repr(x));
  keep(number, x);
  require(number, numpy_repr(x), printed);
}

void Page::size(const std::string& number, const Tensor& x, std::string_view printed) {
  const std::string size = text("torch.Size(", x.shape(), ")");
  say(text(number.substr(number.find(':') + 1), ".size(): ", size));
  keep(number, x);
  require(number, size, printed);
}

void Page::require(const std::string& number, const std::string& got, std::string_view printed) {
  if (printed.empty()) return;
  ++checks_;
  if (got == printed) return;
  ++failures_;
  std::cout << "FAILED: " << number << ": the notebook prints\n" << printed << "\n";
}

void Page::keep(const std::string& number, const Tensor& x) {
  const std::size_t colon = number.find(':');
  shown_[number.substr(0, colon)].emplace_back(number.substr(colon + 1), x.detach());
}

void Page::check(std::string_view what, bool holds) {
  ++checks_;
  failures_ += !holds;
  std::cout << (holds ? "holds: " : "FAILED: ") << what << "\n";
}

void Page::fault(std::string_view name, bool right_passes, bool wrong_passes,
                 std::string_view seen) {
  ++faults_;
  const bool caught = right_passes && !wrong_passes;
  failures_ += !caught;
  std::cout << (caught ? "\nfault caught: " : "\nFAULT NOT CAUGHT: ") << name << "\n"
            << seen << "\n";
  if (!right_passes) std::cout << "(the check fails on the right code, too)\n";
}

int run(int argc, char** argv, int seed, void (*notebook)(Page&)) try {
  const bool compares = argc == 3 && std::string_view(argv[1]) == "--numbers";
  if (argc != 1 && !compares) {
    std::cerr << "usage: " << argv[0] << " [--numbers FILE]\n";
    return 2;
  }
  Page page;
  notebook(page);
  std::cout << text("\nchecks: ", page.checks(), ", faults: ", page.faults(),
                    ", failed: ", page.failures(), "\n");
  if (page.failures()) return 1;
  if (!compares) return 0;
  if (!std::filesystem::exists(argv[2])) {
    std::cout << "SKIPPED: the comparison with " << argv[2] << ", which does not exist\n";
    return 77;
  }
  const auto [entries, differences] = compare(argv[2], seed, page.shown());
  std::cout << text(entries, " verified entries of ", argv[2], ": ", differences.size(),
                    " differences\n");
  for (const std::string& line : differences) std::cout << "DIFFERS: " << line << "\n";
  return differences.empty() ? 0 : 1;
} catch (const std::exception& e) {  // a file that cannot be read or written
  std::cerr << e.what() << "\n";
  return 4;
}

}  // namespace heed::notebook
