// Independent streams of random numbers from the one seed of a run.
#pragma once

#include <cstdint>

#include "autograd/tensor/random.h"

namespace heed::nn {

/// splitmix64's finalizer (Steele et al. 2014): what neighbors become has nothing in common.
inline std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// The stream of this key; torch's generator takes 32 bits of seed.
inline autograd::Generator stream_of(std::uint64_t key) {
  return autograd::Generator(mix(key) & 0xffffffffu);
}

}  // namespace heed::nn
