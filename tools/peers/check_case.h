// Applies heed's check_vjp to a case of gradchecker_cases.h.
#pragma once

#include "autograd/check/check_vjp.h"
#include "tools/peers/gradchecker_cases.h"

namespace heed::peers {

template <class T, class U>
std::vector<std::vector<T>> converted(const std::vector<std::vector<U>>& arrays) {
  std::vector<std::vector<T>> out;
  for (const auto& array : arrays) out.emplace_back(array.begin(), array.end());
  return out;
}

/// Checks the case in double precision, or in float if `c.single` is true.
inline autograd::CheckReport check_case(const GradientCase& c,
                                        const autograd::CheckOptions& options = {}) {
  if (!c.single) return autograd::check_vjp(c.forward, c.backward, c.x, options);
  using A = autograd::Arrays<float>;
  return autograd::check_vjp<float>(
      [&](const A& x) { return converted<float>(c.forward(converted<double>(x))); },
      [&](const A& x, const A& v) {
        return converted<float>(c.backward(converted<double>(x), converted<double>(v)));
      },
      converted<float>(c.x), options);
}

}  // namespace heed::peers
