// Members of Tensor that need the complete type Node: gradients, hooks, and the constructor and
// destructor of Impl, which has a node.
#include "autograd/graph/graph.h"
#include "autograd/tensor/tensor_access.h"

namespace heed::autograd {

Tensor::Impl::Impl(DType d, const Layout& l, Ref<Storage> s)
    : dtype(d), layout(l), storage(std::move(s)) {}
Tensor::Impl::~Impl() = default;
Tensor::Tensor(DType dtype, const Layout& layout, Ref<Storage> storage)
    : impl_(new (pool_allocate(sizeof(Impl))) Impl(dtype, layout, std::move(storage))) {}
void Tensor::Impl::destroy(Impl* impl) {
  impl->~Impl();
  pool_free(impl, sizeof(Impl));
}

Tensor Tensor::requires_grad_() const {
  check<DTypeError>(is_floating(dtype()), "requires_grad_", "needs float32 or float64, got ",
                    dtype());
  check<ValueError>(is_leaf(), "requires_grad_", "this tensor is the result of ",
                    is_leaf() ? "" : node()->op()->name(),
                    "; for its gradient call retain_grad() or grad(y, {x}), or detach() it first");
  if (!node())
    impl_->node = Ref(new (pool_allocate(sizeof(Node))) Node(nullptr, *this, sizeof(Node)));
  return *this;
}

bool Tensor::requires_grad() const { return defined() && bool(impl_->node); }
bool Tensor::is_leaf() const { return !node() || !node()->op(); }

Tensor Tensor::grad() const {
  if (!node()) return {};
  check<ValueError>(is_leaf() || (node()->has_extras() && node()->extras().retain), "grad", "this ",
                    shape(), " tensor is the result of ", is_leaf() ? "" : node()->op()->name(),
                    ", whose gradient is not kept: call retain_grad() before backward()");
  return node()->has_extras() ? node()->extras().grad : Tensor();
}

void Tensor::set_grad(const Tensor& g) const {
  if (!g.defined()) return zero_grad();
  check<ValueError>(requires_grad() && is_leaf(), "set_grad", "this ", shape(),
                    " tensor is not a leaf that requires grad; call requires_grad_() first");
  check(g.shape() == shape(), "set_grad", "needs a gradient of shape ", shape(), ", got ",
        g.shape());
  check<DTypeError>(g.dtype() == dtype(), "set_grad", "needs a gradient of ", dtype(), ", got ",
                    g.dtype());
  node()->extras().grad = g;
}

void Tensor::zero_grad() const {
  if (node() && node()->has_extras()) node()->extras().grad = Tensor();
}

Tensor Tensor::retain_grad() const {
  check<ValueError>(requires_grad(), "retain_grad", "no gradient flows to this ", shape(),
                    " tensor; call requires_grad_() on a leaf first");
  node()->extras().retain = true;
  return *this;
}

HookHandle Tensor::register_hook(std::function<Tensor(const Tensor&)> f) const {
  check<ValueError>(requires_grad(), "register_hook", "no gradient flows to this ", shape(),
                    " tensor; call requires_grad_() on a leaf first");
  Node::Extras& extras = node()->extras();
  const std::uint64_t id = extras.next_hook++;
  extras.hooks.emplace_back(id, std::move(f));
  return {[node = node(), id]() mutable {
    if (node)
      std::erase_if(node->extras().hooks, [id](const auto& hook) { return hook.first == id; });
    node = {};  // so that the handle no longer keeps the graph alive
  }};
}

void detail::TensorAccess::set_node(const Tensor& x, Ref<Node> node) {
  x.impl_->node = std::move(node);
}

}  // namespace heed::autograd
