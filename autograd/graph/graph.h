// The graph: nodes that remember how a tensor was computed, and record(), the only way out of an
// op. What walks the graph is engine.h.
//
// An op is one function. It checks shapes, runs a kernel, and ends in
//   return record(kOp, {inputs}, output, [captures](const Vjp& v) -> Grads { ... });
// where the vjp calls public ops only: gradients of gradients then hold by construction.
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

/// One gradient per input, in order; undefined = none. Made from a list in braces, or from a
/// std::vector<Tensor>.
struct Grads : std::vector<Tensor, PoolAllocator<Tensor>> {
  using vector::vector;
  Grads(std::vector<Tensor> list)  // NOLINT: a vjp may return the vector itself
      : vector(std::make_move_iterator(list.begin()), std::make_move_iterator(list.end())) {}
};

/// Tensors that an op's vjp reads, and that its node keeps alive for it.
enum class Saves : std::uint8_t { kNothing, kInputs, kOutput, kBoth };

struct OpSpec {
  std::string_view name;
  Saves saves = Saves::kBoth;
  /// The vjp may return gradients of the output's shape: the engine sums them to the input's.
  bool broadcasts = false;
  /// Puts a value it is given into its output (masked_fill's -inf): an infinity there is meant.
  bool fills = false;
  SampleFn samples;  ///< required: an op without samples does not compile
  std::vector<NoSize> no_sizes = {};
};

/// A differentiable op's descriptor: a namespace-scope constant beside its function. It must
/// outlive what it recorded; its samples leave the list of checks with it.
class Op {
 public:
  Op(OpSpec spec)  // NOLINT: reads as const Op kExp({...})
      : spec_(std::move(spec)), check_(spec_.name, spec_.samples, spec_.no_sizes) {}
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;
  std::string_view name() const { return spec_.name; }
  operator std::string_view() const { return spec_.name; }  // NOLINT: for check(cond, kOp, ...)
  Saves saves() const { return spec_.saves; }
  bool broadcasts() const { return spec_.broadcasts; }
  bool fills() const { return spec_.fills; }

 private:
  OpSpec spec_;
  Check check_;
};

/// True if ops on this thread record.
bool grad_enabled();
/// Sets grad_enabled() for a scope, per thread, exception-safe.
class GradMode {
 public:
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;

 private:
  bool before_;
};
/// No op in this scope records.
struct NoGrad : GradMode {
  NoGrad() : GradMode(false) {}
};

/// Non-owning list of an op's inputs: {x, w}, or a span. Undefined tensors are allowed.
class Inputs {
 public:
  Inputs(std::initializer_list<std::reference_wrapper<const Tensor>> list) : size_(list.size()) {
    refs_ = list.begin();  // the list outlives the call to record() that it is written in
  }
  Inputs(Args list) : tensors_(list.data()), size_(list.size()) {}  // NOLINT
  std::size_t size() const { return size_; }
  const Tensor& operator[](std::size_t i) const { return refs_ ? refs_[i].get() : tensors_[i]; }

 private:
  const std::reference_wrapper<const Tensor>* refs_ = nullptr;
  const Tensor* tensors_ = nullptr;
  std::size_t size_ = 0;
};

/// A tensor that a vjp captures besides its inputs (a mask, an index), with the version it had:
/// changed in place since, it is an error and not a wrong gradient.
class Captured {
 public:
  Captured(const Op& op, const Tensor& x) : op_(&op), tensor_(x), version_(x.version()) {}
  const Tensor& get() const;

 private:
  const Op* op_;
  Tensor tensor_;
  std::uint32_t version_;
};

class Node;

/// Argument of a vjp.
class Vjp {
 public:
  /// `wanted`: 1 for each input of the node whose gradient the backward pass needs, else 0.
  Vjp(Node& node, const Tensor& g, std::span<const std::uint8_t> wanted)
      : grad(g), node_(node), wanted_(wanted) {}
  const Tensor& grad;  ///< dL/d(output), of the output's shape
  /// Input i as it was; throws if the op does not save inputs, or if it was changed in place.
  const Tensor& input(int i) const;
  /// The op's result; throws if the op does not save it, or if it was changed in place.
  Tensor output() const;
  /// True if the backward pass needs input i's gradient. A vjp may leave out the others.
  bool needs(int i) const { return wanted_[std::size_t(i)] != 0; }

 private:
  Node& node_;
  std::span<const std::uint8_t> wanted_;
};

/// Record of how one tensor was computed, or (op() == nullptr) of a leaf that requires grad.
class Node {
 public:
  struct Input {
    Tensor value;    ///< kept if the op saves inputs
    Ref<Node> node;  ///< null: no gradient flows there
    std::uint32_t version = 0;
  };
  /// State only some nodes have: .grad, hooks.
  struct Extras {
    Tensor grad;
    bool retain = false;
    std::uint64_t next_hook = 0;
    std::vector<std::pair<std::uint64_t, std::function<Tensor(const Tensor&)>>> hooks;
  };

  std::atomic<std::uint32_t> refs{0};

  Node(const Op* op, const Tensor& tensor, std::size_t allocated);
  virtual ~Node();
  /// Drops nodes one after the other, never recursively.
  static void destroy(Node* node);
  static Ref<Node> make_leaf(const Tensor& x);

  const Op* op() const { return op_; }
  std::uint64_t sequence() const { return sequence_; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  std::span<Input> inputs() { return {inputs_, n_inputs_}; }
  bool has_extras() const { return extras_.load(std::memory_order_acquire) != nullptr; }
  Extras& extras();

  /// One vector-Jacobian product, made of public ops or, for a fused op, of its backward kernel.
  virtual Grads vjp(const Vjp& v) = 0;
  /// Computes a fused op from public ops. Of other ops the result is undefined.
  virtual Tensor definition(Args) { return {}; }
  virtual bool is_fused() const { return false; }
  /// Drops saved values and edges; a later backward through this node is an error.
  void release();
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
  Tensor output_;                         // without history: no cycle
  std::atomic<Extras*> extras_{nullptr};  // threads look at the weights they share
  std::size_t allocated_;
  Node* next_dead_ = nullptr;
};

class OpObserver;  // observer.h
namespace detail {
extern thread_local OpObserver* t_observer;  // null: there is none
void tell_observer(const Op& op, const Inputs& inputs, const Tensor& output);
}  // namespace detail

/// True if the output of an op on these inputs has to be recorded; else it is done.
bool must_record(const Op& op, const Inputs& inputs, const Tensor& output);
/// Fills a fresh node from the op's inputs and hangs it on the output.
void attach(Node* node, const Inputs& inputs, const Tensor& output, Node::Input* memory);

template <class F>
class VjpNode final : public Node {
 public:
  VjpNode(const Op& op, const Tensor& y, std::size_t allocated, F&& f)
      : Node(&op, y, allocated), f_(std::move(f)) {}
  Grads vjp(const Vjp& v) override { return f_(v); }

 private:
  F f_;
};

template <class Definition, class Backward>
class FusedNode final : public Node {
 public:
  FusedNode(const Op& op, const Tensor& y, std::size_t allocated, Definition&& d, Backward&& b)
      : Node(&op, y, allocated), definition_(std::move(d)), backward_(std::move(b)) {}
  Grads vjp(const Vjp& v) override { return backward_(v); }
  Tensor definition(Args inputs) override { return definition_(inputs); }
  bool is_fused() const override { return true; }

 private:
  Definition definition_;
  Backward backward_;
};

namespace detail {
template <class N, class... Parts>
Tensor record_as(const Op& op, const Inputs& inputs, Tensor output, Parts&&... parts) {
  // The node and its input list share one block of the pool.
  static_assert(sizeof(N) % alignof(Node::Input) == 0);
  const std::size_t bytes = sizeof(N) + inputs.size() * sizeof(Node::Input);
  auto* memory = static_cast<std::byte*>(pool_allocate(bytes));
  auto* node = new (memory) N(op, output, bytes, std::forward<Parts>(parts)...);
  attach(node, inputs, output, reinterpret_cast<Node::Input*>(memory + sizeof(N)));
  return output;
}
}  // namespace detail

/// Ends an op: returns `output`, with a node when an input needs a gradient and recording is on.
/// `vjp(const Vjp&) -> Grads` calls public ops only.
template <class F>
Tensor record(const Op& op, const Inputs& inputs, Tensor output, F vjp) {
  if (!must_record(op, inputs, output)) return output;
  return detail::record_as<VjpNode<F>>(op, inputs, std::move(output), std::move(vjp));
}

/// Ends a fused op. `definition(Args) -> Tensor` computes the same from public ops; a backward that
/// must itself be differentiable runs the engine over it. Any other runs `backward(const Vjp&) ->
/// Grads`, made of kernels.
template <class Definition, class Backward>
Tensor record(const Op& op, const Inputs& inputs, Tensor output, Definition definition,
              Backward backward) {
  if (!must_record(op, inputs, output)) return output;
  return detail::record_as<FusedNode<Definition, Backward>>(
      op, inputs, std::move(output), std::move(definition), std::move(backward));
}

}  // namespace heed::autograd
