// Tests of the comparison of tensors and of safetensors files, with plain numbers.
#include "nn/io/tensor_difference.h"

#include <bit>

#include "autograd/ops/ops.h"
#include "autograd/tensor/create.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;

template <class T>
TensorDifference difference(const std::vector<T>& a, const std::vector<T>& b,
                            const Tolerance& tolerance = {}) {
  return compare_tensors(from_data(a, {std::int64_t(a.size())}),
                         from_data(b, {std::int64_t(b.size())}), tolerance);
}

TEST_CASE("a comparison has the largest differences, the norms and the first different element") {
  const TensorDifference d = difference<double>({3, 4, 0}, {3, 5, 2});
  CHECK_FALSE(d.equal_bits());
  CHECK(d.first == 1);
  CHECK(d.beyond == 2);
  CHECK(d.max_abs == 2);
  CHECK(d.max_rel == kInf);  // only a is 0
  CHECK(d.norm_a == 5);
  CHECK(d.norm_b == std::sqrt(38.0));
  CHECK(d.norm_difference == std::sqrt(5.0));
  CHECK(difference<double>({4, -8}, {5, -8}).max_rel == 0.25);

  const TensorDifference none = difference<float>({}, {});
  CHECK(none.equal_bits());
  CHECK(none.norm_difference == 0);
}

TEST_CASE("a NaN differs from everything but the same bits, at any tolerance") {
  const Tolerance wide{.atol = 1e300, .rtol = 1e300};
  const float nan = NAN, other_nan = std::bit_cast<float>(0x7fc12345u);
  CHECK(difference<float>({nan, 1}, {nan, 1}).equal_bits());
  CHECK(difference<float>({nan, 1}, {nan, 1}).max_abs == 0);
  CHECK(difference<float>({nan}, {other_nan}, wide).beyond == 1);
  CHECK(difference<float>({nan}, {1}, wide).beyond == 1);
  const TensorDifference d = difference<float>({0, 1, 0}, {9, nan, 7}, wide);
  CHECK(d.beyond == 1);
  CHECK(std::isnan(d.max_abs));  // 7 after the NaN does not replace it
  CHECK(std::isnan(d.max_rel));
  CHECK(std::isnan(d.norm_difference));
}

TEST_CASE("an infinite difference is beyond any tolerance") {
  const Tolerance wide{.atol = 1e300, .rtol = 1e300};
  CHECK(difference<double>({kInf, -kInf}, {kInf, -kInf}).equal_bits());
  CHECK(difference<double>({kInf, kInf, 1}, {1, -kInf, kInf}, wide).beyond == 3);
  CHECK(difference<double>({1e308}, {-1e308}, wide).beyond == 1);
}

TEST_CASE("0 and -0 are equal numbers with different bits") {
  const TensorDifference d = difference<float>({0, 1}, {-0.0f, 1});
  CHECK(d.first == 0);
  CHECK(d.beyond == 0);
  CHECK(d.max_abs == 0);
  CHECK(d.max_rel == 0);
}

TEST_CASE("the tolerance includes its bound and is relative to the first tensor") {
  CHECK(difference<double>({1}, {1.5}, {.atol = 0.5}).beyond == 0);
  CHECK(difference<double>({1}, {1.5}, {.atol = 0.4999}).beyond == 1);
  CHECK(difference<double>({-4}, {-5}, {.rtol = 0.25}).beyond == 0);
  CHECK(difference<double>({-5}, {-4}, {.rtol = 0.1999}).beyond == 1);
  CHECK(difference<double>({4}, {6}, {.atol = 1, .rtol = 0.25}).beyond == 0);
  CHECK(difference<double>({0}, {1e-300}, {.rtol = 1e300}).beyond == 1);
  const double next = std::nextafter(1.0, 2.0);
  CHECK(difference<double>({1}, {next}).beyond == 1);
}

TEST_CASE("integers and truth values are compared as numbers, integers without rounding") {
  const std::int64_t big = (std::int64_t(1) << 62) + 1, least = INT64_MIN, most = INT64_MAX;
  CHECK(difference<std::int64_t>({big}, {big + 1}).max_abs == 1);
  CHECK(difference<std::int64_t>({big}, {big + 1}, {.atol = 1}).beyond == 0);
  CHECK(difference<std::int64_t>({least}, {most}).max_abs == 0x1p64);
  const Tensor a = from_data(std::vector<bool>{true, false}, {2}),
               b = from_data(std::vector<bool>{true, true}, {2});
  CHECK(compare_tensors(a, a).equal_bits());
  CHECK(compare_tensors(a, b).first == 1);
  CHECK(compare_tensors(a, b).max_abs == 1);
}

TEST_CASE("strided tensors are compared in row-major order") {
  const Tensor a = transpose(from_data(std::vector<float>{0, 1, 2, 3, 4, 5}, {2, 3}), 0, 1),
               b = from_data(std::vector<float>{0, 3, 1, 4, 2, 6}, {3, 2}).requires_grad_();
  const TensorDifference d = compare_tensors(a, b);
  CHECK(d.first == 5);
  CHECK(d.max_abs == 1);
}

TEST_CASE("tensors of other shapes and dtypes are rejected") {
  CHECK(message_of<ShapeError>([] {
          compare_tensors(zeros({2}), zeros({1, 2}));
        }) == "compare_tensors: needs equal shapes, got [2] and [1, 2]");
  CHECK(message_of<DTypeError>([] { compare_tensors(zeros({2}), zeros({2}, float64)); }) ==
        "compare_tensors: needs equal dtypes, got float32 and float64");
}

TEST_CASE("files are compared by name; a missing name, another shape or dtype is a difference") {
  const SafeTensors a{.path = "a",
                      .tensors = {{"same", ones({2})},
                                  {"gone", ones({1})},
                                  {"shape", ones({2, 1})},
                                  {"dtype", ones({2})},
                                  {"value", ones({2})}}},
      b{.path = "b",
        .tensors = {{"new", ones({3})},
                    {"value", full({2}, 1.5)},
                    {"dtype", ones({2}, float64)},
                    {"shape", ones({1, 2})},
                    {"same", ones({2})}}};
  const auto all = compare_files(a, b, {.atol = 0.25});
  std::string names;
  for (const NamedDifference& d : all)
    names += d.name + (d.differs() ? "! " : " ") + d.text() + "; ";
  CHECK(names ==
        "same ; gone! only in A; shape! B has shape [1, 2]; dtype! float32, B has float64; "
        "value! at [0] is 1.5, not 1; new! only in B; ");
  CHECK(all[0].elements->equal_bits());
  CHECK_FALSE(all[1].b.defined());
  CHECK(all[4].elements->beyond == 2);
  CHECK_FALSE(all[5].a.defined());
  CHECK(compare_files(a, b, {.atol = 0.5})[4].differs() == false);
}

}  // namespace
