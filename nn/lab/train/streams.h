// Independent streams of random numbers, derived from the seed of a run.
#pragma once

#include <cstdint>

#include "autograd/tensor/random.h"
#include "nn/lab/names.h"

namespace heed::lab {

/// Returns a hash of z. Consecutive inputs give unrelated outputs (splitmix64, Steele et al. 2014).
inline std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// Returns the random stream that belongs to `key`. Only 32 bits of the hash are used, because
/// PyTorch's CPU generator uses only 32 bits of its seed.
inline autograd::Generator stream_of(std::uint64_t key) {
  return autograd::Generator(mix(key) & 0xffffffffu);
}

}  // namespace heed::lab
