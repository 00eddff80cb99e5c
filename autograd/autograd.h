// All of autograd that a user calls, in reading order. Each header opens with what it is for.
#pragma once

// clang-format off: the order is the reader's
#include "autograd/base/dtype.h"              // element types
#include "autograd/base/error.h"              // errors and their texts
#include "autograd/base/parallel.h"           // threads
#include "autograd/base/shape.h"              // shapes, strides, broadcasting
#include "autograd/check/check_vjp.h"         // gradient checks of code that is not heed's
#include "autograd/check/gradcheck.h"         // gradient checks
#include "autograd/engine/engine.h"           // grad, backward, jvp, hvp, jacobian
#include "autograd/graph/check_registry.h"    // the list of checks and what they are run on
#include "autograd/graph/first_non_finite.h"  // where a NaN comes from
#include "autograd/graph/gradient_trace.h"    // why a tensor gets no gradient
#include "autograd/graph/graph.h"             // record(): how an op of your own is made
#include "autograd/graph/inplace.h"           // writing into tensors
#include "autograd/graph/observer.h"          // observers of every op, and names for its place
#include "autograd/ops/elementwise.h"         // elementwise(): loops of an op of your own
#include "autograd/ops/mask.h"                // masks and biases of attention
#include "autograd/ops/ops.h"                 // every op
#include "autograd/tensor/create.h"           // tensors from constants, data and random numbers
#include "autograd/tensor/random.h"           // PyTorch's random stream
#include "autograd/tensor/tensor.h"           // the tensor
// clang-format on

/// heed: reverse-mode autodiff, multi-head attention, and the program built on them.
namespace heed {}
/// The library heed::autograd: tensors, ops, derivatives and gradient checks.
namespace heed::autograd {}
