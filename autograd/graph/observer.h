// Observers of every op on a thread, and names of the module that an op runs for. Without an
// observer, an op pays one test of a pointer.
#pragma once

#include <string>
#include <string_view>

#include "autograd/graph/graph.h"

namespace heed::autograd {

/// Names a part of the computation on this thread during its lifetime, for example "blocks.1".
/// Scopes nest.
class NameScope {
 public:
  /// Enters the scope. `name` must outlive it.
  explicit NameScope(std::string_view name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  /// Returns the names of all open scopes, outermost first, as in "blocks.1.attn"; "" if none.
  static std::string path();

 private:
  std::string_view name_;
  const NameScope* outer_;
};

/// Base class of observers. During its lifetime, it is called for every op on its thread and for
/// every vjp that the engine runs there. It is not called for ops that it runs itself. Only the
/// observer that was created last is called; the one before it resumes when that one is destroyed.
class OpObserver {
 public:
  OpObserver();
  virtual ~OpObserver();
  OpObserver(const OpObserver&) = delete;

  /// Receives an op with its inputs and its output. If the output is tracked, it is already
  /// recorded.
  virtual void saw(const Op&, const Inputs&, const Tensor&) {}
  /// Called before the engine runs the vjp of a node, with the complete gradient of the node's
  /// output. Ops reported until after_vjp() belong to this vjp or add its gradients to others. Such
  /// calls nest.
  virtual void before_vjp(Node&, const Tensor&) {}
  /// Receives the gradients that the vjp returned, and may change them before the engine uses them.
  /// Ops that it runs are recorded if the ops of the vjp are (create_graph).
  virtual void saw_gradients(Node&, const Vjp&, Grads&) {}
  /// Called after the gradients of a vjp have been added to those of the inputs.
  virtual void after_vjp() {}

 private:
  OpObserver* before_;
};

/// Calls the thread's observer, if there is one, around one vjp. The engine uses it.
class ObservedVjp {
 public:
  /// Calls before_vjp().
  ObservedVjp(Node& node, const Vjp& v);
  ~ObservedVjp();
  ObservedVjp(const ObservedVjp&) = delete;
  /// Returns true if there is an observer.
  explicit operator bool() const { return observer_ != nullptr; }
  /// Calls saw_gradients() with the gradients that the vjp returned.
  void report(Grads& grads) const;

 private:
  OpObserver* observer_;
  Node& node_;
  const Vjp& vjp_;
};

}  // namespace heed::autograd
