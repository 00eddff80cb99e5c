#include "autograd/graph/observer.h"

#include <utility>

namespace heed::autograd {
namespace {

thread_local const NameScope* t_scope = nullptr;
thread_local const Node* t_vjp = nullptr;

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

void notify_observer(Node& node, const Vjp& v, Grads& grads) {
  OpObserver* observer = t_observer;
  const Unobserved guard;
  observer->saw_gradients(node, v, grads);
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

VjpScope::VjpScope(const Node& node) : outer_(std::exchange(t_vjp, &node)) {}
VjpScope::~VjpScope() { t_vjp = outer_; }
const Node* VjpScope::current() { return t_vjp; }

}  // namespace heed::autograd
