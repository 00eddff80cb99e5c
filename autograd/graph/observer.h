// Observers, which are called for every op on a thread, and NameScope, which names the module for
// which an op runs. Without an observer, an op only tests one pointer.
#pragma once

#include <string>
#include <string_view>

#include "autograd/graph/graph.h"

namespace heed::autograd {

class OpObserver;
namespace detail {
extern thread_local OpObserver* t_observer;  // null if no observer exists
void notify_observer(const Op& op, const Inputs& inputs, const Tensor& output);
void notify_observer(Node& node, const Vjp& v, Grads& grads);
}  // namespace detail

/// Gives a name, for example "blocks.1", to the computation on this thread until the end of the
/// scope. Scopes nest.
class NameScope {
 public:
  /// Enters the scope. `name` must outlive this object.
  explicit NameScope(std::string_view name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  /// Returns the names of all open scopes, outermost first and joined by dots, such as
  /// "blocks.1.attn". Returns "" if no scope is open.
  static std::string path();

 private:
  std::string_view name_;
  const NameScope* outer_;
};

/// Base class of observers. From its construction to its destruction, an observer is called for
/// every op on its thread, and for every vjp that the engine runs on this thread. It is not called
/// for ops that it runs itself, nor for the addition of a gradient to Tensor::grad(). If a thread
/// has several observers, only the newest one is called.
class OpObserver {
 public:
  OpObserver();
  virtual ~OpObserver();
  OpObserver(const OpObserver&) = delete;
  /// Returns true if this thread has an observer.
  static bool exists() { return detail::t_observer != nullptr; }

  /// Receives an op with its inputs and its output. If the op is recorded, the output already has
  /// its node.
  virtual void saw(const Op&, const Inputs&, const Tensor&) {}
  /// Receives the gradients that the vjp of a node returned, and may change them before the engine
  /// uses them. Ops that this function runs are recorded if the backward pass runs with
  /// create_graph = true.
  virtual void saw_gradients(Node&, const Vjp&, Grads&) {}

 private:
  OpObserver* before_;
};

/// Suspends the observer of this thread until the end of the scope, for example while one of its
/// functions runs, because this function may run ops.
class Unobserved {
 public:
  Unobserved();
  ~Unobserved();
  Unobserved(const Unobserved&) = delete;

 private:
  OpObserver* observer_;
};

/// Scope of one vjp on this thread, for observers. The engine enters the scope before it runs the
/// vjp of a node, and leaves it after it has added the gradients to those of the inputs. Scopes
/// nest, because a vjp can run a backward pass of its own.
class VjpScope {
 public:
  /// Enters the scope of the vjp of a node.
  explicit VjpScope(const Node& node);
  ~VjpScope();
  VjpScope(const VjpScope&) = delete;
  /// Returns the node of the innermost scope, or null if no vjp runs.
  static const Node* current();

 private:
  const Node* outer_;
};

}  // namespace heed::autograd
