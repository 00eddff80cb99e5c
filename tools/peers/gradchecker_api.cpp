// C functions through which gradcheckers.py uses the cases. If `list` is 0, the cases are
// gradient_cases(); if it is 1, they are resolution_cases(). All arrays of a case are concatenated
// in one buffer.
#include <algorithm>
#include <sstream>

#include "tools/peers/gradchecker_cases.h"

namespace {

using heed::peers::GradientCase;
using heed::peers::Vectors;

const std::vector<GradientCase>& cases_of(int list) {
  return list == 0 ? heed::peers::gradient_cases() : heed::peers::resolution_cases();
}
const GradientCase& case_of(int list, int i) { return cases_of(list).at(std::size_t(i)); }

Vectors unpack(const Vectors& like, const double* values) {
  Vectors out = like;
  for (auto& array : out)
    for (double& e : array) e = *values++;
  return out;
}
void pack(const Vectors& arrays, double* values) {
  for (const auto& array : arrays) values = std::copy(array.begin(), array.end(), values);
}

}  // namespace

extern "C" {

int peer_case_count(int list) { return int(cases_of(list).size()); }

// Returns "op|what|wrong|single|transposed|size of the output|size of each input" for one case.
const char* peer_case_text(int list, int i) {
  static std::string text;
  const GradientCase& c = case_of(list, i);
  std::ostringstream out;
  out << c.op << '|' << c.what << '|' << c.wrong << '|' << c.single << '|' << c.transposed << '|'
      << c.forward(c.x)[0].size();
  for (const auto& array : c.x) out << '|' << array.size();
  text = out.str();
  return text.c_str();
}

void peer_case_x(int list, int i, double* x) { pack(case_of(list, i).x, x); }

void peer_case_forward(int list, int i, const double* x, double* y) {
  const GradientCase& c = case_of(list, i);
  pack(c.forward(unpack(c.x, x)), y);
}

void peer_case_backward(int list, int i, const double* x, const double* cotangent, double* g) {
  const GradientCase& c = case_of(list, i);
  const Vectors at = unpack(c.x, x);
  pack(c.backward(at, unpack(c.forward(at), cotangent)), g);
}
}
