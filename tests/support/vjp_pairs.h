// Forward and backward functions for tests of check_vjp. The forward function squares each element,
// and the backward functions are correct or wrong.
#pragma once

#include "autograd/check/check_vjp.h"
#include "tests/support/catch.h"

namespace heed::autograd::testing {

/// A forward function and its backward function.
template <class T>
struct Pair {
  ForwardFunction<T> forward;
  BackwardFunction<T> backward;
};

/// Runs check_vjp and returns its report. If the next assertion fails, Catch2 prints the report.
template <class T>
CheckReport check_pair(const Pair<T>& pair, const Arrays<T>& x, const CheckOptions& options = {}) {
  CheckReport report = check_vjp(pair.forward, pair.backward, x, options);
  std::ostringstream text;
  text << report;
  UNSCOPED_INFO(text.str());
  return report;
}

inline bool message_contains(const CheckReport& report, const std::string& words) {
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

/// Returns kSquares with a backward function whose gradients are modified by `change`.
template <class Change>
Pair<double> wrong_squares(Change change) {
  return {kSquares.forward, [change](const Arrays<double>& x, const Arrays<double>& v) {
            Arrays<double> g = kSquares.backward(x, v);
            change(g);
            return g;
          }};
}

}  // namespace heed::autograd::testing
