// Softmax as a function of a user on plain arrays, with a correct and a wrong backward function.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

using Vectors = std::vector<std::vector<double>>;

inline const Vectors kPoint = {{0.5, -1.2, 0.3}};

inline Vectors softmax(const Vectors& x) {
  Vectors y = x;
  double sum = 0;
  for (double& e : y[0]) sum += e = std::exp(e);
  for (double& e : y[0]) e /= sum;
  return y;
}
// Without the dot product: as if each element of y depended on one element of x alone.
inline Vectors wrong_backward(const Vectors& x, const Vectors& cotangents) {
  Vectors g = softmax(x);
  for (std::size_t j = 0; j < g[0].size(); ++j) g[0][j] *= cotangents[0][j];
  return g;
}
inline Vectors softmax_backward(const Vectors& x, const Vectors& cotangents) {
  Vectors g = wrong_backward(x, cotangents);
  const Vectors y = softmax(x);
  double dot = 0;
  for (const double e : g[0]) dot += e;
  for (std::size_t j = 0; j < g[0].size(); ++j) g[0][j] -= y[0][j] * dot;
  return g;
}
