// The graph: nodes that record how a tensor was computed, and record(), which every op calls to
// return its output. The engine (engine.h) walks the graph.
//
// To make an op, write one function that checks shapes, runs a kernel and ends in record():
//   Tensor square(const Tensor& x) {
//     const Tensor y = elementwise(kSquare, x, [](auto v) { return v * v; });
//     return record(kSquare, {x}, y, [](const Vjp& v) -> Grads {
//       return {v.grad * v.input(0) * 2.0};
//     });
//   }
// The vjp (vector-Jacobian product) turns the gradient of the output into gradients of the inputs.
// It calls only public ops, so gradients of gradients are correct by construction.
// examples/own_op.cpp is a complete example.
#pragma once

#include <functional>
#include <initializer_list>
#include <iterator>
#include <mutex>
#include <string>
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

/// The tensors that the vjp of an op reads. The node keeps them alive until the backward pass. For
/// example, the vjp of exp reads its output, that of matmul its inputs, and that of add nothing.
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
  Op(OpSpec s)  // NOLINT: used as const Op kExp({...})
      : spec(std::move(s)), check_(spec.name, spec.samples, spec.no_sizes) {}
  Op(const Op&) = delete;
  const OpSpec spec;  ///< the properties
  /// Returns OpSpec::name.
  std::string_view name() const { return spec.name; }
  /// Returns OpSpec::name, so that an Op can be passed to check() and fail().
  operator std::string_view() const { return spec.name; }  // NOLINT: for check(cond, kOp, ...)
  /// Returns true if a node of the op saves the inputs.
  bool saves_inputs() const { return spec.saves == Saves::kInputs || spec.saves == Saves::kBoth; }
  /// Returns true if a node of the op saves the output.
  bool saves_output() const { return spec.saves == Saves::kOutput || spec.saves == Saves::kBoth; }

 private:
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

/// Tensor that a vjp captures in addition to the op's inputs. For example, masked_fill(x, mask, 0)
/// captures the mask, because it is not an input that gets a gradient. A Captured stores the
/// version of the tensor, so that a later in-place write is an error instead of a wrong gradient. A
/// node stores the versions of the tensors that it saves (Saves) for the same reason.
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
  /// Called by the engine. `sums` has one pointer for each input: to the sum to which the engine
  /// adds the gradient of the input, or null if the backward pass does not need this gradient.
  Vjp(Node& node, const Tensor& g, std::span<Tensor* const> sums)
      : grad(g), node_(node), sums_(sums) {}
  const Tensor& grad;  ///< gradient with respect to the output; has the output's shape
  /// Returns input i. Throws ValueError if i is out of range, if the op does not save its inputs
  /// (OpSpec::saves), or if the input was changed in place.
  const Tensor& input(int i) const;
  /// Returns the output. Throws ValueError if the op does not save its output, or if the output was
  /// changed in place.
  Tensor output() const;
  /// Returns true if the backward pass needs the gradient of input i. A vjp may return an undefined
  /// tensor for an input whose gradient is not needed.
  bool needs(int i) const { return sums_[std::size_t(i)] != nullptr; }
  /// Returns the number of inputs.
  int size() const { return int(sums_.size()); }
  /// Returns true if the backward kernel of a fused op may compute the gradients: nothing will
  /// differentiate them, and all numbers are float32 or float64.
  bool allows_kernel() const;

 private:
  Node& node_;
  std::span<Tensor* const> sums_;
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
  /// State that only few nodes need, such as the .grad of a weight or the hooks of a tensor.
  struct Extras {
    std::mutex mutex;             ///< locked while a backward pass adds to `grad`
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

  const Op* op() const { return op_; }  ///< Returns the op, or null for a leaf.
  /// Returns the number of the node. A node that is created later has a larger number.
  std::uint64_t sequence() const { return sequence_; }
  const Shape& shape() const { return shape_; }               ///< Returns the shape of the tensor.
  DType dtype() const { return dtype_; }                      ///< Returns the dtype of the tensor.
  std::span<Input> inputs() { return {inputs_, n_inputs_}; }  ///< Returns the edges to the inputs.
  /// Returns true if extras() was called before.
  bool has_extras() const { return extras_.load(std::memory_order_acquire) != nullptr; }
  /// Returns the extras. Creates them if they do not exist. Several threads may call it.
  Extras& extras();

  /// Calls the vjp that was given to record() and returns its gradients of the inputs. For a leaf,
  /// returns an empty list.
  virtual Grads vjp(const Vjp&) { return {}; }
  /// Drops saved values and edges. A later backward pass through this node is an error.
  void release();
  /// Returns true if the saved values and edges were dropped.
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

/// Ends an op: returns `output`. If an input needs a gradient and recording is enabled, `output`
/// gets a node with the given vjp. `vjp` is a function Grads(const Vjp&) that calls only public
/// ops; fused ops use the second form. `output` may be an input, as in gradient reversal: then the
/// result is a view of it.
template <class F>
Tensor record(const Op& op, const Inputs& inputs, Tensor output, F vjp);

/// Ends a fused op, like record() above. `definition` is a function Tensor(Args) that computes the
/// output from public ops. `backward` is a function Grads(const Vjp&) that runs kernels. The vjp
/// calls `backward` if Vjp::allows_kernel(). Otherwise it differentiates `definition`, so a fused
/// op needs no second derivative of its own.
template <class Definition, class Backward>
Tensor record(const Op& op, const Inputs& inputs, Tensor output, Definition definition,
              Backward backward);

/// Returns a drawing of the graph of y in the language of Graphviz (`dot -Tsvg`). The box of a node
/// has the op, dtype and shape, and the name of the tensor if `names` contains it. Arrows lead from
/// the inputs to their op. If a tensor has at most six elements, its box also has the values
/// and the gradient, as far as the graph keeps them. To draw gradients, call backward() with
/// retain_graph = true before, because backward() frees the graph otherwise. Throws ValueError if y
/// has no graph, or if the graph was freed.
std::string to_dot(const Tensor& y, const std::vector<std::pair<std::string, Tensor>>& names = {});

}  // namespace heed::autograd

#include "autograd/graph/record-inl.h"
