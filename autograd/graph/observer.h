// Who looks at every op that runs, and what part of a model it runs for. Where nobody looks an op
// pays one test of a pointer.
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

/// While it lives, sees every op of its thread, and every vjp that the engine runs. Its own ops
/// are not seen. Observers do not nest: the last one made sees.
class OpObserver {
 public:
  OpObserver();
  virtual ~OpObserver();
  OpObserver(const OpObserver&) = delete;

  /// An op has computed `output`, and recorded it if it was to.
  virtual void saw(const Op& op, const Inputs& inputs, const Tensor& output) = 0;
  /// The engine runs the vjp of a node, given the complete gradient of its output: ops seen until
  /// after_vjp are parts of it, or add up what it gave. Such calls nest.
  virtual void before_vjp(Node&, const Tensor&) {}
  /// What the vjp gave.
  virtual void saw_gradients(Node&, const Tensor&, const Grads&) {}
  virtual void after_vjp() {}

 private:
  OpObserver* before_;
};

/// The thread's observer of one vjp, for the engine.
class ObservedVjp {
 public:
  ObservedVjp(Node& node, const Tensor& g);
  ~ObservedVjp();
  ObservedVjp(const ObservedVjp&) = delete;
  /// Whether anybody looks.
  explicit operator bool() const { return observer_ != nullptr; }
  void gave(const Grads& grads) const;

 private:
  OpObserver* observer_;
  Node& node_;
  const Tensor& grad_;
};

}  // namespace heed::autograd
