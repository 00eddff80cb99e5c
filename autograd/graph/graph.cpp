#include "autograd/graph/graph.h"

#include <algorithm>
#include <memory>

#include "autograd/graph/observer.h"
#include "autograd/tensor/tensor_access.h"

namespace heed::autograd {

using detail::TensorAccess;

namespace {

thread_local bool t_grad_enabled = true;

// Returns a number that orders nodes by time of creation, across threads.
std::uint64_t next_sequence() {
  static std::atomic<std::uint64_t> counter{0};
  return counter.fetch_add(1, std::memory_order_relaxed);
}

void check_version(const Op& op, std::string_view what, int i, const Tensor& t,
                   std::uint32_t saved) {
  if (t.version() == saved) return;
  const std::string which = i >= 0 ? " " + std::to_string(i) : "";
  fail<ValueError>(op, what, which, " ", t.shape(), " ", t.dtype(), " was saved at version ", saved,
                   " and is now at version ", t.version(),
                   " (changed in place after use); change a copy");
}

}  // namespace

// t_observer is defined in this file, because must_record() tests it for every op. Here the
// compiler sees that t_observer needs no dynamic initialization, so the test is one load.
thread_local OpObserver* detail::t_observer = nullptr;

bool grad_enabled() { return t_grad_enabled; }
GradMode::GradMode(bool enabled) : before_(t_grad_enabled) { t_grad_enabled = enabled; }
GradMode::~GradMode() { t_grad_enabled = before_; }

const Tensor& Captured::get() const {
  check_version(*op_, "mask or index", -1, tensor_, version_);
  return tensor_;
}

const Tensor& Vjp::input(int i) const {
  check<ValueError>(i >= 0 && std::uint32_t(i) < node_.n_inputs_, *node_.op_,
                    "its vjp reads input ", i, "; the op has ", node_.n_inputs_, " inputs");
  const Node::Input& input = node_.inputs_[i];
  if (input.value.defined())
    check_version(*node_.op_, "input", i, input.value, input.version);
  else
    check<ValueError>(node_.op_->saves_inputs(), *node_.op_, "its vjp reads input ", i,
                      ", which the op does not save; set OpSpec::saves");
  return input.value;
}

Tensor Vjp::output() const {
  const Tensor& y = node_.output_;
  check<ValueError>(y.defined(), *node_.op_,
                    "its vjp reads the output, which the op does not save; set OpSpec::saves");
  check_version(*node_.op_, "output", -1, y, node_.output_version_);
  if (!grad_enabled()) return y;
  // The vjp itself is recorded, so the output needs its node again.
  Tensor attached = TensorAccess::view(y, y.layout());
  TensorAccess::set_node(attached, Ref<Node>(&node_));
  return attached;
}

bool Vjp::allows_kernel() const {
  return !grad_enabled() && is_real(grad.dtype()) && is_real(node_.dtype_);
}

Node::Node(const Op* op, const Tensor& tensor, std::size_t allocated)
    : op_(op),
      sequence_(next_sequence()),
      shape_(tensor.shape()),
      dtype_(tensor.dtype()),
      allocated_(allocated) {}

Node::~Node() {
  for (Input& input : inputs()) input.~Input();
  delete extras_.load(std::memory_order_relaxed);
}

void Node::destroy(Node* node) {
  // If a node is destroyed, the last reference to another node can disappear, and so on for a
  // million nodes. The list `pending` avoids the recursion.
  thread_local Node* pending = nullptr;
  thread_local bool draining = false;
  node->next_dead_ = pending;
  pending = node;
  if (draining) return;
  draining = true;
  while (pending) {
    Node* dead = pending;
    pending = dead->next_dead_;
    const std::size_t bytes = dead->allocated_;
    dead->~Node();
    pool_free(dead, bytes);
  }
  draining = false;
}

Node::Extras& Node::extras() {
  Extras* found = extras_.load(std::memory_order_acquire);
  if (found) return *found;
  auto created = std::make_unique<Extras>();
  // If another thread has created them meanwhile, `found` becomes a pointer to those.
  return extras_.compare_exchange_strong(found, created.get(), std::memory_order_acq_rel)
             ? *created.release()
             : *found;
}

void Node::release() {
  released_ = true;
  output_ = Tensor();
  for (Input& input : inputs()) input = Input();
}

bool must_record(const Op& op, const Inputs& inputs, Tensor& output) {
  bool needed = false, taken = output.requires_grad();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    needed |= bool(TensorAccess::node(inputs[i]));
    taken |= inputs[i].is_same(output);
  }
  if (taken) [[unlikely]]
    output = TensorAccess::view(output, output.layout());
  if (needed && t_grad_enabled) return true;
  if (detail::t_observer) [[unlikely]]
    detail::notify_observer(op, inputs, output);
  return false;
}

void attach(Node* node, const Inputs& inputs, const Tensor& output, Node::Input* memory) {
  const Ref<Node> owner(node);  // frees the node if a statement below throws
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& x = inputs[i];
    auto* input = new (memory + i) Node::Input;
    node->inputs_ = memory;
    node->n_inputs_ = std::uint32_t(i + 1);
    if (!x.defined()) continue;
    input->node = TensorAccess::node(x);
    if (!node->op_->saves_inputs()) continue;
    input->value = x;
    input->version = x.version();
  }
  if (node->op_->saves_output()) {
    node->output_ = TensorAccess::view(output, output.layout());
    node->output_version_ = output.version();
  }
  TensorAccess::set_node(output, owner);
  if (detail::t_observer) [[unlikely]]
    detail::notify_observer(*node->op_, inputs, output);
}

}  // namespace heed::autograd
