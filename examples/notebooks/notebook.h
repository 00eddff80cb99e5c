// Helpers shared by the five notebook programs. They print and test results.
#pragma once

#include <cmath>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "autograd/autograd.h"

namespace heed::notebook {

using autograd::Tensor;

/// Receives every result that a program shows. By default, a program has no observer. The tests
/// link an observer into the program, to compare the results with the numbers of the original
/// notebooks.
struct Observer {
  virtual ~Observer() = default;
  /// Called for each result. `text` is the printed text.
  virtual void shown(const std::string& cell, const std::string& name, const Tensor& x,
                     const std::string& text) = 0;
  /// Called at the end of the program. Returns its exit code.
  /// `code` is the exit code without an observer.
  virtual int finish(int notebook, int code) = 0;
};
inline Observer* observer = nullptr;
inline std::string current_cell;
inline int failures = 0;

/// Returns the printed parts, concatenated.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// Prints the heading of a notebook cell, such as "In [30]".
inline void cell(const std::string& label, const std::string& remark = "") {
  current_cell = label;
  std::cout << "\n" << label << (remark.empty() ? "" : "  ") << remark << "\n";
}

/// Prints `text` and passes x to the observer.
inline void show_as(const std::string& name, const Tensor& x, const std::string& text) {
  std::cout << text << "\n";
  if (observer) observer->shown(current_cell, name, x.detach(), text);
}
/// Prints x as PyTorch does, but without the dtype float64.
inline void show(const std::string& name, const Tensor& x) {
  show_as(name, x, text(is_floating(x.dtype()) ? to(x.detach(), autograd::float32) : x));
}
/// Prints the heading of a cell and x.
inline void show(const std::string& label, const std::string& name, const Tensor& x) {
  cell(label);
  show(name, x);
}
/// Prints only the size, such as "qkv.size(): torch.Size([1, 6, 1536])".
inline void show_size(const std::string& name, const Tensor& x) {
  show_as(name, x, text(name, ".size(): torch.Size(", x.shape(), ")"));
}
/// Prints True or False.
inline void show_truth(const std::string& name, bool truth) {
  show_as(name, autograd::full({}, truth), truth ? "True" : "False");
}

/// Prints the statement `what` and whether it holds. If it does not hold, the exit code is 1.
inline void require(const std::string& what, bool holds) {
  failures += !holds;
  std::cout << (holds ? "holds: " : "FAILED: ") << what << "\n";
}

/// Reports a mistake in the original notebook. The mistake is caught if a check passes for the
/// right code and fails for the code of the notebook. `seen` is printed as the explanation.
inline void fault(const std::string& name, bool right_passes, bool wrong_passes,
                  const std::string& seen) {
  const bool caught = right_passes && !wrong_passes;
  failures += !caught;
  std::cout << (caught ? "\nfault caught: " : "\nFAULT NOT CAUGHT: ") << name << "\n"
            << seen << "\n";
  if (!right_passes) std::cout << "(the check also fails for the right code)\n";
}

/// Returns the text of the Error that f throws, or an empty string if f throws none.
template <class F>
std::string error_text(F f) {
  try {
    f();
  } catch (const autograd::Error& e) {
    return e.what();
  }
  return {};
}

/// Runs a notebook and returns the exit code: 0, 1 if something failed, or 4 if an exception was
/// thrown, for example because a file cannot be written.
inline int run(int notebook, void (*cells)()) try {
  cells();
  const int code = failures > 0;
  return observer ? observer->finish(notebook, code) : code;
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 4;
}

/// Returns a tensor whose element i, in row-major order, is
/// ((step i + first) mod modulus - modulus / 2) * unit.
inline Tensor counted(const autograd::Shape& shape, Index step, Index first, Index modulus,
                      double unit) {
  std::vector<double> values;
  for (Index i = 0; i < shape.numel(); ++i)
    values.push_back(double((step * i + first) % modulus - modulus / 2) * unit);
  return autograd::from_data(values, shape);
}

/// Returns the factor c of weights = softmax(c * products), where both are matrices. The ratio of
/// two weights in a row is exp(c * difference of their products). The function uses two weights of
/// the last row.
inline double fitted_scale(const Tensor& weights, const Tensor& products) {
  const Index row = weights.size(0) - 1;
  return std::log(weights.at({row, 0}) / weights.at({row, 1})) /
         (products.at({row, 0}) - products.at({row, 1}));
}

}  // namespace heed::notebook
