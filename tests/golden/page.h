// What a notebook's program is written on: it prints like the notebook, keeps every number under
// its name in seeds/numbers.json, and holds each fault against the check that exposes it.
#pragma once

#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/ops/ops.h"

namespace heed::notebook {

using autograd::Tensor;

/// A `number` is "<id>:<name>" of numbers.json: "s0.in30.w:w". A text `printed` is the notebook's
/// own output: what we print must be these characters.
class Page {
 public:
  /// Heads what follows: "In [30]".
  void cell(std::string_view label);
  void say(std::string_view line);
  /// Prints x as torch does, a dtype of float64 left out.
  void tensor(const std::string& number, const Tensor& x, std::string_view printed = {});
  /// Prints the matrix x as NumPy does.
  void array(const std::string& number, const Tensor& x, std::string_view printed = {});
  /// Prints its size alone: "qkv.size(): torch.Size([1, 6, 1536])", `printed` from torch on.
  void size(const std::string& number, const Tensor& x, std::string_view printed = {});
  /// Keeps a number that the notebook does not print.
  void keep(const std::string& number, const Tensor& x);
  /// Anything else that must hold, said in words.
  void check(std::string_view what, bool holds);
  /// A fault of the notebook: its check must pass on the right code and fail on the notebook's.
  void fault(std::string_view name, bool right_passes, bool wrong_passes, std::string_view seen);

  using Shown = std::map<std::string, std::vector<std::pair<std::string, Tensor>>>;
  const Shown& shown() const { return shown_; }  ///< by id: names and tensors in order
  int checks() const { return checks_; }
  int faults() const { return faults_; }
  int failures() const { return failures_; }

 private:
  void require(const std::string& number, const std::string& got, std::string_view printed);
  Shown shown_;
  int checks_ = 0, faults_ = 0, failures_ = 0;
};

/// As NumPy prints a matrix, with up to 8 decimals: "array([[...]])", or "[[...]]" without commas.
std::string numpy_repr(const Tensor& x);
std::string numpy_str(const Tensor& x);

/// The parts, one after the other.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
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

/// The main() of a notebook: runs it, and with `--numbers FILE` then compares with every verified
/// entry that numbers.json has for it. Exit code: 0; 1 if a check, a fault or a number fails; 2
/// usage; 4 if a file cannot be read or written; 77 if all is well but there is no such file.
int run(int argc, char** argv, int seed, void (*notebook)(Page&));

struct Comparison {
  int entries = 0;                       ///< how many there were
  std::vector<std::string> differences;  ///< a line each
};
/// Compares what was shown with every verified entry of `seed` in `file`.
Comparison compare(const std::string& file, int seed, const Page::Shown& shown);

}  // namespace heed::notebook
