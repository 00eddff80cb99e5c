// The graph: nodes that record how a tensor was computed, and record(), which every op calls to
// return its output. The engine (engine.h) walks the graph.
//
// To make an op, write one function that checks shapes, runs a kernel and ends in
//   return record(kOp, {inputs}, output, [captures](const Vjp& v) -> Grads { ... });
// The vjp (vector-Jacobian product) turns the gradient of the output into gradients of the inputs.
// It calls only public ops, so gradients of gradients are correct by construction.
// examples/own_op.cpp is a complete example.
#pragma once

#include <functional>
#include <initializer_list>
#include <iterator>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/graph/check_registry.h"
#include "autograd/tensor/tensor.h"

namespace heed::autograd {

/// Gradients that a vjp returns: one for each input, in the order of the inputs. An undefined
/// tensor means that the input gets no gradient.
struct Grads : std::vector<Tensor, PoolAllocator<Tensor>> {
  using vector::vector;
  /// Takes the gradients from a std::vector<Tensor>.
  Grads(std::vector<Tensor> list)  // NOLINT: implicit, because a vjp may return a std::vector
      : vector(std::make_move_iterator(list.begin()), std::make_move_iterator(list.end())) {}
};

/// The tensors that the vjp of an op reads. The node keeps them alive until the backward pass.
enum class Saves : std::uint8_t {
  kNothing,  ///< the vjp reads neither inputs nor output
  kInputs,   ///< Vjp::input() is available
  kOutput,   ///< Vjp::output() is available
  kBoth,     ///< Vjp::input() and Vjp::output() are available
};

/// Properties of an op.
struct OpSpec {
  std::string_view name;       ///< name in errors, in reports and in the registry of checks
  Saves saves = Saves::kBoth;  ///< the tensors that the vjp reads
  /// If true, the vjp may return a gradient that has the output's shape. The engine then sums it
  /// over the broadcast axes to the input's shape.
  bool broadcasts = false;
  /// If true, the op writes a value that it is given into its output, for example masked_fill with
  /// -inf. FirstNonFinite does not report such an infinity.
  bool fills = false;
  /// Samples for the gradient check. Required: an op without samples does not compile.
  SampleFn samples;
  std::vector<NoSize> no_sizes = {};  ///< sizes at which the op is not checked
};

/// Descriptor of a differentiable op: a constant at namespace scope beside the op's function. It
/// must outlive all nodes of the op. While it exists, the op is in the registry of checks.
class Op {
 public:
  /// Adds the op to the registry of checks.
  Op(OpSpec spec)  // NOLINT: used as const Op kExp({...})
      : spec_(std::move(spec)), check_(spec_.name, spec_.samples, spec_.no_sizes) {}
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;
  /// Returns OpSpec::name.
  std::string_view name() const { return spec_.name; }
  /// Returns OpSpec::name, so that an Op can be passed to check() and fail().
  operator std::string_view() const { return spec_.name; }  // NOLINT: for check(cond, kOp, ...)
  Saves saves() const { return spec_.saves; }               ///< Returns OpSpec::saves.
  bool broadcasts() const { return spec_.broadcasts; }      ///< Returns OpSpec::broadcasts.
  bool fills() const { return spec_.fills; }                ///< Returns OpSpec::fills.

 private:
  OpSpec spec_;
  Check check_;
};

/// Returns true if ops on this thread are recorded.
bool grad_enabled();
/// Sets grad_enabled() on this thread until the end of the scope.
class GradMode {
 public:
  /// Sets the mode until this object is destroyed.
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;

 private:
  bool before_;
};
/// Disables recording on this thread until the end of the scope.
struct NoGrad : GradMode {
  NoGrad() : GradMode(false) {}
};

/// Non-owning list of the inputs of an op. Undefined tensors are allowed.
class Inputs {
 public:
  /// Refers to the tensors of a braced list, as in record(kOp, {x, w}, ...). The list is valid only
  /// during that call.
  Inputs(std::initializer_list<std::reference_wrapper<const Tensor>> list) : size_(list.size()) {
    refs_ = list.begin();
  }
  /// Refers to a span of tensors.
  Inputs(Args list) : tensors_(list.data()), size_(list.size()) {}  // NOLINT: implicit on purpose
  std::size_t size() const { return size_; }  ///< Returns the number of inputs.
  /// Returns input i.
  const Tensor& operator[](std::size_t i) const { return refs_ ? refs_[i].get() : tensors_[i]; }

 private:
  const std::reference_wrapper<const Tensor>* refs_ = nullptr;
  const Tensor* tensors_ = nullptr;
  std::size_t size_ = 0;
};

/// Tensor that a vjp captures in addition to the op's inputs, such as a mask or an index. It stores
/// the version of the tensor, so that a later in-place write is an error instead of a wrong
/// gradient.
class Captured {
 public:
  /// Captures x for a vjp of `op`.
  Captured(const Op& op, const Tensor& x) : op_(&op), tensor_(x), version_(x.version()) {}
  /// Returns the tensor. Throws ValueError if it was changed in place after it was captured.
  const Tensor& get() const;

 private:
  const Op* op_;
  Tensor tensor_;
  std::uint32_t version_;
};

class Node;

/// Argument of a vjp: the gradient of the output, and access to the tensors that the node saved.
class Vjp {
 public:
  /// Called by the engine. `wanted` has one number for each input: 1 if the backward pass needs the
  /// gradient of the input, otherwise 0.
  Vjp(Node& node, const Tensor& g, std::span<const std::uint8_t> wanted)
      : grad(g), node_(node), wanted_(wanted) {}
  const Tensor& grad;  ///< gradient with respect to the output; has the output's shape
  /// Returns input i. Throws ValueError if i is out of range, if the op does not save its inputs
  /// (OpSpec::saves), or if the input was changed in place.
  const Tensor& input(int i) const;
  /// Returns the output. Throws ValueError if the op does not save its output, or if the output was
  /// changed in place.
  Tensor output() const;
  /// Returns true if the backward pass needs the gradient of input i. A vjp may return an undefined
  /// tensor for an input whose gradient is not needed.
  bool needs(int i) const { return wanted_[std::size_t(i)] != 0; }

 private:
  Node& node_;
  std::span<const std::uint8_t> wanted_;
};

/// Record of how one tensor was computed. A leaf that requires grad has a node without an op.
class Node {
 public:
  /// Edge to one input of the op.
  struct Input {
    Tensor value;               ///< the input, if the op saves its inputs
    Ref<Node> node;             ///< node of the input; null if the input needs no gradient
    std::uint32_t version = 0;  ///< version of the input when it was saved
  };
  /// State that only few nodes need.
  struct Extras {
    Tensor grad;                  ///< the gradient that Tensor::grad() returns
    bool retain = false;          ///< true after Tensor::retain_grad()
    std::uint64_t next_hook = 0;  ///< id of the next hook
    /// Hooks with their ids, in order of registration.
    std::vector<std::pair<std::uint64_t, std::function<Tensor(const Tensor&)>>> hooks;
  };

  std::atomic<std::uint32_t> refs{0};  ///< number of references, for Ref

  /// Creates the node of `tensor`. `allocated` is the size in bytes of the node's memory block.
  Node(const Op* op, const Tensor& tensor, std::size_t allocated);
  virtual ~Node();
  /// Destroys the node, and then every node that has no other reference left. Does not recurse.
  static void destroy(Node* node);
  /// Creates the node of a leaf that requires grad.
  static Ref<Node> make_leaf(const Tensor& x);

  const Op* op() const { return op_; }  ///< Returns the op, or null for a leaf.
  /// Returns the number of the node. A node that is created later has a larger number.
  std::uint64_t sequence() const { return sequence_; }
  const Shape& shape() const { return shape_; }               ///< Returns the shape of the tensor.
  DType dtype() const { return dtype_; }                      ///< Returns the dtype of the tensor.
  std::span<Input> inputs() { return {inputs_, n_inputs_}; }  ///< Returns the edges to the inputs.
  /// Returns true if extras() was called before.
  bool has_extras() const { return extras_.load(std::memory_order_acquire) != nullptr; }
  /// Returns the extras. Creates them if they do not exist.
  Extras& extras();

  /// Computes the vector-Jacobian product. Calls public ops or, for a fused op, its backward
  /// kernel.
  virtual Grads vjp(const Vjp& v) = 0;
  /// Computes a fused op from public ops. Returns an undefined tensor for other ops.
  virtual Tensor definition(Args) { return {}; }
  /// Returns true for a fused op.
  virtual bool is_fused() const { return false; }
  /// Drops saved values and edges. A later backward pass through this node is an error.
  void release();
  /// Returns true after release().
  bool released() const { return released_; }

 private:
  friend class Vjp;
  friend void attach(Node*, const Inputs&, const Tensor&, Input*);
  const Op* op_;
  const std::uint64_t sequence_;
  Shape shape_;
  DType dtype_;
  bool released_ = false;
  std::uint32_t n_inputs_ = 0;
  std::uint32_t output_version_ = 0;
  Input* inputs_ = nullptr;
  Tensor output_;  // detached, because a reference to this node would form a cycle
  std::atomic<Extras*> extras_{nullptr};  // atomic, because threads share the nodes of weights
  std::size_t allocated_;
  Node* next_dead_ = nullptr;
};

class OpObserver;  // observer.h
namespace detail {
extern thread_local OpObserver* t_observer;  // null if no observer exists
void notify_observer(const Op& op, const Inputs& inputs, const Tensor& output);
}  // namespace detail

/// Returns true if record() has to create a node, which means that recording is enabled and an
/// input needs a gradient. Otherwise notifies the observer and returns false. If `output` is an
/// input or has a node, first replaces it by a view, so that the node of the op is not the node of
/// another tensor.
bool must_record(const Op& op, const Inputs& inputs, Tensor& output);
/// Fills a new node from the inputs of the op, sets it as the node of `output`, and notifies the
/// observer. The list of inputs is created at the address `memory`.
void attach(Node* node, const Inputs& inputs, const Tensor& output, Node::Input* memory);

/// Node of an op with a vjp.
template <class F>
class VjpNode final : public Node {
 public:
  /// Creates the node; `f` is the vjp.
  VjpNode(const Op& op, const Tensor& y, std::size_t allocated, F&& f)
      : Node(&op, y, allocated), f_(std::move(f)) {}
  Grads vjp(const Vjp& v) override { return f_(v); }

 private:
  F f_;
};

/// Node of a fused op.
template <class Definition, class Backward>
class FusedNode final : public Node {
 public:
  /// Creates the node from the definition and the backward function of the op.
  FusedNode(const Op& op, const Tensor& y, std::size_t allocated, Definition&& d, Backward&& b)
      : Node(&op, y, allocated), definition_(std::move(d)), backward_(std::move(b)) {}
  Grads vjp(const Vjp& v) override { return backward_(v); }
  Tensor definition(Args inputs) override { return definition_(inputs); }
  bool is_fused() const override { return true; }  ///< Returns true.

 private:
  Definition definition_;
  Backward backward_;
};

namespace detail {
template <class N, class... Parts>
Tensor record_as(const Op& op, const Inputs& inputs, Tensor output, Parts&&... parts) {
  // The node and its list of inputs are in one block of the pool.
  static_assert(sizeof(N) % alignof(Node::Input) == 0);
  const std::size_t bytes = sizeof(N) + inputs.size() * sizeof(Node::Input);
  auto* memory = static_cast<std::byte*>(pool_allocate(bytes));
  auto* node = new (memory) N(op, output, bytes, std::forward<Parts>(parts)...);
  attach(node, inputs, output, reinterpret_cast<Node::Input*>(memory + sizeof(N)));
  return output;
}
}  // namespace detail

/// Ends an op: returns `output`. If an input needs a gradient and recording is enabled, `output`
/// gets a node with the given vjp. `vjp` is a function Grads(const Vjp&) that calls only public
/// ops. `output` may be an input, as in gradient reversal: then the result is a view of it.
template <class F>
Tensor record(const Op& op, const Inputs& inputs, Tensor output, F vjp) {
  if (!must_record(op, inputs, output)) return output;
  return detail::record_as<VjpNode<F>>(op, inputs, std::move(output), std::move(vjp));
}

/// Ends a fused op, like record() above. `definition` is a function Tensor(Args) that computes the
/// output from public ops. `backward` is a function Grads(const Vjp&) that runs kernels. If a
/// backward pass must itself be differentiable, or if it runs on dual numbers, the engine
/// differentiates `definition`. Otherwise it calls `backward`.
template <class Definition, class Backward>
Tensor record(const Op& op, const Inputs& inputs, Tensor output, Definition definition,
              Backward backward) {
  if (!must_record(op, inputs, output)) return output;
  return detail::record_as<FusedNode<Definition, Backward>>(
      op, inputs, std::move(output), std::move(definition), std::move(backward));
}

}  // namespace heed::autograd
