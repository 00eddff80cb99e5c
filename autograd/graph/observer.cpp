#include "autograd/graph/observer.h"

#include <utility>

namespace heed::autograd {
namespace {

thread_local const NameScope* t_scope = nullptr;

}  // namespace

Unobserved::Unobserved() : observer_(std::exchange(detail::t_observer, nullptr)) {}
Unobserved::~Unobserved() { detail::t_observer = observer_; }

namespace detail {
void notify_observer(const Op& op, const Inputs& inputs, const Tensor& output) {
  OpObserver* observer = t_observer;
  const Unobserved guard;
  const NoGrad no_grad;
  observer->saw(op, inputs, output);
}
}  // namespace detail

NameScope::NameScope(std::string_view name) : name_(name), outer_(t_scope) { t_scope = this; }
NameScope::~NameScope() { t_scope = outer_; }

std::string NameScope::path() {
  std::string path;
  for (const NameScope* scope = t_scope; scope; scope = scope->outer_)
    path = std::string(scope->name_) + (path.empty() ? "" : ".") + path;
  return path;
}

OpObserver::OpObserver() : before_(std::exchange(detail::t_observer, this)) {}
OpObserver::~OpObserver() { detail::t_observer = before_; }

ObservedVjp::ObservedVjp(Node& node, const Vjp& v)
    : observer_(detail::t_observer), node_(node), vjp_(v) {
  if (!observer_) return;
  const Unobserved guard;
  const NoGrad no_grad;
  observer_->before_vjp(node, v.grad);
}

ObservedVjp::~ObservedVjp() {
  if (observer_) observer_->after_vjp();
}

void ObservedVjp::report(Grads& grads) const {
  if (!observer_) return;
  const Unobserved guard;
  observer_->saw_gradients(node_, vjp_, grads);
}

}  // namespace heed::autograd
