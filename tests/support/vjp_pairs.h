// Backward passes by hand for check_vjp: a pair of functions, its check, and x squared, right and
// wrong.
#pragma once

#include "autograd/check/check_vjp.h"
#include "tests/support/catch.h"

namespace heed::autograd::testing {

template <class T>
struct Pair {
  ForwardFunction<T> forward;
  BackwardFunction<T> backward;
};

template <class T>
CheckReport check_pair(const Pair<T>& pair, const Arrays<T>& x, const CheckOptions& options = {}) {
  CheckReport report = check_vjp(pair.forward, pair.backward, x, options);
  std::ostringstream text;
  text << report;
  UNSCOPED_INFO(text.str());
  return report;
}

inline bool says(const CheckReport& report, const std::string& words) {
  return report.message.find(words) != std::string::npos;
}

inline const Pair<double> kSquares = {[](const Arrays<double>& x) {
                                        Arrays<double> y = x;
                                        for (auto& row : y)
                                          for (double& e : row) e *= e;
                                        return y;
                                      },
                                      [](const Arrays<double>& x, const Arrays<double>& v) {
                                        Arrays<double> g = x;
                                        for (std::size_t i = 0; i < g.size(); ++i)
                                          for (std::size_t j = 0; j < g[i].size(); ++j)
                                            g[i][j] *= 2 * v[i][j];
                                        return g;
                                      }};

// kSquares with something done to its gradients.
template <class Change>
Pair<double> wrong_squares(Change change) {
  return {kSquares.forward, [change](const Arrays<double>& x, const Arrays<double>& v) {
            Arrays<double> g = kSquares.backward(x, v);
            change(g);
            return g;
          }};
}

}  // namespace heed::autograd::testing
