#include "autograd/graph/mutation.h"

namespace heed::autograd {
namespace {
thread_local MutateGradients* t_mutation = nullptr;
}

MutateGradients::MutateGradients(Mutation f)
    : f_(std::move(f)), outer_(std::exchange(t_mutation, this)) {}
MutateGradients::~MutateGradients() { t_mutation = outer_; }

Tensor MutateGradients::apply(const Op& op, std::size_t input, Tensor g, const Shape& shape) {
  if (!t_mutation) [[likely]]
    return g;
  // What f calls is not mutated; what follows is again, also if f throws.
  struct Suspended {
    MutateGradients* self = std::exchange(t_mutation, nullptr);
    ~Suspended() { t_mutation = self; }
  } suspended;
  return suspended.self->f_(op, input, g, shape);
}

}  // namespace heed::autograd
