// Umbrella header of the library heed::autograd: includes every public header. The first comment of
// each header states its purpose.
#pragma once

// clang-format off
#include "autograd/base/dtype.h"              // element types
#include "autograd/base/error.h"              // exception types
#include "autograd/base/parallel.h"           // number of threads, parallel_for
#include "autograd/base/shape.h"              // shapes, strides, broadcasting
#include "autograd/check/check_vjp.h"         // gradient checks for functions outside heed
#include "autograd/check/gradcheck.h"         // gradient checks
#include "autograd/engine/engine.h"           // grad, backward, jvp, hvp, jacobian
#include "autograd/graph/check_registry.h"    // registry of gradient checks and their samples
#include "autograd/graph/first_non_finite.h"  // finds the op that produced the first NaN or inf
#include "autograd/graph/graph.h"             // record(), for defining new ops
#include "autograd/graph/inplace.h"           // in-place writes
#include "autograd/graph/observer.h"          // observers that are called after each op
#include "autograd/ops/elementwise.h"         // elementwise(), for defining elementwise ops
#include "autograd/ops/mask.h"                // masks and score biases for attention
#include "autograd/ops/ops.h"                 // all ops
#include "autograd/tensor/create.h"           // tensors from constants, data and random numbers
#include "autograd/tensor/random.h"           // random numbers that equal PyTorch's
#include "autograd/tensor/tensor.h"           // the class Tensor
// clang-format on

/// Reverse-mode autodiff, multi-head attention, and the program that uses them.
namespace heed {}
/// The library heed::autograd: tensors, ops, derivatives and gradient checks.
namespace heed::autograd {}
