// Observes every op on a thread, and names the part of a model that it runs for. Without an
// observer an op pays one test of a pointer.
#pragma once

#include <string>
#include <string_view>

#include "autograd/graph/graph.h"

namespace heed::autograd {

/// Names the part of a computation that its life spans on this thread: "blocks.1". Scopes nest.
class NameScope {
 public:
  /// `name` must outlive the scope.
  explicit NameScope(std::string_view name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  /// The names of all scopes, outermost first: "blocks.1.attn"; "" outside of any.
  static std::string path();

 private:
  std::string_view name_;
  const NameScope* outer_;
};

/// Is called, while it lives, for every op of its thread and for every vjp that the engine runs,
/// but not for the ops that it runs itself. Observers do not nest: only the last one made is
/// called.
class OpObserver {
 public:
  OpObserver();
  virtual ~OpObserver();
  OpObserver(const OpObserver&) = delete;

  /// Receives the inputs and the output of an op, which is recorded by then if it is tracked.
  virtual void saw(const Op&, const Inputs&, const Tensor&) {}
  /// The engine runs the vjp of a node, given the complete gradient of its output: ops seen until
  /// after_vjp are parts of it, or add up what it gave. Such calls nest.
  virtual void before_vjp(Node&, const Tensor&) {}
  /// Receives what the vjp returned, and may change it before the engine uses it. Ops that it runs
  /// are recorded if those of the vjp are (create_graph).
  virtual void saw_gradients(Node&, const Vjp&, Grads&) {}
  virtual void after_vjp() {}

 private:
  OpObserver* before_;
};

/// The thread's observer of one vjp, for the engine.
class ObservedVjp {
 public:
  ObservedVjp(Node& node, const Vjp& v);
  ~ObservedVjp();
  ObservedVjp(const ObservedVjp&) = delete;
  /// True if there is an observer.
  explicit operator bool() const { return observer_ != nullptr; }
  void gave(Grads& grads) const;

 private:
  OpObserver* observer_;
  Node& node_;
  const Vjp& vjp_;
};

}  // namespace heed::autograd
