// The generator against PyTorch: the vectors of seeds/torch_rng.md, drawn as PyTorch's layers draw
// them, every value by checksum.
#include <bit>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "autograd/tensor/random.h"
#include "tests/support/catch.h"
#include "tests/support/draws.h"

namespace {

using namespace heed::testing;

// nn.Linear(in, out).weight: kaiming_uniform_ with a = sqrt(5).
std::vector<float> linear_weight(Generator& g, std::size_t in, std::size_t out) {
  const double a = std::sqrt(5.0);
  const double gain = std::sqrt(2.0 / (1.0 + a * a));
  const double bound = std::sqrt(3.0) * (gain / std::sqrt(double(in)));
  return uniform(g, in * out, -bound, bound);
}

std::vector<float> linear_bias(Generator& g, std::size_t in, std::size_t out) {
  const double bound = 1.0 / std::sqrt(double(in));
  return uniform(g, out, -bound, bound);
}

// nn.MultiheadAttention(embed, heads).in_proj_weight: xavier_uniform_ of [3 embed, embed].
std::vector<float> in_proj_weight(Generator& g, std::size_t embed) {
  const double bound = std::sqrt(3.0) * std::sqrt(2.0 / double(3 * embed + embed));
  return uniform(g, 3 * embed * embed, -bound, bound);
}

// F.dropout(torch.ones(n), p)
std::vector<float> dropout_of_ones(Generator& g, std::size_t n, double p) {
  const float scale = 1.0f / float(1.0 - p);
  std::vector<float> out;
  for (const uint8_t keep : bernoulli(g, n, 1.0 - p)) out.push_back(keep != 0 ? scale : 0.0f);
  return out;
}

using Values = std::variant<std::vector<float>, std::vector<double>, std::vector<int64_t>>;

// The outputs of every test vector by its id, drawn as PyTorch draws them. Braced lists evaluate
// left to right, so each list is the order of the calls.
std::map<std::string, std::vector<Values>> draw_all() {
  using V = std::vector<Values>;
  std::map<std::string, V> drawn;
  Generator g;
  g.manual_seed(123);
  drawn["rand_seed2_U"] = V{uniform(g, 256), uniform(g, 256), uniform(g, 256)};
  g.manual_seed(123);
  drawn["embedding_seed2"] = V{normal(g, 160)};
  g.manual_seed(42);
  drawn["randn_tail"] = V{normal(g, 1000), uniform(g, 2)};
  g.manual_seed(0);
  drawn["randn_small_cache"] = V{normal(g, 5), uniform(g, 2), normal(g, 3)};
  g.manual_seed(1);
  drawn["linear"] = V{linear_weight(g, 7, 5), linear_bias(g, 7, 5)};
  g.manual_seed(3);
  drawn["linear_big"] = V{linear_weight(g, 16, 64), linear_bias(g, 16, 64)};
  g.manual_seed(7);
  drawn["randperm"] = V{randperm(g, 10), randperm(g, 1000)};
  g.manual_seed(3);
  drawn["randint"] = V{randint(g, 12, 0, 11), randint(g, 4, -5, int64_t{1} << 40)};
  g.manual_seed(5);
  drawn["dropout"] = V{dropout_of_ones(g, 40, 0.1), uniform(g, 1)};
  g.manual_seed(9);
  V mha{linear_weight(g, 8, 8)};
  linear_bias(g, 8, 8);  // out_proj's, drawn and then set to 0
  mha.emplace_back(in_proj_weight(g, 8));
  mha.emplace_back(uniform(g, 1));
  drawn["mha_init"] = mha;
  g.manual_seed(11);
  drawn["float64"] = V{uniform<double>(g, 3), normal<double>(g, 17)};
  g.manual_seed(-1);
  drawn["negative_seed"] = V{uniform(g, 3)};
  g.manual_seed(2024);
  drawn["normal_mean_std"] = V{normal(g, 100, 0.1, 0.02)};
  g.manual_seed(5);
  const std::vector<float> p = {0.1f, 0.2f, 0.3f, 0.4f};
  std::vector<int64_t> index(20);
  for (int64_t& i : index) i = g.multinomial(p);
  drawn["multinomial"] = V{index};
  return drawn;
}

// IEEE patterns for floats, two's complement for integers.
std::vector<uint64_t> bits_of(const Values& values) {
  std::vector<uint64_t> bits;
  std::visit(
      [&]<class T>(const std::vector<T>& list) {
        for (const T value : list) {
          if constexpr (std::is_same_v<T, float>) {
            bits.push_back(std::bit_cast<uint32_t>(value));
          } else {
            bits.push_back(std::bit_cast<uint64_t>(value));
          }
        }
      },
      values);
  return bits;
}

uint64_t checksum(const Values& values) {
  uint64_t sum = 0;
  uint64_t weight = 1;
  for (const uint64_t bits : bits_of(values)) {
    sum += bits * weight;
    weight += 2;
  }
  return sum;
}

// values[from ...] == expected, decimals of as many digits as the type needs.
void check_slice(const Values& values, std::size_t from, const std::vector<double>& expected) {
  std::visit(
      [&]<class T>(const std::vector<T>& list) {
        REQUIRE(list.size() >= from + expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) {
          CHECK(list[from + i] == T(expected[i]));
        }
      },
      values);
}

// One row of torch_rng.md, section 6.
struct Expected {
  std::string id;
  std::size_t output;
  std::vector<double> first;
  uint64_t cks;
};

TEST_CASE("random numbers are PyTorch's, bit for bit") {
  const std::vector<Expected> table = {
      {"rand_seed2_U",
       0,
       {0.296111941, 0.516562283, 0.251670718, 0.68855679, 0.0739724636, 0.866521955},
       68999021950985},
      {"rand_seed2_U", 1, {0.583983898, 0.122708023, 0.958733201, 0.991386592}, 68945188674897},
      {"rand_seed2_U", 2, {0.592093468, 0.00556051731, 0.557721794, 0.334950328}, 68932345541994},
      {"embedding_seed2",
       0,
       {0.337370187, -0.177777216, -0.303527594, -0.588011861, 0.348605186, 0.660340965},
       60576082320752},
      {"randn_tail", 0, {1.92691529, 1.48728406, 0.900717199, -2.10552096}, 2153672849849075},
      {"randn_tail", 1, {0.148778021, 0.65959847}, 4220709786},
      {"randn_small_cache",
       0,
       {1.54099607, -0.293428898, -2.17878938, 0.568431258, -1.08452237},
       63101020764},
      {"randn_small_cache", 1, {0.0223257542, 0.168858945}, 4148011156},
      {"randn_small_cache", 2, {-1.39859545, -0.783064127, 1.06217098}, 18173146097},
      {"linear", 0, {0.194751173, -0.166825294, -0.0732727498, 0.177404776}, 2538781575682},
      {"linear",
       1,
       {-0.182304397, 0.331895024, -0.0629571602, 0.161753461, -0.175644413},
       58260412137},
      {"linear_big", 0, {-0.24786824, -0.197215319, -0.107078761}, 2157622062029038},
      {"linear_big", 1, {-0.044108808, 0.156606555, -0.096968621}, 8520452842294},
      {"randperm", 0, {5, 0, 3, 4, 1, 7, 9, 6, 8, 2}, 515},
      {"randperm", 1, {761, 296, 807, 327, 445, 3}, 503610606},
      {"randint", 0, {9, 8, 7, 3, 6, 6}, 733},
      {"randint", 1, {1069610829533, 593752774202, 511498591453, 965019941378}, 12163501699050},
      {"dropout", 0, std::vector<double>(6, 1.11111116), 1565306796912},
      {"dropout", 1, {0.328984141}, 1051226268},
      {"mha_init", 0, {0.110156268, -0.13999109, -0.0142153734, 0.196132764}, 7933549792719},
      {"mha_init", 1, {-0.426964164, 0.394222349, -0.329813868, 0.0403694175}, 77096853310692},
      {"mha_init", 2, {0.105744004}, 1037602896},
      {"float64",
       0,
       {0.19233373084394845, 0.88529237018600371, 0.67154750543385588},
       4542177007465356960u},
      {"float64",
       1,
       {-0.53144799521619923, 0.98700150813161691, -1.3279542705962208},
       12214452916049684048u},
      {"negative_seed", 0, {0.993799388, 0.571306348, 0.570008039}, 9530427717},
      {"normal_mean_std",
       0,
       {0.0754752904, 0.0998137072, 0.130839154, 0.0906866118},
       10370148425557},
      {"multinomial", 0, {3, 2, 3, 2, 3, 2, 3, 2}, 1004},
  };
  const auto drawn = draw_all();
  std::size_t outputs = 0;
  for (const auto& [id, values] : drawn) outputs += values.size();
  CHECK(outputs == table.size());  // every drawn output has its row
  for (const Expected& row : table) {
    CAPTURE(row.id, row.output);
    const Values& values = drawn.at(row.id).at(row.output);
    check_slice(values, 0, row.first);
    CHECK(checksum(values) == row.cks);
  }
  check_slice(drawn.at("randn_tail")[0], 996,
              {0.699140668, -0.0362699144, -0.379759401, -0.853454411});
}

TEST_CASE("random numbers agree with every vector of seeds/torch_rng_vectors.json") {
#ifdef HEED_SHARED_DIR
  const std::filesystem::path path =
      std::filesystem::path(HEED_SHARED_DIR) / "seeds/torch_rng_vectors.json";
#else
  const std::filesystem::path path;
#endif
  if (!std::filesystem::exists(path)) {
    WARN("skipped: no torch_rng_vectors.json (HEED_SHARED_DIR unset or without seeds/): '"
         << path.string() << "'");
    return;
  }
  std::ifstream file(path);
  const auto vectors = nlohmann::json::parse(file).at("vectors");
  const auto all = draw_all();
  CHECK(vectors.size() == all.size());
  const auto decimals = [](const nlohmann::json& list) {
    std::vector<double> numbers;
    for (const auto& text : list) numbers.push_back(std::stod(text.get<std::string>()));
    return numbers;
  };
  for (const auto& vector : vectors) {
    const std::string id = vector.at("id");
    CAPTURE(id);
    REQUIRE(all.contains(id));
    const std::vector<Values>& drawn = all.at(id);
    const auto& outputs = vector.at("outputs");
    REQUIRE(drawn.size() == outputs.size());
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      const auto& output = outputs[i];
      CAPTURE(output.at("name").get<std::string>());
      const std::vector<uint64_t> bits = bits_of(drawn[i]);
      REQUIRE(bits.size() == output.at("n").get<std::size_t>());
      check_slice(drawn[i], 0, decimals(output.at("first")));
      const std::vector<double> last = decimals(output.at("last"));
      check_slice(drawn[i], bits.size() - last.size(), last);
      CHECK(checksum(drawn[i]) == std::stoull(output.at("checksum").get<std::string>()));
      const auto first_bits = output.value("first_bits", nlohmann::json::array());
      for (std::size_t k = 0; k < first_bits.size(); ++k) {
        CHECK(bits.at(k) == std::stoull(first_bits[k].get<std::string>(), nullptr, 16));
      }
    }
  }
}

// A misplaced fma changes about one value in 1000, which the vectors above are too short to see.
// The number is that of a Python program that follows torch_rng.md in exact rational arithmetic.
TEST_CASE(
    "the float32 normal has its roundings and fmas where PyTorch has them, over 1000000 values") {
  Generator g(0);
  CHECK(checksum(normal(g, 1000000)) == 10986852288103215308u);
}

}  // namespace
