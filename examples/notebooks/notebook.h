// How the five programs print and test what they found, and two helpers that they share.
#pragma once

#include <cmath>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "autograd/autograd.h"

namespace heed::notebook {

using autograd::Tensor;

/// Sees everything that a program shows. There is none unless something links one in, as the tests
/// do to compare with the notebooks' own numbers.
struct Watcher {
  virtual ~Watcher() = default;
  virtual void shown(const std::string& cell, const std::string& name, const Tensor& x,
                     const std::string& text) = 0;
  /// The exit code, given what it would be without a watcher.
  virtual int finish(int notebook, int code) = 0;
};
inline Watcher* watcher = nullptr;
inline std::string current_cell;
inline int failures = 0;

/// The parts, one after the other.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// Heads what follows: "In [30]".
inline void cell(const std::string& label, const std::string& remark = "") {
  current_cell = label;
  std::cout << "\n" << label << (remark.empty() ? "" : "  ") << remark << "\n";
}

inline void show_as(const std::string& name, const Tensor& x, const std::string& text) {
  std::cout << text << "\n";
  if (watcher) watcher->shown(current_cell, name, x.detach(), text);
}
/// Prints x as torch does, a dtype of float64 left out.
inline void show(const std::string& name, const Tensor& x) {
  show_as(name, x, text(is_floating(x.dtype()) ? to(x.detach(), autograd::float32) : x));
}
/// A cell that shows one thing.
inline void show(const std::string& label, const std::string& name, const Tensor& x) {
  cell(label);
  show(name, x);
}
/// Prints its size alone: "qkv.size(): torch.Size([1, 6, 1536])".
inline void show_size(const std::string& name, const Tensor& x) {
  show_as(name, x, text(name, ".size(): torch.Size(", x.shape(), ")"));
}
/// Prints an answer to yes or no as Python does.
inline void show_truth(const std::string& name, bool truth) {
  show_as(name, autograd::full({}, truth), truth ? "True" : "False");
}

/// What must hold, in words.
inline void require(const std::string& what, bool holds) {
  failures += !holds;
  std::cout << (holds ? "holds: " : "FAILED: ") << what << "\n";
}

/// A mistake in the notebook: a check that passes on the right code and fails on the notebook's.
inline void fault(const std::string& name, bool right_passes, bool wrong_passes,
                  const std::string& seen) {
  const bool caught = right_passes && !wrong_passes;
  failures += !caught;
  std::cout << (caught ? "\nfault caught: " : "\nFAULT NOT CAUGHT: ") << name << "\n"
            << seen << "\n";
  if (!right_passes) std::cout << "(the check fails on the right code, too)\n";
}

/// What the Error that f throws says; empty if it throws none.
template <class F>
std::string refusal(F f) {
  try {
    f();
  } catch (const autograd::Error& e) {
    return e.what();
  }
  return {};
}

/// What main() returns: 0, or 1 if something failed, or 4 if a file cannot be written.
inline int run(int notebook, void (*cells)()) try {
  cells();
  const int code = failures > 0;
  return watcher ? watcher->finish(notebook, code) : code;
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 4;
}

/// Element i, in row-major order, is ((step i + first) mod modulus - modulus / 2) * unit.
inline Tensor counted(const autograd::Shape& shape, std::int64_t step, std::int64_t first,
                      std::int64_t modulus, double unit) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.numel(); ++i)
    values.push_back(double((step * i + first) % modulus - modulus / 2) * unit);
  return autograd::from_data(values, shape);
}

/// c, given the matrices softmax(c * products) and products: a ratio of two weights, of the last
/// row, is exp(c * difference).
inline double fitted_scale(const Tensor& weights, const Tensor& products) {
  const std::int64_t row = weights.size(0) - 1;
  return std::log(weights.at({row, 0}) / weights.at({row, 1})) /
         (products.at({row, 0}) - products.at({row, 1}));
}

}  // namespace heed::notebook
