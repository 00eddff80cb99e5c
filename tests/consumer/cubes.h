// A function of a user on plain arrays, with a correct and a wrong backward function.
#pragma once

#include <cstddef>
#include <vector>

using Vectors = std::vector<std::vector<double>>;

inline const Vectors kPoint = {{0.5, -1.5, 2}};

inline Vectors cubes(const Vectors& x) {
  Vectors y = x;
  for (double& e : y[0]) e = e * e * e;
  return y;
}
inline Vectors cubes_backward(const Vectors& x, const Vectors& cotangents) {
  Vectors g = cotangents;
  for (std::size_t j = 0; j < g[0].size(); ++j) g[0][j] *= 3 * x[0][j] * x[0][j];
  return g;
}
inline Vectors wrong_backward(const Vectors& x, const Vectors& cotangents) {
  Vectors g = cubes_backward(x, cotangents);
  g[0][1] = -g[0][1];
  return g;
}
