// A static library that uses heed. model.cpp uses this library.
#include "nn/nn.h"

std::size_t count_checks() { return heed::autograd::registered_checks().size(); }

std::int64_t count_model() {
  return heed::nn::count_parameters(heed::nn::Transformer(
      {.vocab = 5, .layers = 1, .context = 4, .attention = {.d_model = 8, .heads = 2}}));
}
