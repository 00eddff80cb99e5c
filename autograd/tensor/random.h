// Random numbers that equal PyTorch's on the CPU bit for bit. The class Generator writes them into
// arrays. For example, `torch.manual_seed(s); torch.rand(n)` and `Generator(s).uniform(out, 0, 1)`,
// where `out` has n floats, produce the same bits. The reference is PyTorch's AVX2 code path.
//
// Dropout masks do not use this stream: see kernels/reference/philox.h.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>

namespace heed::autograd {

/// Random number generator: MT19937 (Matsumoto and Nishimura 1998), with PyTorch's conversions of
/// its 32-bit words to numbers.
///
/// The functions with a parameter `out` fill it from the front. They check their arguments before
/// they draw, so a call that throws does not advance the stream. A copy of a generator continues
/// the same stream independently. A generator is not thread-safe; use one per thread.
///
/// The following have the same bits on every machine: uniform, randint, randperm, bernoulli, and
/// float32 normal with 16 values or more. All other normal numbers, and multinomial, use the log,
/// sin and cos of the C library in float64. With glibc they equal PyTorch's numbers bit for bit;
/// with other libraries they may differ by 1 ulp.
class Generator {
 public:
  /// The seed that PyTorch uses if manual_seed is not called.
  static constexpr std::uint64_t kDefaultSeed = 67280421310721;

  ///@{
  /// Creates a generator and seeds it as manual_seed() does.
  Generator() : Generator(kDefaultSeed) {}
  explicit Generator(std::integral auto seed) { manual_seed(seed); }
  ///@}

  /// Restarts the stream from a seed. As in PyTorch, only the low 32 bits of the seed have an
  /// effect, and -1 means 2^64 - 1.
  void manual_seed(std::integral auto seed) {
    engine_.seed(std::uint32_t(seed));
    cached_normal_.reset();
  }

  /// Returns the next 32-bit word of MT19937.
  std::uint32_t next_u32() { return std::uint32_t(engine_()); }
  /// Returns the next 64 bits, for example as a dropout key. Uses two words: the first word is the
  /// high half, and the second word is the low half.
  std::uint64_t next_u64();
  /// Returns a uniform number in [0, 1), a multiple of 2^-24. Uses one word.
  float uniform_float();
  /// Returns a uniform number in [0, 1), a multiple of 2^-53. Uses two words.
  double uniform_double();

  ///@{
  /// Fills `out` with uniform numbers in [lo, hi). Because of rounding, a number may equal hi.
  /// Throws ValueError unless lo <= hi and both bounds and hi - lo are finite in the element type.
  void uniform(std::span<float> out, double lo, double hi);
  void uniform(std::span<double> out, double lo, double hi);
  ///@}

  ///@{
  /// Fills `out` with normal numbers (Box and Muller 1958). The algorithm makes pairs of numbers.
  /// If `out` has fewer than 16 values, the unused second number of the last pair is kept for the
  /// next call with fewer than 16 values. Throws ValueError unless mean and std_dev are finite in
  /// the element type and std_dev >= 0.
  void normal(std::span<float> out, double mean, double std_dev);
  void normal(std::span<double> out, double mean, double std_dev);
  ///@}

  /// Fills `out` with uniform integers in [lo, hi). Throws ValueError unless lo < hi.
  void randint(std::span<std::int64_t> out, std::int64_t lo, std::int64_t hi);

  /// Fills `out` with a random permutation of 0, ..., out.size() - 1. Throws ValueError for
  /// (2^32 - 1) / 20 values or more, because PyTorch uses another algorithm for such sizes.
  void randperm(std::span<std::int64_t> out);

  /// Fills `out` with 1 with probability p, and with 0 otherwise. Throws ValueError unless
  /// 0 <= p <= 1.
  void bernoulli(std::span<std::uint8_t> out, double p);

  ///@{
  /// Returns an index k with probability p[k] / sum(p), as torch.multinomial(p, 1) does for one
  /// row. The computation uses the element type of p. Throws ValueError unless all p[k] are finite
  /// and not negative, and at least one is positive.
  std::int64_t multinomial(std::span<const float> p);
  std::int64_t multinomial(std::span<const double> p);
  ///@}

  /// Returns the exact state as one line of text of about 7 kB. The format depends on the C++
  /// standard library.
  std::string state() const;
  /// Restores a state that state() returned, so that the same stream continues. Throws ValueError
  /// for any other text; the generator then keeps its state.
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
  std::optional<double> cached_normal_;  // standard normal number for the next fill
};

/// Returns the generator of the calling thread, which random functions use by default. Each thread
/// starts with Generator::kDefaultSeed, so all threads draw the same numbers unless they are seeded
/// differently.
Generator& default_generator();

/// Restarts the generator of the calling thread from a seed.
void manual_seed(std::integral auto seed) { default_generator().manual_seed(seed); }

}  // namespace heed::autograd
