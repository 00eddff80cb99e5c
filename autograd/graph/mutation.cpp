#include "autograd/graph/mutation.h"

namespace heed::autograd {
namespace {
thread_local MutateGradients* t_mutation = nullptr;
}

MutateGradients::MutateGradients(Mutation f) : f_(std::move(f)) { t_mutation = this; }
MutateGradients::~MutateGradients() { t_mutation = nullptr; }

Tensor MutateGradients::apply(const Op& op, std::size_t input, Tensor g) {
  if (!t_mutation) [[likely]]
    return g;
  MutateGradients* self = std::exchange(t_mutation, nullptr);  // what f calls is not mutated
  Tensor wrong = self->f_(op, input, g);
  t_mutation = self;
  return wrong;
}

}  // namespace heed::autograd
