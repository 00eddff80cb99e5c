// Tests of Generator: state, errors, ranges and distributions. The comparison with PyTorch's
// numbers is in torch_random_test.cpp.
#include <thread>

#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/draws.h"

namespace {

using heed::autograd::default_generator;
using heed::autograd::manual_seed;
using heed::autograd::ValueError;
using namespace heed::testing;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kQuietNaN = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("the words are those of MT19937, and only the low 32 bits of a seed matter") {
  Generator g(123);
  std::vector<std::uint32_t> words(1000);
  for (std::uint32_t& word : words) word = g.next_u32();
  CHECK(std::vector<std::uint32_t>(words.begin(), words.begin() + 5) ==
        std::vector<std::uint32_t>{2991312382, 3062119789, 1228959102, 1840268610, 974319580});
  CHECK(words[623] == 1058258670);
  CHECK(words[624] == 1280954235);
  CHECK(words[999] == 2423849465);
  CHECK(Generator(0).next_u64() == (std::uint64_t{2357136044} << 32 | 2546248239));
  CHECK(Generator((std::int64_t{1} << 32) - 2).next_u64() ==
        Generator(std::uint64_t{0} - 2).next_u64());
  CHECK(Generator(-1).next_u64() == Generator(0xffffffffu).next_u64());
  CHECK(Generator().next_u64() == Generator(67280421310721).next_u64());
}

TEST_CASE("a fill of fewer than 16 normals caches one; only manual_seed discards it") {
  Generator g(3), reference(3);
  const std::vector<double> four = normal<double>(reference, 4);
  CHECK(normal<double>(g, 1)[0] == four[0]);
  CHECK(normal(g, 1)[0] == float(four[1]));

  Generator other(3);
  normal<double>(other, 1);
  normal(other, 16);
  uniform(other, 1);
  randperm(other, 4);
  CHECK(normal<double>(other, 1, 2.0, 3.0)[0] == std::fma(four[1], 3.0, 2.0));

  normal<double>(g, 1);
  g.manual_seed(3);
  CHECK(normal<double>(g, 4) == four);
}

TEST_CASE("a restored state continues the same stream, also within a block or with a cache") {
  for (const int words : {0, 1, 623, 624, 700}) {
    for (const std::size_t normals : {0u, 3u}) {
      Generator g(99);
      for (int i = 0; i < words; ++i) g.next_u32();
      normal(g, normals);
      const std::string state = g.state();
      Generator restored;
      restored.set_state(state);
      CHECK(restored.state() == state);
      for (int round = 0; round < 3; ++round) {
        CHECK(normal<double>(restored, 5) == normal<double>(g, 5));
        CHECK(uniform(restored, 500) == uniform(g, 500));
      }
      CHECK(restored.state() == g.state());
    }
  }
}

TEST_CASE("set_state rejects any other text and changes nothing") {
  Generator g(1);
  normal(g, 1);
  const std::string good = g.state();
  const auto replaced = [&](std::size_t from, std::size_t n, const std::string& by) {
    return std::string(good).replace(from, n, by);
  };
  const std::size_t first_end = good.find(' ', 8);          // the space after the first word
  const std::size_t cache = good.rfind(' ') + 1;            // start of the cached normal
  const std::size_t position_end = good.rfind(" normal ");  // end of the engine's last number
  const std::size_t position = good.rfind(' ', position_end - 1) + 1;
  const std::vector<std::string> texts = {
      "",
      "none",
      good + " 1",
      good.substr(0, cache),
      replaced(0, 7, "mt19938"),
      replaced(8, first_end - 8, "4294967296"),
      replaced(8, first_end - 8, "-1"),
      replaced(8, first_end - 8, "12x"),
      replaced(8, first_end - 8, "99999999999999999999999"),
      replaced(position, position_end - position, "4294967296"),
      replaced(cache, 1, "z"),
      replaced(cache, std::string::npos, "7ff8000000000000")};  // the bits of a NaN
  for (const std::string& bad : texts) {
    CAPTURE(bad);
    CHECK_THROWS_AS(g.set_state(bad), ValueError);
    CHECK(g.state() == good);
  }
  CHECK_THROWS_WITH(g.set_state("seed 7"),
                    "Generator::set_state: needs the text of Generator::state() (mt19937, "
                    "624 words, ...), got 6 characters: \"seed 7\"");
#ifdef __GLIBCXX__  // libstdc++ writes the position in the table of words last
  CHECK_THROWS_AS(g.set_state(replaced(position, position_end - position, "625")), ValueError);
#endif
}

TEST_CASE("invalid arguments throw before anything is drawn or written") {
  Generator g(1);
  const std::string before = g.state();
  std::vector<float> f(3, 7.0f);
  std::vector<double> d(3, 7.0);
  std::vector<std::int64_t> n(3, 7);
  std::vector<std::uint8_t> b(3, 7);
  CHECK_THROWS_WITH(
      g.uniform(f, 1.0, 0.5),
      "uniform: needs lo <= hi, and lo, hi and hi - lo finite in the dtype, got lo = 1, hi = 0.5");
  CHECK_THROWS_AS(g.uniform(f, kQuietNaN, 1.0), ValueError);
  CHECK_THROWS_AS(g.uniform(f, 0.0, kQuietNaN), ValueError);
  CHECK_THROWS_AS(g.uniform(f, 0.0, 1e39), ValueError);
  CHECK_THROWS_AS(g.uniform(d, 0.0, kInf), ValueError);
  CHECK_THROWS_AS(g.uniform(d, -1e308, 1e308), ValueError);
  CHECK_THROWS_WITH(
      g.normal(d, 0.0, -1.0),
      "normal: needs std >= 0, and mean and std finite in the dtype, got mean = 0, std = -1");
  CHECK_THROWS_AS(g.normal(f, 0.0, kQuietNaN), ValueError);
  CHECK_THROWS_AS(g.normal(f, kInf, 1.0), ValueError);
  CHECK_THROWS_AS(g.normal(f, 0.0, 1e39), ValueError);
  CHECK_THROWS_WITH(g.randint(n, 4, 4), "randint: needs lo < hi, got lo = 4, hi = 4");
  CHECK_THROWS_AS(g.randint({}, 5, 4), ValueError);
  CHECK_THROWS_WITH(g.bernoulli(b, 1.5), "bernoulli: needs 0 <= p <= 1, got p = 1.5");
  CHECK_THROWS_AS(g.bernoulli(b, -0.1), ValueError);
  CHECK_THROWS_AS(g.bernoulli(b, kQuietNaN), ValueError);
  CHECK_THROWS_WITH(g.multinomial(std::vector<double>{0.5, -0.25}),
                    "multinomial: needs finite p >= 0, got p[1] = -0.25");
  CHECK_THROWS_AS(g.multinomial(std::vector<double>{0.5, kQuietNaN}), ValueError);
  CHECK_THROWS_AS(g.multinomial(std::vector<double>{kInf}), ValueError);
  CHECK_THROWS_WITH(g.multinomial(std::vector<float>{0.0f, 0.0f}),
                    "multinomial: needs at least one p > 0, got 2 values, none > 0");
  CHECK_THROWS_AS(g.multinomial(std::vector<float>{}), ValueError);
  CHECK(g.state() == before);
  CHECK(f == std::vector<float>(3, 7.0f));
  CHECK(d == std::vector<double>(3, 7.0));
  CHECK(n == std::vector<std::int64_t>(3, 7));
  CHECK(b == std::vector<std::uint8_t>(3, 7));
}

TEST_CASE("fills of size 0 draw nothing, and degenerate ranges are exact") {
  Generator g(1);
  const std::string before = g.state();
  uniform(g, 0);
  normal(g, 0);
  randint(g, 0, 0, 1);
  randperm(g, 0);
  randperm(g, 1);
  bernoulli(g, 0, 0.5);
  CHECK(g.state() == before);
  CHECK(uniform(g, 3, 2.5, 2.5) == std::vector<float>(3, 2.5f));
  CHECK(normal(g, 3, 2.5, 0.0) == std::vector<float>(3, 2.5f));
  CHECK(normal(g, 20, 2.5, 0.0) == std::vector<float>(20, 2.5f));
  CHECK(randint(g, 3, -4, -3) == std::vector<std::int64_t>(3, -4));
  CHECK(bernoulli(g, 50, 0.0) == std::vector<std::uint8_t>(50, 0));
  CHECK(bernoulli(g, 50, 1.0) == std::vector<std::uint8_t>(50, 1));
}

TEST_CASE("randint covers the whole of int64 and both widths of its range") {
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  Generator g(4), reference(4);
  for (const std::int64_t value : randint(g, 100, kMin, kMax)) {
    const std::uint64_t range = ~std::uint64_t{0};
    CHECK(value == std::int64_t(reference.next_u64() % range + (std::uint64_t{1} << 63)));
  }
  const std::int64_t one_word = (std::int64_t{1} << 32) - 1, two_words = std::int64_t{1} << 32;
  CHECK(randint(g, 1, 0, one_word)[0] == reference.next_u32() % one_word);
  CHECK(randint(g, 1, 0, two_words)[0] ==
        std::int64_t(reference.next_u64() % (std::uint64_t{1} << 32)));
}

TEST_CASE(
    "multinomial is right for the largest and smallest weights, and scaling changes no draw") {
  const auto check = [](auto largest) {
    using T = decltype(largest);
    for (const T p : {largest, T(1), std::numeric_limits<T>::denorm_min()}) {
      Generator g(1), same(1);
      int first = 0;
      const int n = 4000;
      for (int i = 0; i < n; ++i) {
        const std::int64_t k = g.multinomial(std::vector<T>{p, 0, p, 0, p});
        first += k == 0;
        CHECK(same.multinomial(std::vector<T>{T(0.5), 0, T(0.5), 0, T(0.5)}) == k);
      }
      CHECK(std::abs(first - n / 3.0) <= 5 * std::sqrt(n * 2 / 9.0));
    }
  };
  check(std::numeric_limits<float>::max()), check(std::numeric_limits<double>::max());
}

TEST_CASE("each thread has its own default generator") {
  manual_seed(5);
  const float first = default_generator().uniform_float();
  float in_thread = 0;
  std::string fresh_state;
  std::thread([&] {
    fresh_state = default_generator().state();
    manual_seed(5);
    in_thread = default_generator().uniform_float();
  }).join();
  CHECK(fresh_state == Generator().state());
  Generator reference(5);
  CHECK(first == reference.uniform_float());
  CHECK(in_thread == first);
  CHECK(default_generator().uniform_float() == reference.uniform_float());
}

}  // namespace
