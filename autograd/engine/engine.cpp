// The engine. A walk finds every node that y depends on and visits the nodes from the latest to the
// oldest. It passes each node its complete gradient once, and adds the gradients that the node's
// vjp returns to the gradients of the node's inputs. No function of the walk is recursive.
#include "autograd/engine/engine.h"

#include <algorithm>
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

void check_alive(const Node& node) {
  if (node.released())
    fail<ValueError>(
        "backward", "the graph behind ", node.op()->name(), " ", node.shape(),
        " was freed by an earlier backward pass (or by one that ended with an error); pass "
        "retain_graph = true to that call, or compute the result again");
}

// The nodes of one walk. The position of a node in visits_ is stored in this class and not in the
// node, because several walks may visit the same node: threads walk graphs that share leaves, and a
// hook or the definition of a fused op starts a walk inside a walk.
class Walk {
 public:
  struct Visit {
    Ref<Node> node;
    bool needed = true;
    Tensor grad = {};
  };

  // Finds all nodes that `root` depends on and whose sequence number is at least `oldest`. Sorts
  // these nodes, latest first.
  void discover(const Ref<Node>& root, std::uint64_t oldest) {
    visits_.reserve(16);
    make_table(64);
    add(root);
    for (std::size_t next = 0; next < visits_.size(); ++next) {
      Node& node = *visits_[next].node;
      check_alive(node);
      for (const Node::Input& input : node.inputs())
        if (input.node && input.node->sequence() >= oldest) add(input.node);
    }
    std::sort(visits_.begin(), visits_.end(), [](const Visit& a, const Visit& b) {
      return a.node->sequence() > b.node->sequence();
    });
    make_table(table_.size());
  }

  // Returns null if the walk does not reach the node.
  Visit* find(const Node* node) {
    if (!node) return nullptr;
    const int place = entry(node);
    return place < 0 ? nullptr : &visits_[std::size_t(place)];
  }

  // Marks as needed only the nodes that depend on a tensor of `wrt`. Visits the nodes from the
  // oldest to the latest, because a node is needed if one of its inputs is needed.
  void keep_paths_to(std::span<const Tensor> wrt) {
    for (Visit& v : visits_) v.needed = false;
    for (const Tensor& x : wrt)
      if (Visit* v = find(TensorAccess::node(x).get())) v->needed = true;
    for (std::size_t i = visits_.size(); i-- > 0;)
      for (const Node::Input& input : visits_[i].node->inputs())
        if (const Visit* v = find(input.node.get()); v && v->needed) visits_[i].needed = true;
  }

  PoolVector<Visit>& visits() { return visits_; }

 private:
  // Looks up a node in the hash table (open addressing). Returns the entry that has the position of
  // the node in visits_. If there is none, returns the free entry (-1) where it must be stored. The
  // table is never full, so the search ends.
  int& entry(const Node* node) {
    const std::size_t mask = table_.size() - 1;
    const std::uint64_t hash = (reinterpret_cast<std::uintptr_t>(node) >> 6) * 0x9E3779B97F4A7C15u;
    for (std::size_t i = std::size_t(hash >> 32) & mask;; i = (i + 1) & mask)
      if (table_[i] < 0 || visits_[std::size_t(table_[i])].node.get() == node) return table_[i];
  }

  // Rebuilds the table with `size` entries, a power of two.
  void make_table(std::size_t size) {
    table_.assign(size, -1);
    for (std::size_t i = 0; i < visits_.size(); ++i) entry(visits_[i].node.get()) = int(i);
  }

  void add(const Ref<Node>& node) {
    int& place = entry(node.get());
    if (place >= 0) return;
    place = int(visits_.size());
    visits_.push_back({node});
    if (2 * visits_.size() > table_.size()) make_table(2 * table_.size());
  }

  PoolVector<Visit> visits_;
  PoolVector<int> table_;
};

// Returns g in the form in which .grad stores it: row-major, in memory that no other tensor shares.
// A write into .grad then changes no other gradient. Copies g if necessary. The copy is
// differentiable if recording is enabled.
Tensor owned(const Tensor& g) {
  if (g.is_contiguous() && TensorAccess::is_sole_owner(g)) return g;
  return grad_enabled() ? g * 1.0 : detached_copy(g);
}

// Returns true if a write into x changes no other value: x has one handle, is the only tensor on
// its storage and has no stride 0.
bool is_private(const Tensor& x) {
  return x.layout().repeated_axis() < 0 && TensorAccess::is_sole_owner(x);
}

// Returns sum + g. If no observer is active, and if no other tensor shares the memory of `sum` or
// that of `g`, the function adds in place. The result does not depend on which of the two tensors
// is overwritten, because a + b and b + a have the same bits.
Tensor add_up(const Tensor& sum, const Tensor& g, bool observed) {
  if (!sum.defined()) return g;
  if (!observed && !grad_enabled() && sum.dtype() == g.dtype() && !is_dual(g.dtype())) {
    if (is_private(sum)) return add_(sum, g), sum;
    if (is_private(g)) return add_(g, sum), g;
  }
  return sum + g;
}

// Checks the dtype of a gradient that a vjp returned for input i, and sums it to the shape of the
// input.
Tensor fit(const Op& op, std::size_t i, Tensor g, const Node& input) {
  const bool lifted = is_dual(g.dtype()) || is_dual(input.dtype());  // true inside jvp()
  check<DTypeError>(g.dtype() == input.dtype() || lifted, op, "its vjp returned a gradient of ",
                    g.dtype(), " for input ", i, ", needs ", input.dtype());
  if (g.shape() == input.shape()) return g;
  check(op.broadcasts(), op, "its vjp returned a gradient of shape ", g.shape(), " for input ", i,
        ", needs ", input.shape());
  return sum_to(g, input.shape());
}

// Returns the gradients of a fused op by a walk over its definition, which consists of public ops.
Grads through_definition(Node& node, const Vjp& v, bool create_graph) {
  const int n = int(node.inputs().size());
  std::vector<Tensor> inputs, wrt;
  const GradMode recording(true);
  for (int i = 0; i < n; ++i) {
    Tensor x = v.input(i);
    if (v.needs(i)) {
      // The walk over the definition ends at the new tensor x. With create_graph, x stays connected
      // to the input.
      x = create_graph ? expand(x, x.shape()) : x.detach().requires_grad_();
      wrt.push_back(x);
    }
    inputs.push_back(x);
  }
  const Tensor y = node.definition(inputs);
  const std::vector<Tensor> found =
      grad(y, wrt, {.grad_output = v.grad, .create_graph = create_graph, .allow_unused = true});
  Grads grads(static_cast<std::size_t>(n));
  for (int i = 0, next = 0; i < n; ++i)
    if (v.needs(i)) grads[std::size_t(i)] = found[std::size_t(next++)];
  return grads;
}

Grads run_vjp(Node& node, const Vjp& v, bool create_graph) {
  if (node.is_fused() && (create_graph || is_dual(v.grad.dtype()) || is_dual(node.dtype())))
    return through_definition(node, v, create_graph);
  return node.vjp(v);
}

// Runs the vjps of the nodes in order. Calls keep(node, gradient) with each node and its complete
// gradient.
template <class Keep>
void run(Walk& walk, const GradOptions& options, Keep keep) {
  const GradMode mode(options.create_graph);
  const bool retain = options.retain_graph || options.create_graph;
  auto& visits = walk.visits();
  PoolVector<Walk::Visit*> targets;  // per input of the node; null if its gradient is not needed
  PoolVector<std::uint8_t> wanted;
  for (std::size_t i = 0; i < visits.size(); ++i) {
    if (!visits[i].needed || !visits[i].grad.defined()) continue;
    const Ref<Node> node = visits[i].node;
    Tensor g = std::move(visits[i].grad);
    if (node->has_extras()) {
      const auto hooks = node->extras().hooks;  // a copy: a hook may remove itself
      for (const auto& [id, hook] : hooks) {
        const Tensor replaced = hook(g);
        if (!replaced.defined()) continue;
        check(replaced.shape() == g.shape() && replaced.dtype() == g.dtype(), "hook", "returned ",
              replaced.shape(), " ", replaced.dtype(), " for a gradient of ", g.shape(), " ",
              g.dtype());
        g = replaced;
      }
    }
    keep(*node, g);
    if (!node->op()) continue;
    check_alive(*node);  // a backward pass inside a hook may have freed the graph
    const auto inputs = node->inputs();
    targets.clear(), wanted.clear();
    for (const Node::Input& input : inputs) {
      Walk::Visit* v = walk.find(input.node.get());
      targets.push_back(v && v->needed ? v : nullptr);
      wanted.push_back(targets.back() != nullptr);
    }
    if (std::find(wanted.begin(), wanted.end(), 1) == wanted.end()) continue;
    const Vjp vjp(*node, g, wanted);
    const ObservedVjp observed(*node, vjp);
    Grads grads = run_vjp(*node, vjp, options.create_graph);
    observed.report(grads);
    check(grads.size() == inputs.size(), *node->op(), "its vjp returned ", grads.size(),
          " gradients for ", inputs.size(), " inputs; it must return one per input, {} for none");
    for (std::size_t k = 0; k < grads.size(); ++k) {
      Walk::Visit* v = targets[k];
      if (!v || !grads[k].defined()) continue;
      v->grad = add_up(v->grad, fit(*node->op(), k, std::move(grads[k]), *v->node), bool(observed));
    }
    if (!retain) node->release();
  }
}

Tensor first_gradient(std::string_view op, const Tensor& y, const GradOptions& options) {
  check<ValueError>(
      y.requires_grad(), op, "the tensor of shape ", y.shape(),
      " does not depend on a tensor that requires grad: it is constant, detached, computed under "
      "NoGrad, or a gradient computed without create_graph = true");
  if (!options.grad_output.defined()) {
    check(y.numel() == 1, op, "a tensor of shape ", y.shape(),
          " needs .grad_output of that shape; only a tensor of one element may omit it");
    return ones_like(y);
  }
  check(options.grad_output.shape() == y.shape(), op, "grad_output has shape ",
        options.grad_output.shape(), ", the tensor has shape ", y.shape());
  check<DTypeError>(options.grad_output.dtype() == y.dtype() || is_dual(y.dtype()) ||
                        is_dual(options.grad_output.dtype()),
                    op, "grad_output is ", options.grad_output.dtype(), ", the tensor is ",
                    y.dtype());
  return options.grad_output;
}

}  // namespace

std::vector<Tensor> grad(const Tensor& y, std::span<const Tensor> wrt, const GradOptions& options) {
  const Tensor start = first_gradient("grad", y, options);
  std::uint64_t oldest = TensorAccess::node(y)->sequence();
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    check<ValueError>(wrt[i].requires_grad(), "grad", "tensor ", i, " of wrt, ", wrt[i].shape(),
                      ", does not require grad");
    oldest = std::min(oldest, TensorAccess::node(wrt[i])->sequence());
  }
  Walk walk;
  walk.discover(TensorAccess::node(y), oldest);
  walk.keep_paths_to(wrt);
  std::vector<Tensor> result(wrt.size());
  if (Walk::Visit& root = *walk.find(TensorAccess::node(y).get()); root.needed) root.grad = start;
  run(walk, options, [&](const Node& node, const Tensor& g) {
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
  Walk walk;
  walk.discover(TensorAccess::node(loss), 0);
  walk.find(TensorAccess::node(loss).get())->grad = start;
  run(walk, options, [](Node& node, const Tensor& g) {
    if (node.op() && !(node.has_extras() && node.extras().retain)) return;
    static std::mutex mutex;  // threads add to the .grad of weights that they share
    const std::lock_guard lock(mutex);
    const Unobserved guard;  // an observer may run a backward pass, which would need the mutex
    Tensor& sum = node.extras().grad;
    sum = sum.defined() ? sum + g : owned(g);
  });
}

JvpResult jvp(const DifferentiableFunction& f, Args inputs, Args tangents) {
  check(inputs.size() == tangents.size(), "jvp", "needs a tangent per input, got ", tangents.size(),
        " for ", inputs.size());
  std::vector<Tensor> duals;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check<DTypeError>(inputs[i].dtype() == float64 && tangents[i].dtype() == float64, "jvp",
                      "needs float64 inputs and tangents, got ", inputs[i].dtype(), " and ",
                      tangents[i].dtype());
    check(inputs[i].shape() == tangents[i].shape(), "jvp", "input ", i, " has shape ",
          inputs[i].shape(), ", its tangent has shape ", tangents[i].shape());
    const auto x = inputs[i].to_vector<double>(), t = tangents[i].to_vector<double>();
    std::vector<Dual> both;
    for (std::size_t k = 0; k < x.size(); ++k) both.emplace_back(x[k], t[k]);
    duals.push_back(from_data(both, inputs[i].shape()));
  }
  const GradMode recording(true);  // enabled, because f may call grad()
  const Tensor y = f(duals);
  JvpResult result{empty(y.shape(), float64), zeros(y.shape(), float64)};
  if (y.dtype() == float64) {  // f does not depend on its inputs
    result.value = y.detach();
    return result;
  }
  check<DTypeError>(y.dtype() == dual64, "jvp", "f must return float64, returned ", y.dtype());
  const auto both = y.to_vector<Dual>();
  for (std::size_t k = 0; k < both.size(); ++k) {
    result.value.mutable_data<double>()[k] = both[k].value;
    result.tangent.mutable_data<double>()[k] = both[k].tangent;
  }
  return result;
}

namespace {

std::vector<Tensor> as_leaves(Args inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : inputs) leaves.push_back(x.detach().requires_grad_());
  return leaves;
}

DifferentiableFunction of_one(const std::function<Tensor(const Tensor&)>& f) {
  return [&f](Args t) { return f(t[0]); };
}

}  // namespace

std::vector<Tensor> hvp(const DifferentiableFunction& f, Args inputs, Args v) {
  check(inputs.size() == v.size(), "hvp", "needs a v per input, got ", v.size(), " for ",
        inputs.size());
  for (std::size_t i = 0; i < v.size(); ++i)
    check(v[i].shape() == inputs[i].shape(), "hvp", "needs v of x's shape ", inputs[i].shape(),
          ", got ", v[i].shape());
  const GradMode recording(true);
  const std::vector<Tensor> leaves = as_leaves(inputs);
  const auto first = grad(f(leaves), leaves, {.create_graph = true, .allow_unused = true});
  Tensor along;  // sum of the inner products <gradient, v>; constant gradients are omitted
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (!first[i].requires_grad()) continue;
    const Tensor term = sum(first[i] * v[i]);
    along = along.defined() ? along + term : term;
  }
  if (along.defined()) return grad(along, leaves, {.allow_unused = true});
  std::vector<Tensor> zero;  // all gradients of f are constant, so its Hessian is 0
  for (const Tensor& x : inputs) zero.push_back(zeros_like(x));
  return zero;
}

Tensor hvp(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, const Tensor& v) {
  return hvp(of_one(f), Args(&x, 1), Args(&v, 1))[0];
}

// Let J be the Jacobian of y with respect to x. g = J^T u is linear in u, so the gradient of <g,
// direction> with respect to u is J times `direction`.
Tensor jvp(const Tensor& y, const Tensor& x, const Tensor& direction) {
  const Tensor u = zeros(y.shape(), y.dtype()).requires_grad_();
  const Tensor g = grad(y, x, {.grad_output = u, .create_graph = true});
  return grad(g, u, {.grad_output = direction, .allow_unused = true}).detach();
}

std::vector<Tensor> jacobian(const DifferentiableFunction& f, Args inputs) {
  const GradMode recording(true);
  const std::vector<Tensor> leaves = as_leaves(inputs);
  const Tensor y = f(leaves);
  const bool constant = !y.requires_grad();
  // rows[k]: gradients with respect to input k, one per element of y.
  std::vector<std::vector<Tensor>> rows(inputs.size());
  for (std::int64_t i = 0; i < y.numel() && !constant; ++i) {
    std::vector<double> unit(std::size_t(y.numel()), 0.0);
    unit[std::size_t(i)] = 1;
    const Tensor e = to(from_data(unit, y.shape()), y.dtype());
    const auto row =
        grad(y, leaves, {.grad_output = e, .retain_graph = true, .allow_unused = true});
    for (std::size_t k = 0; k < row.size(); ++k) rows[k].push_back(row[k]);
  }
  std::vector<Tensor> result;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const Shape shape = y.shape().joined(inputs[k].shape());
    result.push_back(rows[k].empty() ? zeros(shape, inputs[k].dtype())
                                     : reshape(stack(rows[k], 0), shape));
  }
  return result;
}

Tensor jacobian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  return jacobian(of_one(f), Args(&x, 1))[0];
}

}  // namespace heed::autograd
