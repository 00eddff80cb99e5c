// The engine: reverse mode. In short, grad() and backward() do this:
//
//   visits = the nodes that y depends on, each with an empty sum; the sum of y's node = grad_output
//   for each visit, from the latest node to the oldest:
//     gradients = vjp of the node (sum)       one gradient for each input
//     for each input: sum of the input's node += its gradient
//
// A node is later than its inputs. Therefore its sum is complete when the walk reaches the node,
// even if several ops read its output. The walk is a loop, so that deep graphs need no deep stack.
#include "autograd/engine/engine.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "autograd/graph/graph.h"
#include "autograd/graph/inplace.h"
#include "autograd/graph/observer.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/copy.h"
#include "autograd/tensor/create.h"
#include "autograd/tensor/tensor_access.h"

namespace heed::autograd {

using detail::TensorAccess;

namespace {

struct Visit {
  Ref<Node> node;
  Tensor sum = {};  // sum of the gradients of the node's output that have arrived so far
};

// The nodes of one walk by sequence number, latest first. The sums are stored here and not in the
// nodes, because several walks may visit the same node: threads walk graphs that share leaves, and
// a hook or the definition of a fused op starts a walk inside a walk.
using Visits = std::map<std::uint64_t, Visit, std::greater<>,
                        PoolAllocator<std::pair<const std::uint64_t, Visit>>>;

void check_alive(const Node& node) {
  if (node.released())
    fail<ValueError>(
        "backward", "the graph behind ", node.op()->name(), " ", node.shape(),
        " was freed by an earlier backward pass (or by one that ended with an error); pass "
        "retain_graph = true to that call, or compute the result again");
}

// Finds all nodes that `root` depends on and whose sequence number is at least `oldest`.
Visits discover(const Ref<Node>& root, std::uint64_t oldest) {
  Visits visits;
  visits[root->sequence()].node = root;
  // The inputs of a node are older. They come later in the map, so this loop reaches them, too.
  for (const auto& [sequence, visit] : visits) {
    check_alive(*visit.node);
    for (const Node::Input& input : visit.node->inputs())
      if (input.node && input.node->sequence() >= oldest)
        visits[input.node->sequence()].node = input.node;
  }
  return visits;
}

// Returns the sum of a node, or null if the walk does not visit the node.
Tensor* sum_of(Visits& visits, const Node* node) {
  const auto found = node ? visits.find(node->sequence()) : visits.end();
  return found == visits.end() ? nullptr : &found->second.sum;
}

// Removes all nodes that do not depend on a tensor of `wrt`. The loop runs from the oldest node to
// the latest, because a node stays if one of its inputs stays.
void keep_paths_to(Visits& visits, std::span<const Tensor> wrt) {
  for (auto next = visits.end(); next != visits.begin();) {
    Node& node = *(--next)->second.node;
    const auto inputs = node.inputs();
    const bool stays =
        std::any_of(inputs.begin(), inputs.end(),
                    [&](const Node::Input& input) { return sum_of(visits, input.node.get()); }) ||
        std::any_of(wrt.begin(), wrt.end(),
                    [&](const Tensor& x) { return TensorAccess::node(x).get() == &node; });
    if (!stays) next = visits.erase(next);
  }
}

// Calls the hooks of the node with the gradient g. Returns g, or the gradient that replaces it.
Tensor run_hooks(Node& node, Tensor g) {
  if (!node.has_extras()) return g;
  const auto hooks = node.extras().hooks;  // a copy: a hook may remove itself
  for (const auto& [id, hook] : hooks) {
    const Tensor replaced = hook(g);
    if (!replaced.defined()) continue;
    check(replaced.shape() == g.shape() && replaced.dtype() == g.dtype(), "hook", "returned ",
          replaced.shape(), " ", replaced.dtype(), " for a gradient of ", g.shape(), " ", g.dtype(),
          "; needs the same shape and dtype, or an undefined tensor");
    g = replaced;
  }
  return g;
}

// Checks the dtype of a gradient that a vjp returned for input i, and sums it to the shape of the
// input.
Tensor fit(const Op& op, std::size_t i, Tensor g, const Node& input) {
  check<DTypeError>(can_mix(g.dtype(), input.dtype()), op, "its vjp returned a gradient of ",
                    g.dtype(), " for input ", i, ", needs ", input.dtype());
  if (g.shape() == input.shape()) return g;
  check(op.spec.broadcasts, op, "its vjp returned a gradient of shape ", g.shape(), " for input ",
        i, ", needs ", input.shape());
  return sum_to(g, input.shape());
}

// Adds g to x in place, unless the write would change another value. The write changes no other
// value if x has one handle, is the only tensor on its storage, has no graph and no stride 0.
// Returns true if g was added.
bool add_in_place(const Tensor& x, const Tensor& g) {
  const bool is_private =
      x.layout().repeated_axis() < 0 && !x.requires_grad() && TensorAccess::is_sole_owner(x);
  if (is_private) add_(x, g);
  return is_private;
}

// Adds g to the sum, in place if possible. The addition is not in place if there is an observer,
// which must see the addition as an op, and with create_graph, because the addition must then be a
// node of the graph. The result does not depend on which of the two tensors is overwritten, because
// a + b and b + a have the same bits.
void accumulate(Tensor& sum, Tensor g) {
  const bool in_place = sum.defined() && !OpObserver::exists() && !grad_enabled() &&
                        sum.dtype() == g.dtype() && is_real(g.dtype());
  if (in_place && add_in_place(sum, g)) return;
  if (!sum.defined() || (in_place && add_in_place(g, sum)))
    sum = std::move(g);
  else
    sum = sum + g;
}

// Visits the nodes. Calls keep(node, gradient) with each node and its complete gradient.
template <class Keep>
void walk(Visits& visits, const GradOptions& options, Keep keep) {
  const GradMode mode(options.create_graph);
  PoolVector<Tensor*> sums;  // for each input; null if its gradient is not needed
  for (auto& [sequence, visit] : visits) {
    if (!visit.sum.defined()) continue;
    Node& node = *visit.node;
    const Tensor g = run_hooks(node, std::move(visit.sum));
    keep(node, g);
    if (!node.op()) continue;
    check_alive(node);  // a backward pass inside a hook may have freed the graph
    const auto inputs = node.inputs();
    sums.clear();
    for (const Node::Input& input : inputs) sums.push_back(sum_of(visits, input.node.get()));
    if (std::all_of(sums.begin(), sums.end(), [](const Tensor* sum) { return !sum; })) continue;
    const Vjp vjp(node, g, sums);
    const VjpScope scope(node);
    Grads grads = node.vjp(vjp);
    if (OpObserver::exists()) detail::notify_observer(node, vjp, grads);
    check(grads.size() == inputs.size(), *node.op(), "its vjp returned ", grads.size(),
          " gradients for ", inputs.size(), " inputs; it must return one per input, {} for none");
    for (std::size_t i = 0; i < grads.size(); ++i)
      if (sums[i] && grads[i].defined())
        accumulate(*sums[i], fit(*node.op(), i, std::move(grads[i]), *inputs[i].node));
    if (!options.retain_graph && !options.create_graph) node.release();
  }
}

// Returns g in the form in which .grad stores it: row-major, in memory that no other tensor shares.
// A write into .grad then changes no other gradient. Copies g if necessary. The copy is
// differentiable if recording is enabled.
Tensor owned(const Tensor& g) {
  if (g.is_contiguous() && TensorAccess::is_sole_owner(g)) return g;
  return grad_enabled() ? g * 1.0 : detached_copy(g);
}

Tensor first_gradient(std::string_view op, const Tensor& y, const GradOptions& options) {
  check<ValueError>(
      y.requires_grad(), op, "the tensor of shape ", y.shape(),
      " does not depend on a tensor that requires grad: it is constant, detached, computed under "
      "NoGrad, or a gradient computed without create_graph = true");
  const Tensor& g = options.grad_output;
  if (!g.defined()) {
    check(y.numel() == 1, op, "a tensor of shape ", y.shape(),
          " needs .grad_output of that shape; only a tensor of one element may omit it");
    return ones_like(y);
  }
  check(g.shape() == y.shape(), op, "needs a grad_output of the tensor's shape ", y.shape(),
        ", got ", g.shape());
  check<DTypeError>(can_mix(g.dtype(), y.dtype()), op, "needs a grad_output of the tensor's dtype ",
                    y.dtype(), ", got ", g.dtype());
  return g;
}

}  // namespace

std::vector<Tensor> grad(const Tensor& y, std::span<const Tensor> wrt, const GradOptions& options) {
  const Tensor start = first_gradient("grad", y, options);
  const Ref<Node>& root = TensorAccess::node(y);
  std::uint64_t oldest = root->sequence();
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    check<ValueError>(wrt[i].requires_grad(), "grad", "tensor ", i, " of wrt, ", wrt[i].shape(),
                      ", does not require grad; call requires_grad_() on it before you compute the "
                      "result");
    oldest = std::min(oldest, TensorAccess::node(wrt[i])->sequence());
  }
  Visits visits = discover(root, oldest);
  keep_paths_to(visits, wrt);
  if (Tensor* sum = sum_of(visits, root.get())) *sum = start;
  std::vector<Tensor> result(wrt.size());
  walk(visits, options, [&](const Node& node, const Tensor& g) {
    for (std::size_t i = 0; i < wrt.size(); ++i)
      if (TensorAccess::node(wrt[i]).get() == &node) result[i] = g;
  });
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    if (result[i].defined()) continue;
    check<ValueError>(options.allow_unused, "grad", "the result does not depend on tensor ", i,
                      " of wrt, ", wrt[i].shape(),
                      "; allow_unused = true returns gradient 0 for it");
    result[i] = zeros_like(wrt[i]);
  }
  return result;
}

std::vector<Tensor> grad(const Tensor& y, std::initializer_list<Tensor> wrt,
                         const GradOptions& options) {
  return grad(y, std::span(wrt.begin(), wrt.size()), options);
}

Tensor grad(const Tensor& y, const Tensor& wrt, const GradOptions& options) {
  return grad(y, Args(&wrt, 1), options)[0];
}

void backward(const Tensor& loss, const GradOptions& options) {
  const Tensor start = first_gradient("backward", loss, options);
  Visits visits = discover(TensorAccess::node(loss), 0);
  visits.begin()->second.sum = start;
  walk(visits, options, [](Node& node, const Tensor& g) {
    if (node.op() && !(node.has_extras() && node.extras().retain)) return;
    Node::Extras& extras = node.extras();
    const std::lock_guard lock(extras.mutex);  // threads add to the .grad of weights they share
    const Unobserved guard;  // an observer may run a backward pass, which would need the mutex
    if (extras.grad.defined())
      accumulate(extras.grad, g);
    else
      extras.grad = owned(g);
  });
}

// Differentiates the definition, which consists of public ops, by a walk of its own.
Grads through_definition(const DifferentiableFunction& definition, const Vjp& v) {
  const bool create_graph = grad_enabled();
  const GradMode recording(true);
  std::vector<Tensor> inputs, wrt;
  for (int i = 0; i < v.size(); ++i) {
    Tensor x = v.input(i);
    if (v.needs(i)) {
      // The walk over the definition ends at the new tensor x. With create_graph, x stays connected
      // to the input.
      x = create_graph ? expand(x, x.shape()) : x.detach().requires_grad_();
      wrt.push_back(x);
    }
    inputs.push_back(x);
  }
  const std::vector<Tensor> found =
      grad(definition(inputs), wrt,
           {.grad_output = v.grad, .create_graph = create_graph, .allow_unused = true});
  Grads grads(inputs.size());
  for (int i = 0, next = 0; i < v.size(); ++i)
    if (v.needs(i)) grads[std::size_t(i)] = found[std::size_t(next++)];
  return grads;
}

}  // namespace heed::autograd
