// Functions that return random numbers as a std::vector. They call the functions of Generator that
// write random numbers into raw memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "autograd/base/index.h"
#include "autograd/tensor/random.h"

namespace heed::testing {

using autograd::Generator;

template <class T = float>
std::vector<T> uniform(Generator& g, std::size_t n, double lo = 0, double hi = 1) {
  std::vector<T> out(n);
  g.uniform(out, lo, hi);
  return out;
}

template <class T = float>
std::vector<T> normal(Generator& g, std::size_t n, double mean = 0, double std_dev = 1) {
  std::vector<T> out(n);
  g.normal(out, mean, std_dev);
  return out;
}

inline std::vector<Index> randint(Generator& g, std::size_t n, Index lo, Index hi) {
  std::vector<Index> out(n);
  g.randint(out, lo, hi);
  return out;
}

inline std::vector<Index> randperm(Generator& g, std::size_t n) {
  std::vector<Index> out(n);
  g.randperm(out);
  return out;
}

inline std::vector<std::uint8_t> bernoulli(Generator& g, std::size_t n, double p) {
  std::vector<std::uint8_t> out(n);
  g.bernoulli(out, p);
  return out;
}

}  // namespace heed::testing
