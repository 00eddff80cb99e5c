// Notebook 2: self-attention of a sentence, bare and then with U_q, U_k, U_v; all of it from
// manual_seed(123). Drawn in float32 as there, computed in float64.
#include <cmath>

#include "examples/notebooks/notebook.h"
#include "nn/nn.h"

using namespace heed::autograd;
using namespace heed::notebook;
namespace nn = heed::nn;

namespace {

constexpr std::int64_t d = 16;

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
  require("attention(), fused, says the same",
          allclose(select(attention(queries, keys, values), 0, 1), context_vector_2, 1e-12));

  // What the notebook does not print: how much gradient each softmax lets through, and to whom.
  // The trace of its Jacobian is 1 - sum of squares: 7/8 if all weights are equal, 0 if one is 1.
  const auto lets_through = [&](const Tensor& a) { return mean(1.0 - sum(a * a, {-1})).item(); };
  const auto weights_of = [&](const Tensor& U_q, const Tensor& U_k) {
    return softmax(matmul(project(U_q), mT(project(U_k))) / std::sqrt(double(d)), -1);
  };
  const auto like_linear = [&] { return (rand({d, d}, float64) * 2 - 1) / std::sqrt(double(d)); };
  const double usual = lets_through(weights_of(like_linear(), like_linear())),
               here = lets_through(weights_of(U_query, U_key));
  fault("U = rand(d, d), in 0 to 1: the softmax saturates", usual >= 0.5, here >= 0.5,
        text("Scores reach ", max(abs(omega)).item(), ". The Jacobian's trace is ", here,
             " on average; with entries in\n-1/sqrt(d) to 1/sqrt(d), as nn.Linear has them, ",
             usual, " of 0.875 at most."));
  const auto learn = [&](const Tensor& x) { grad(sum(attention(x, x, x)), {embed.weight}); };
  const std::string reason = refusal([&] { learn(embed(sentence).detach()); });
  fault(".detach() after the embedding: it cannot learn",
        refusal([&] { learn(embed(sentence)); }).empty(), reason.empty(), reason);
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

  cell("In [22]", "the same as In [5], there in two loops");
  Tensor omega = empty({8, 8}, float64);
  for (std::int64_t i = 0; i < 8; ++i)
    for (std::int64_t j = 0; j < 8; ++j)
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
  cell("derived.selfattn", "the notebook prints their sizes only; the test knows their values");
  show_size("X", embedded_sentence);
  show_size("omega", omega_mat);
  show_size("attention_weights", attention_weights);
  show_size("context_vectors", context_vectors);

  with_projections(embed, sentence);

  std::cout << R"(
Notice: word 1 gives 0.86 to one word and 0.14 to another before anything was learned:
entries that are all positive add up to large scores, and a softmax of large scores passes
little gradient back. The same seed twice also makes U_query from the words of the stream
that made the embedding.
)";
}

}  // namespace

int main() { return run(2, cells); }
