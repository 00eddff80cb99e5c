// Notebook 2: self-attention of a sentence, first without and then with the projections U_q, U_k
// and U_v. All random numbers are drawn after manual_seed(123), in float32 as in the notebook.
// Results are computed in float64.
#include <cmath>

#include "examples/notebooks/notebook.h"
#include "nn/nn.h"

using namespace heed::autograd;
using namespace heed::notebook;
namespace nn = heed::nn;

namespace {

constexpr Index d = 16;

void with_projections(const nn::Embedding& embed, const Tensor& sentence) {
  const Tensor embedded_sentence = to(embed(sentence).detach(), float64);
  cell("In [20]", "after In [14] and In [18]");
  manual_seed(123);
  const Tensor U_query = to(rand({d, d}), float64), U_key = to(rand({d, d}), float64),
               U_value = to(rand({d, d}), float64);
  const auto project = [&](const Tensor& U) { return mT(matmul(U, mT(embedded_sentence))); };
  const Tensor queries = project(U_query), keys = project(U_key), values = project(U_value);
  const Tensor omega = matmul(queries, mT(keys));
  show_size("omega", omega);

  cell("In [23]");
  const Tensor omega_2 = select(omega, 0, 1);
  show("omega_2", omega_2);

  cell("In [26]");
  const Tensor attention_weights_2 = softmax(omega_2 / std::sqrt(double(d)), 0);
  show("attention_weights_2", attention_weights_2);

  cell("In [27]");
  const Tensor context_vector_2 = matmul(attention_weights_2, values);
  show("context_vector_2", context_vector_2);
  require("the fused attention() returns the same",
          allclose(select(attention(queries, keys, values), 0, 1), context_vector_2, 1e-12));

  // Not in the notebook: the size of the gradient that passes through each softmax. It is measured
  // by the trace of the Jacobian, which is 1 - the sum of the squared weights. The trace is 7/8 if
  // all 8 weights are equal, and 0 if one weight is 1.
  const auto mean_trace = [&](const Tensor& a) { return mean(1.0 - sum(a * a, {-1})).item(); };
  const auto weights_of = [&](const Tensor& U_q, const Tensor& U_k) {
    return softmax(matmul(project(U_q), mT(project(U_k))) / std::sqrt(double(d)), -1);
  };
  const auto like_linear = [&] { return (rand({d, d}, float64) * 2 - 1) / std::sqrt(double(d)); };
  const double usual = mean_trace(weights_of(like_linear(), like_linear())),
               here = mean_trace(weights_of(U_query, U_key));
  fault(
      "U = rand(d, d), in 0 to 1: the softmax saturates", usual >= 0.5, here >= 0.5,
      text("The largest score is ", max(abs(omega)).item(), ". The mean trace of the Jacobian is ",
           here, ". With entries from\n-1/sqrt(d) to 1/sqrt(d), as in nn.Linear, it is ", usual,
           ". The maximum is 0.875."));
  const auto learn = [&](const Tensor& x) { grad(sum(attention(x, x, x)), {embed.weight}); };
  const std::string reason = error_text([&] { learn(embed(sentence).detach()); });
  fault(".detach() after the embedding, so the embedding cannot learn",
        error_text([&] { learn(embed(sentence)); }).empty(), reason.empty(), reason);
}

void cells() {
  cell("In [12]", "Can you help me to translate this sentence");
  const Tensor sentence = to(tensor({0, 7, 1, 2, 5, 6, 4, 3}), int64);
  show("sentence", sentence);

  cell("In [13]");
  manual_seed(123);
  const nn::Embedding embed({.count = 10, .dim = d});
  const Tensor embedded_sentence = to(embed(sentence).detach(), float64);
  show("embedded_sentence[0]", select(embedded_sentence, 0, 0));

  cell("In [22]", "the same as In [5], which uses two loops");
  Tensor omega = empty({8, 8}, float64);
  for (Index i = 0; i < 8; ++i)
    for (Index j = 0; j < 8; ++j)
      omega.mutable_data<double>()[8 * i + j] =
          matmul(select(embedded_sentence, 0, i), select(embedded_sentence, 0, j)).item();
  const Tensor omega_mat = matmul(embedded_sentence, mT(embedded_sentence));
  show_size("omega_mat", omega_mat);
  cell("In [7]");
  show_truth("allclose", allclose(omega_mat, omega));

  cell("In [8]");
  const Tensor attention_weights = softmax(omega, 1);
  show_size("attention_weights", attention_weights);
  cell("In [11]");
  const Tensor context_vectors = matmul(attention_weights, embedded_sentence);
  show_size("context_vectors", context_vectors);
  cell("derived.selfattn", "the notebook prints only sizes; the test compares the values");
  show_size("X", embedded_sentence);
  show_size("omega", omega_mat);
  show_size("attention_weights", attention_weights);
  show_size("context_vectors", context_vectors);

  with_projections(embed, sentence);

  std::cout << R"(
Notice: before training, word 1 already has a weight of 0.86 for one word and 0.14 for another.
The entries are all positive, so the scores are large, and the gradient of a softmax of large
scores is small. Because the seed is used twice, U_query and the embedding are also made from
the same random numbers.
)";
}

}  // namespace

int main() { return run(2, cells); }
