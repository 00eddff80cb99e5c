// Random numbers: PyTorch's CPU stream, bit for bit (its AVX2 path), written into raw memory.
// torch.manual_seed(s); torch.rand(n) and Generator(s).uniform(n values, 0, 1) give the same bits.
// Start with Generator. Dropout masks are counter-based instead: kernels/philox.h.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>

namespace heed::autograd {

/// MT19937 and PyTorch's way from its words to numbers. Fills go in the order of the span. Every
/// fill checks its arguments before the first draw, so a call that throws leaves the stream alone.
/// A copy continues the same stream on its own. Not thread-safe: one generator per thread.
///
/// uniform, randint, randperm, bernoulli and float32 normal of 16 values or more have the same bits
/// on every machine. The other normals and multinomial use libm's log, sin and cos in float64: the
/// same bits as PyTorch with glibc, within 1 ulp elsewhere.
class Generator {
 public:
  /// PyTorch's seed before anyone calls manual_seed.
  static constexpr std::uint64_t kDefaultSeed = 67280421310721;

  Generator() : Generator(kDefaultSeed) {}
  explicit Generator(std::integral auto seed) { manual_seed(seed); }

  /// Restarts the stream. As in PyTorch only the low 32 bits count, and -1 means 2^64 - 1.
  void manual_seed(std::integral auto seed) {
    engine_.seed(std::uint32_t(seed));
    cached_normal_.reset();
  }

  /// The next 32 bits of MT19937.
  std::uint32_t next_u32() { return std::uint32_t(engine_()); }
  /// The next 64 bits, e.g. a dropout key. Two words, the high one first.
  std::uint64_t next_u64();
  /// In [0, 1): a multiple of 2^-24, one word.
  float uniform_float();
  /// In [0, 1): a multiple of 2^-53, two words.
  double uniform_double();

  /// Uniform in [lo, hi); rounding may reach hi. ValueError unless lo <= hi and hi - lo is finite
  /// in the type of `out`.
  void uniform(std::span<float> out, double lo, double hi);
  void uniform(std::span<double> out, double lo, double hi);

  /// Normal (Box and Muller 1958). ValueError unless mean is finite and 0 <= std_dev < inf. Below
  /// 16 values the second number of a drawn pair waits in a cache for the next such call.
  void normal(std::span<float> out, double mean, double std_dev);
  void normal(std::span<double> out, double mean, double std_dev);

  /// Integers in [lo, hi). ValueError unless lo < hi.
  void randint(std::span<std::int64_t> out, std::int64_t lo, std::int64_t hi);

  /// A random order of 0 .. out.size() - 1. ValueError from 2^32 / 20 values on, where PyTorch
  /// changes its algorithm.
  void randperm(std::span<std::int64_t> out);

  /// 1 with probability p, else 0. ValueError unless 0 <= p <= 1.
  void bernoulli(std::span<std::uint8_t> out, double p);

  /// An index k drawn with probability p[k] / sum(p): torch.multinomial(p, 1) of one row, in the
  /// type of p. ValueError unless every p[k] is finite and >= 0 and at least one is > 0.
  std::int64_t multinomial(std::span<const float> p);
  std::int64_t multinomial(std::span<const double> p);

  /// The whole state as one line of text, about 7 kB, exact. set_state continues the same stream;
  /// ValueError, and no change, for any other text. For one standard library, like the bits of a
  /// run.
  std::string state() const;
  void set_state(const std::string& text);

 private:
  double next_normal();
  template <class T>
  T unit();
  template <class T>
  void fill_uniform(std::span<T> out, double lo, double hi);
  template <class T>
  void fill_normal(std::span<T> out, double mean, double std_dev);
  template <class T>
  std::int64_t draw_index(std::span<const T> p);

  std::mt19937 engine_;
  std::optional<double> cached_normal_;  // standard normal, shared by float and double fills
};

/// The calling thread's generator, which random functions use when they are given none. Each
/// thread starts at Generator::kDefaultSeed: seed threads apart if their numbers must differ.
Generator& default_generator();

/// Restarts the calling thread's generator.
void manual_seed(std::integral auto seed) { default_generator().manual_seed(seed); }

}  // namespace heed::autograd
