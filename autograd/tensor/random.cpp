// Implementation of PyTorch's CPU random numbers. To get the same bits, the order of the draws and
// the position of each fused multiply-add (fma) must be the same as in PyTorch. Each std::fma below
// exists in PyTorch's compiled AVX2 code. No other product may be fused, so the build passes
// -ffp-contract=off.
#include "autograd/tensor/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <locale>
#include <numbers>
#include <sstream>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/text.h"

namespace heed::autograd {
namespace {

constexpr std::size_t kBlock = 16;  // PyTorch pairs element j with element j + 8 of a block of 16
constexpr double kTwoPi = 2 * std::numbers::pi;

template <class T>
struct SinCos {
  T sin, cos;
};

// Computes log(x) for x in (0, 1], with the polynomial of logf in the library Cephes.
float log_unit(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  float e = float(int(bits >> 23) - 127) + 1.0f;
  float m = std::bit_cast<float>((bits & 0x807fffffu) | 0x3f000000u);  // mantissa in [0.5, 1)
  if (m < 0.707106781186547524f) {
    e = e - 1.0f;
    m = (m - 1.0f) + m;
  } else {
    m = m - 1.0f;
  }
  const float z = m * m;
  float y = 7.0376836292e-2f;
  for (const float k : {-1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
                        -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f}) {
    y = std::fma(y, m, k);
  }
  y = y * m;
  y = std::fma(y, z, e * -2.12194440e-4f);
  y = std::fma(z, -0.5f, y);
  m = m + y;
  return std::fma(e, 0.693359375f, m);
}

double log_unit(double x) { return std::log(x); }

// Computes sin(x) and cos(x) for x in [0, 2 pi), with the polynomials of sincosf in Cephes.
SinCos<float> sin_cos(float x) {
  const int j = (int(x * 1.27323954473516f) + 1) & ~1;  // number of the octant, rounded up to even
  const float y = float(j);
  x = std::fma(y, -0.78515625f, x);  // x - j pi/4, where pi/4 is the sum of three constants
  x = std::fma(y, -2.4187564849853515625e-4f, x);
  x = std::fma(y, -3.77489497744594108e-8f, x);
  const float z = x * x;
  float c = std::fma(2.443315711809948e-5f, z, -1.388731625493765e-3f);
  c = std::fma(c, z, 4.166664568298827e-2f);
  c = c * z;
  c = std::fma(c, z, -(z * 0.5f));
  c = c + 1.0f;
  float s = std::fma(-1.9515295891e-4f, z, 8.3321608736e-3f);
  s = std::fma(s, z, -1.6666654611e-1f);
  s = s * z;
  s = std::fma(s, x, x);
  if ((j & 2) != 0) std::swap(s, c);
  return {(j & 4) != 0 ? -s : s, ((j - 2) & 4) == 0 ? -c : c};
}

SinCos<double> sin_cos(double x) { return {std::sin(x), std::cos(x)}; }

// Transforms 16 uniform numbers into 16 normal numbers, in place.
template <class T>
void normal_block(T* d, T mean, T std_dev) {
  for (std::size_t j = 0; j < kBlock / 2; ++j) {
    const T u1 = T(1) - d[j];  // in (0, 1], so that the log is finite
    const T u2 = d[j + kBlock / 2];
    const T radius = std::sqrt(T(-2) * log_unit(u1));
    const SinCos<T> angle = sin_cos(T(kTwoPi) * u2);
    d[j] = std::fma(radius * angle.cos, std_dev, mean);
    d[j + kBlock / 2] = std::fma(radius * angle.sin, std_dev, mean);
  }
}

// Parses all of `token` as a number. Returns nullopt if it is not a number or if it is above
// `limit`.
std::optional<std::uint64_t> parse(const std::string& token, int base, std::uint64_t limit) {
  const auto value = parse_number<std::uint64_t>(token, base);
  return value && *value <= limit ? value : std::nullopt;
}

}  // namespace

std::uint64_t Generator::next_u64() {
  const std::uint64_t high = next_u32();
  const std::uint64_t low = next_u32();
  return (high << 32) | low;
}

float Generator::uniform_float() { return float(next_u32() & 0xffffffu) * 0x1p-24f; }

double Generator::uniform_double() {
  return double(next_u64() & ((std::uint64_t{1} << 53) - 1)) * 0x1p-53;
}

template <class T>
T Generator::unit() {
  if constexpr (std::is_same_v<T, float>) {
    return uniform_float();
  } else {
    return uniform_double();
  }
}

template <class T>
void Generator::fill_uniform(std::span<T> out, double lo, double hi) {
  constexpr double kMax = std::numeric_limits<T>::max();
  check<ValueError>(lo <= hi && lo >= -kMax && hi <= kMax && hi - lo <= kMax, "uniform",
                    "needs lo <= hi, and lo, hi and hi - lo finite in the dtype, got lo = ", lo,
                    ", hi = ", hi);
  const T low = T(lo);
  const T range = T(hi) - low;
  for (T& value : out) value = std::fma(unit<T>(), range, low);
}

void Generator::uniform(std::span<float> out, double lo, double hi) { fill_uniform(out, lo, hi); }
void Generator::uniform(std::span<double> out, double lo, double hi) { fill_uniform(out, lo, hi); }

double Generator::next_normal() {
  if (cached_normal_) return *std::exchange(cached_normal_, std::nullopt);
  // Here u1 determines the angle, but in normal_block() u1 determines the radius. PyTorch has the
  // same difference.
  const double u1 = uniform_double();
  const double u2 = uniform_double();
  const double radius = std::sqrt(-2.0 * std::log(1.0 - u2));
  const double angle = kTwoPi * u1;
  cached_normal_ = radius * std::sin(angle);
  return radius * std::cos(angle);
}

template <class T>
void Generator::fill_normal(std::span<T> out, double mean, double std_dev) {
  constexpr double kMax = std::numeric_limits<T>::max();
  check<ValueError>(std::abs(mean) <= kMax && std_dev >= 0 && std_dev <= kMax, "normal",
                    "needs std >= 0, and mean and std finite in the dtype, got mean = ", mean,
                    ", std = ", std_dev);
  const std::size_t n = out.size();
  if (n < kBlock) {
    for (T& value : out) value = T(std::fma(next_normal(), std_dev, mean));
    return;
  }
  const auto transform = [&](std::size_t first) { normal_block(&out[first], T(mean), T(std_dev)); };
  for (T& value : out) value = unit<T>();
  for (std::size_t first = 0; first + kBlock <= n; first += kBlock) transform(first);
  // If n is not a multiple of 16, PyTorch draws the last 16 elements again, including those that
  // the loop above has computed.
  if (n % kBlock != 0) {
    for (T& value : out.last(kBlock)) value = unit<T>();
    transform(n - kBlock);
  }
}

void Generator::normal(std::span<float> out, double mean, double std_dev) {
  fill_normal(out, mean, std_dev);
}
void Generator::normal(std::span<double> out, double mean, double std_dev) {
  fill_normal(out, mean, std_dev);
}

void Generator::randint(std::span<std::int64_t> out, std::int64_t lo, std::int64_t hi) {
  check<ValueError>(lo < hi, "randint", "needs lo < hi, got lo = ", lo, ", hi = ", hi);
  const std::uint64_t low = std::uint64_t(lo);  // unsigned, because hi - lo may overflow int64
  const std::uint64_t range = std::uint64_t(hi) - low;
  const bool one_word = range < (std::uint64_t{1} << 32);
  for (std::int64_t& value : out) {
    const std::uint64_t word = one_word ? next_u32() : next_u64();
    value = std::int64_t(word % range + low);
  }
}

void Generator::randperm(std::span<std::int64_t> out) {
  const std::size_t n = out.size();
  constexpr std::size_t kLimit = std::numeric_limits<std::uint32_t>::max() / 20;
  check<ValueError>(n < kLimit, "randperm", "needs n < ", kLimit, ", got n = ", n);
  for (std::size_t i = 0; i < n; ++i) out[i] = std::int64_t(i);
  for (std::size_t i = 0; i + 1 < n; ++i) std::swap(out[i], out[i + next_u32() % (n - i)]);
}

void Generator::bernoulli(std::span<std::uint8_t> out, double p) {
  check<ValueError>(p >= 0 && p <= 1, "bernoulli", "needs 0 <= p <= 1, got p = ", p);
  for (std::uint8_t& value : out) value = uniform_double() < p ? 1 : 0;
}

template <class T>
std::int64_t Generator::draw_index(std::span<const T> p) {
  for (std::size_t k = 0; k < p.size(); ++k) {
    check<ValueError>(p[k] >= 0 && p[k] <= std::numeric_limits<T>::max(), "multinomial",
                      "needs finite p >= 0, got p[", k, "] = ", p[k]);
  }
  check<ValueError>(std::any_of(p.begin(), p.end(), [](T value) { return value > 0; }),
                    "multinomial", "needs at least one p > 0, got ", p.size(), " values, none > 0");
  // If all q[k] are drawn independently from the distribution Exp(1), then the largest of all
  // quotients p[k] / q[k] is at index k with probability p[k] / sum(p).
  //
  // The largest p is scaled to [1, 2), so that no quotient overflows. Scaling by a power of two
  // does not change the order of the quotients.
  const int exponent = std::ilogb(*std::max_element(p.begin(), p.end()));
  std::size_t best = p.size();
  T best_score = 0;
  for (std::size_t k = 0; k < p.size(); ++k) {
    const T q = T(-std::log(1.0 - uniform_double()));
    const T score = std::ldexp(p[k], -exponent) / q;
    if (p[k] > 0 && (best == p.size() || score > best_score)) {
      best = k;
      best_score = score;
    }
  }
  return std::int64_t(best);
}

std::int64_t Generator::multinomial(std::span<const float> p) { return draw_index(p); }
std::int64_t Generator::multinomial(std::span<const double> p) { return draw_index(p); }

std::string Generator::state() const {
  TextStream text;
  text << "mt19937 " << engine_ << " normal ";
  if (cached_normal_) {
    text << std::hex << std::bit_cast<std::uint64_t>(*cached_normal_);
  } else {
    text << "none";
  }
  return text.str();
}

void Generator::set_state(const std::string& text) {
  const std::vector<std::string> tokens = heed::split(text, ' ');
  const std::size_t n = tokens.size();
  bool ok = n == heed::split(Generator().state(), ' ').size() && tokens[0] == "mt19937" &&
            tokens[n - 2] == "normal";
  // operator>> of std::mt19937 accepts any number, even a position outside its table. The numbers
  // are therefore checked here: first the words of the table, and then the position in the table,
  // which libstdc++ writes last.
  constexpr std::size_t kWords = std::mt19937::state_size;
  std::string words;
  for (std::size_t i = 1; ok && i + 2 < n; ++i) {
    ok = parse(tokens[i], 10, i <= kWords ? std::mt19937::max() : kWords).has_value();
    words += tokens[i] + ' ';
  }
  std::optional<double> cached;
  if (ok && tokens[n - 1] != "none") {
    const auto bits = parse(tokens[n - 1], 16, std::numeric_limits<std::uint64_t>::max());
    if (bits) cached = std::bit_cast<double>(*bits);
    ok = cached && std::isfinite(*cached);
  }
  check<ValueError>(ok, "Generator::set_state", "needs the text of Generator::state() (mt19937, ",
                    kWords, " words, ...), got ", text.size(), " characters: \"",
                    text.substr(0, 32), "\"");
  std::istringstream in(words);
  in.imbue(std::locale::classic());
  in >> engine_;
  cached_normal_ = cached;
}

Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

}  // namespace heed::autograd
