// Compares the numbers of Generator and nn::init with PyTorch's numbers by the sizes and checksums
// in tests/data/torch_random_vectors.json. The file also has the first and the last values of each
// vector, for a reader who looks for a difference. autograd/tensor/README.md describes the order of
// the draws.
#include <bit>
#include <nlohmann/json.hpp>

#include "autograd/tensor/create.h"
#include "autograd/tensor/random.h"
#include "nn/layers/init.h"
#include "tests/support/catch.h"
#include "tests/support/draws.h"
#include "tests/support/files.h"

namespace {

using namespace heed::testing;

using Values = std::variant<std::vector<float>, std::vector<double>, std::vector<std::int64_t>>;
using heed::autograd::empty;
namespace init = heed::nn::init;

// Returns the initial weight and bias of torch.nn.Linear(in, out).
std::vector<Values> linear(Generator& g, std::int64_t in, std::int64_t out) {
  const auto weight = empty({out, in}), bias = empty({out});
  init::linear(weight, bias, g);
  return {weight.to_vector<float>(), bias.to_vector<float>()};
}

std::vector<float> initial(const heed::autograd::Tensor& x, double mean, double std_dev,
                           Generator& g) {
  init::normal(x, mean, std_dev, g);
  return x.to_vector<float>();
}

// Returns the values of F.dropout(torch.ones(n), p).
std::vector<float> dropout_of_ones(Generator& g, std::size_t n, double p) {
  const float scale = 1.0f / float(1.0 - p);
  std::vector<float> out;
  for (const std::uint8_t keep : bernoulli(g, n, 1.0 - p)) out.push_back(keep != 0 ? scale : 0.0f);
  return out;
}

// Returns the outputs of every test vector, with its id as the key. The order of the draws is
// PyTorch's order, because a braced list is evaluated from left to right.
std::map<std::string, std::vector<Values>> draw_all() {
  using V = std::vector<Values>;
  std::map<std::string, V> drawn;
  Generator g;
  g.manual_seed(123);
  drawn["rand_seed2_U"] = V{uniform(g, 256), uniform(g, 256), uniform(g, 256)};
  g.manual_seed(123);
  drawn["embedding_seed2"] = V{initial(empty({10, 16}), 0, 1, g)};
  g.manual_seed(42);
  drawn["randn_tail"] = V{normal(g, 1000), uniform(g, 2)};
  g.manual_seed(0);
  drawn["randn_small_cache"] = V{normal(g, 5), uniform(g, 2), normal(g, 3)};
  g.manual_seed(1);
  drawn["linear"] = linear(g, 7, 5);
  g.manual_seed(3);
  drawn["linear_big"] = linear(g, 16, 64);
  g.manual_seed(7);
  drawn["randperm"] = V{randperm(g, 10), randperm(g, 1000)};
  g.manual_seed(3);
  drawn["randint"] = V{randint(g, 12, 0, 11), randint(g, 4, -5, std::int64_t{1} << 40)};
  g.manual_seed(5);
  drawn["dropout"] = V{dropout_of_ones(g, 40, 0.1), uniform(g, 1)};
  g.manual_seed(9);
  const auto out_proj = linear(g, 8, 8)[0];  // PyTorch draws the bias too, then sets it to 0
  const auto in_proj = empty({24, 8});
  init::xavier_uniform(in_proj, g);
  drawn["mha_init"] = V{out_proj, in_proj.to_vector<float>(), uniform(g, 1)};
  g.manual_seed(11);
  drawn["float64"] = V{uniform<double>(g, 3), normal<double>(g, 17)};
  g.manual_seed(-1);
  drawn["negative_seed"] = V{uniform(g, 3)};
  g.manual_seed(2024);
  drawn["normal_mean_std"] = V{initial(empty({100}), 0.1, 0.02, g)};
  g.manual_seed(5);
  const std::vector<float> p = {0.1f, 0.2f, 0.3f, 0.4f};
  std::vector<std::int64_t> index(20);
  for (std::int64_t& i : index) i = g.multinomial(p);
  drawn["multinomial"] = V{index};
  return drawn;
}

// Returns the bits of each value: IEEE 754 for floats, two's complement for integers.
std::vector<std::uint64_t> bit_patterns(const Values& values) {
  std::vector<std::uint64_t> bits;
  std::visit(
      [&]<class T>(const std::vector<T>& list) {
        for (const T value : list) {
          if constexpr (std::is_same_v<T, float>) {
            bits.push_back(std::bit_cast<std::uint32_t>(value));
          } else {
            bits.push_back(std::bit_cast<std::uint64_t>(value));
          }
        }
      },
      values);
  return bits;
}

std::uint64_t checksum(const Values& values) {
  std::uint64_t sum = 0;
  std::uint64_t weight = 1;
  for (const std::uint64_t bits : bit_patterns(values)) {
    sum += bits * weight;
    weight += 2;
  }
  return sum;
}

TEST_CASE("random numbers equal PyTorch's bit for bit") {
  std::ifstream file(data_file("torch_random_vectors.json"));
  REQUIRE(file.is_open());
  const auto vectors = nlohmann::json::parse(file).at("vectors");
  const auto all = draw_all();
  CHECK(vectors.size() == all.size());
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
      CHECK(bit_patterns(drawn[i]).size() == output.at("n").get<std::size_t>());
      CHECK(checksum(drawn[i]) == std::stoull(output.at("checksum").get<std::string>()));
    }
  }
}

// If an fma is at a wrong position, about one value in 1000 changes. The vectors of the test above
// are too short to detect this. The expected checksum comes from a Python program that computes the
// stream in exact rational arithmetic.
TEST_CASE("1000000 float32 normals have the same roundings and fmas as PyTorch") {
  Generator g(0);
  CHECK(checksum(normal(g, 1000000)) == 10986852288103215308u);
}

}  // namespace
