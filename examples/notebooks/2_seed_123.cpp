// Notebook 2: self-attention of a sentence, bare and then with U_q, U_k, U_v; all of it from
// manual_seed(123). Drawn in float32 as there, computed in float64.
#include <cmath>

#include "autograd/engine/engine.h"
#include "nn/layers/layers.h"
#include "tests/golden/page.h"

using namespace heed::autograd;
using namespace heed::notebook;
namespace nn = heed::nn;

namespace {

constexpr std::int64_t d = 16;

void notebook(Page& page) {
  page.cell("In [12]  Can you help me to translate this sentence");
  const Tensor sentence = to(tensor({0, 7, 1, 2, 5, 6, 4, 3}), int64);
  page.tensor("s2.in12.sentence:sentence", sentence, "tensor([0, 7, 1, 2, 5, 6, 4, 3])");

  page.cell("In [13]");
  manual_seed(123);
  const nn::Embedding embed({.count = 10, .dim = d});
  const Tensor embedded_sentence = to(embed(sentence).detach(), float64);
  page.tensor("s2.in13.emb0:embedded_sentence[0]", select(embedded_sentence, 0, 0),
              "tensor([ 0.3374, -0.1778, -0.3035, -0.5880,  0.3486,  0.6603, -0.2196, -0.3792,\n"
              "         0.7671, -1.1925,  0.6984, -1.4097,  0.1794,  1.8951,  0.4954,  0.2692])");
  page.keep("s2.derived.selfattn:X", embedded_sentence);

  page.cell("In [5], In [22], In [7]");
  Tensor omega = empty({8, 8}, float64);
  for (std::int64_t i = 0; i < 8; ++i)
    for (std::int64_t j = 0; j < 8; ++j)
      omega.mutable_data<double>()[8 * i + j] =
          matmul(select(embedded_sentence, 0, i), select(embedded_sentence, 0, j)).item();
  const Tensor omega_mat = matmul(embedded_sentence, mT(embedded_sentence));
  page.size("s2.in22.shape:omega_mat", omega_mat, "torch.Size([8, 8])");
  page.keep("s2.derived.selfattn:omega", omega_mat);
  const bool same = allclose(omega_mat, omega);
  page.say(same ? "True" : "False");
  page.keep("s2.in7.allclose:allclose", full({}, same));

  page.cell("In [8], In [11]");
  const Tensor attention_weights = softmax(omega, 1);
  page.size("s2.in8.shape:attention_weights", attention_weights, "torch.Size([8, 8])");
  page.keep("s2.derived.selfattn:attention_weights", attention_weights);
  const Tensor context_vectors = matmul(attention_weights, embedded_sentence);
  page.size("s2.in11.shape:context_vectors", context_vectors, "torch.Size([8, 16])");
  page.keep("s2.derived.selfattn:context_vectors", context_vectors);

  page.cell("In [14], In [18], In [20]");
  manual_seed(123);
  const Tensor U_query = to(rand({d, d}), float64), U_key = to(rand({d, d}), float64),
               U_value = to(rand({d, d}), float64);
  const auto project = [&](const Tensor& U) { return mT(matmul(U, mT(embedded_sentence))); };
  const Tensor queries = project(U_query), keys = project(U_key), values = project(U_value);
  omega = matmul(queries, mT(keys));
  page.size("s2.in20.shape:omega", omega, "torch.Size([8, 8])");

  page.cell("In [23]");
  const Tensor omega_2 = select(omega, 0, 1);
  page.tensor("s2.in23.omega2:omega_2", omega_2,
              "tensor([-25.1623,   9.3602,  14.3667,  32.1482,  53.8976,  46.6626,  -1.2131,\n"
              "        -32.9392])");

  page.cell("In [26]");
  const Tensor attention_weights_2 = softmax(omega_2 / std::sqrt(double(d)), 0);
  page.tensor("s2.in26.w2:attention_weights_2", attention_weights_2,
              "tensor([2.2317e-09, 1.2499e-05, 4.3696e-05, 3.7242e-03, 8.5596e-01, 1.4026e-01,\n"
              "        8.8897e-07, 3.1935e-10])");

  page.cell("In [27]");
  const Tensor context_vector_2 = matmul(attention_weights_2, values);
  page.tensor("s2.in27.ctx2:context_vector_2", context_vector_2,
              "tensor([-1.2226, -3.4387, -4.3928, -5.2125, -1.1249, -3.3041, -1.4316, -3.2765,\n"
              "        -2.5114, -2.6105, -1.5793, -2.8433, -2.4142, -0.3998, -1.9917, -3.3499])");
  page.check("attention(), fused, says the same",
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
  page.fault("U = rand(d, d), in 0 to 1: the softmax saturates", usual >= 0.5, here >= 0.5,
             text("Scores reach ", max(abs(omega)).item(), ". The Jacobian's trace is ", here,
                  " on average; with entries in\n-1/sqrt(d) to 1/sqrt(d), as nn.Linear has them, ",
                  usual, " of 0.875 at most."));
  const auto learn = [&](const Tensor& x) { grad(sum(attention(x, x, x)), {embed.weight}); };
  const std::string reason = refusal([&] { learn(embed(sentence).detach()); });
  page.fault(".detach() after the embedding: it cannot learn",
             refusal([&] { learn(embed(sentence)); }).empty(), reason.empty(), reason);

  page.say(
      "\nNotice: word 1 gives 0.86 to one word and 0.14 to another before anything was learned:\n"
      "entries that are all positive add up to large scores, and a softmax of large scores passes\n"
      "little gradient back. The same seed twice also makes U_query from the words of the stream\n"
      "that made the embedding.");
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv, 2, notebook); }
