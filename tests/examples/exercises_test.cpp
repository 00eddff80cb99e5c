// Tests that check_attention names every known mistake, alone and in combinations, and accepts
// correct layers.
#include "examples/exercises/attention.h"
#include "examples/exercises/check_attention.h"
#include "tests/support/catch.h"

using namespace heed::autograd;
using namespace heed::exercises;
namespace nn = heed::nn;

namespace {

// Attention as a student may write it, with einsums as in notebook 1. Each step can be replaced by
// a wrong step.
struct Student {
  using Step = std::function<Tensor(const Tensor&)>;
  Step scale = [](const Tensor& s) { return s / std::sqrt(3.0); };  // d_head is 3
  Step mask = by_mask(0, -kInf);
  Step normalize = [](const Tensor& s) { return softmax(s, -1); };
  Step join = [](const Tensor& z) {  // [batch, posn, heads, d_head]
    return reshape(z, {z.size(0), z.size(1), z.size(2) * z.size(3)});
  };

  static Step by_mask(Index diagonal, double fill) {
    return [=](const Tensor& s) {
      const Index n = s.size(-1);
      return masked_fill(s, gt(triu(ones({n, n}), 1 + diagonal), 0.0), fill);
    };
  }
  static Step keep_later(Index from) {  // masks keys below the diagonal `from`
    return [=](const Tensor& s) {
      const Index n = s.size(-1);
      return masked_fill(s, gt(tril(ones({n, n}), from - 1), 0.0), -kInf);
    };
  }

  Tensor operator()(const nn::HeadWeights& w, const Tensor& x) const {
    const auto project = [&](const Tensor& W, const Tensor& b) {
      return einsum("batch posn d_model, nheads d_model d_head -> batch posn nheads d_head",
                    {x, W}) +
             b;
    };
    const Tensor scores = einsum(
        "batch posn_Q nheads d_head, batch posn_K nheads d_head -> batch nheads posn_Q posn_K",
        {project(w.W_Q, w.b_Q), project(w.W_K, w.b_K)});
    const Tensor pattern = normalize(mask(scale(scores)));
    const Tensor z = einsum(
        "batch posn_K nheads d_head, batch nheads posn_Q posn_K -> batch posn_Q nheads d_head",
        {project(w.W_V, w.b_V), pattern});
    const Tensor W_O = reshape(w.W_O, {w.W_O.size(0) * w.W_O.size(1), w.W_O.size(2)});
    return matmul(join(z), W_O) + w.b_O;
  }
};

struct Mistaken {
  std::vector<Mistake> mistakes;
  Student student;
};

const Student::Step kNoScaling = [](const Tensor& s) { return s; };
const Student::Step kWithoutPermute = [](const Tensor& z) {
  return reshape(permute(z, {0, 2, 1, 3}), {z.size(0), z.size(1), z.size(2) * z.size(3)});
};

std::vector<Mistaken> wrong_students() {
  using enum Mistake;
  const Student::Step by_model = [](const Tensor& s) { return s / std::sqrt(6.0); };
  const auto over = [](Index axis) { return [axis](const Tensor& s) { return softmax(s, axis); }; };
  const Student::Step swapped = [](const Tensor& z) {
    return reshape(flip(z, 2), {z.size(0), z.size(1), z.size(2) * z.size(3)});
  };
  return {{{kNoScale}, {.scale = kNoScaling}},
          {{kScaledByModel}, {.scale = by_model}},
          {{kMaskHidesItself}, {.mask = Student::by_mask(-1, -kInf)}},
          {{kMaskShowsNext}, {.mask = Student::by_mask(1, -kInf)}},
          {{kMaskTransposed}, {.mask = Student::keep_later(0)}},
          {{kMaskInverted}, {.mask = Student::keep_later(1)}},
          {{kNoMask}, {.mask = kNoScaling}},
          {{kNoPermute}, {.join = kWithoutPermute}},
          {{kHeadsSwapped}, {.join = swapped}},
          {{kSoftmaxOverQueries}, {.normalize = over(-2)}},
          {{kSoftmaxOverHeads}, {.normalize = over(1)}},
          {{kFiniteMask}, {.mask = Student::by_mask(0, -1e9)}},
          {{kFiniteMask}, {.mask = Student::by_mask(0, -1e5)}},
          {{kNoScale, kNoPermute}, {.scale = kNoScaling, .join = kWithoutPermute}},
          {{kScaledByModel, kMaskShowsNext, kFiniteMask},
           {.scale = by_model, .mask = Student::by_mask(1, -1e9)}}};
}

}  // namespace

TEST_CASE("right attention passes: the solution, the one of the notebook, and that of heed") {
  CHECK(check_attention(hidden_attention).message == "right: values and gradients agree");
  CHECK(check_attention(Student()).right());
  const AttentionFinding own = check_attention([](const nn::HeadWeights& w, const Tensor& x) {
    nn::MultiHeadAttention layer(
        {.d_model = 6, .heads = 2, .d_head = 3, .causal = true, .dtype = float64});
    layer.weights = packed(w);
    return layer(x);
  });
  CHECK(own.message == "right: values and gradients agree");
}

TEST_CASE("each mistake is named") {
  for (const auto& [mistakes, student] : wrong_students()) {
    const AttentionFinding finding = check_attention(student);
    INFO(describe(mistakes[0]) << " | " << finding.message);
    CHECK(finding.mistakes == mistakes);
    for (const Mistake m : mistakes) CHECK(finding.message.find(describe(m)) != std::string::npos);
  }
}

TEST_CASE("a wrong gradient, an unknown mistake and a wrong shape are reported") {
  Student detached;
  detached.mask = [](const Tensor& s) { return Student::by_mask(0, -kInf)(s.detach()); };
  const AttentionFinding lost = check_attention(detached);
  CHECK(lost.mistakes == std::vector{Mistake::kNoGradient});
  CHECK(lost.message.find("a gradient is wrong, that of ") != std::string::npos);

  Student other;
  other.scale = [](const Tensor& s) { return s / 1.7; };
  const AttentionFinding unknown = check_attention(other);
  CHECK(unknown.mistakes == std::vector{Mistake::kUnknown});
  CHECK(unknown.message.find("; output at [0, 1, 0] is ") != std::string::npos);

  const AttentionFinding shape =
      check_attention([](const nn::HeadWeights&, const Tensor& x) { return sum(x); });
  CHECK(!shape.right());
  CHECK(shape.message.find("[2, 5, 6]") != std::string::npos);
}
