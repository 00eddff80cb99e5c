// All ops of heed on one page. Names and meanings follow PyTorch.
//
// These rules hold for every op, unless its comment states something else:
// - Dtypes: each operand is float32 or float64, and all operands have the same dtype. There is no
//   type promotion. A `double` operand is converted to the dtype of the other operand. The result
//   has the dtype of the operands. Any other dtype and any mix of dtypes throws DTypeError.
// - Gradients: the op is differentiable, and its gradient is differentiable again. Results of dtype
//   int64 or bool8 have no gradient.
// - Axes: a negative axis is counted from the end, so -1 is the last axis. An axis out of range
//   throws ShapeError. A result with more than 8 axes throws ShapeError, too.
// - Broadcasting: shapes are aligned at their last axes. An axis that is missing or has size 1 is
//   repeated (NumPy's rule). Shapes that do not fit throw ShapeError.
// - Memory: operands may have any strides, including 0 and negative strides. No op changes an
//   operand.
// - Errors: the message contains the name of the op and the shapes, dtypes or values of its
//   arguments.
//
// In the shapes below, [..., m, n] stands for any number of leading axes, possibly 0, followed by
// an axis of size m and an axis of size n.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/ops/mask.h"
#include "autograd/tensor/create.h"
#include "autograd/tensor/tensor.h"

namespace heed::autograd {

// ---- elementwise, two operands (ops/elementwise/arithmetic.cpp)

///@{
/// Returns a + b, a - b, a * b or a / b, elementwise. The result has the broadcast shape. `+`, `-`
/// and `*` also accept int64 and wrap around on overflow. `/` throws DTypeError for int64. If one
/// operand is an int64 tensor and the other is a `double`, the `double` must be a whole number in
/// the range of int64, else DTypeError is thrown.
Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator+(const Tensor& a, double b);
Tensor operator+(double a, const Tensor& b);
Tensor operator-(const Tensor& a, double b);
Tensor operator-(double a, const Tensor& b);
Tensor operator*(const Tensor& a, double b);
Tensor operator*(double a, const Tensor& b);
Tensor operator/(const Tensor& a, double b);
Tensor operator/(double a, const Tensor& b);
///@}
/// Returns -x, elementwise, with x's shape.
Tensor operator-(const Tensor& x);
///@{
/// Returns the larger (smaller) of a and b, elementwise, with the broadcast shape. If a or b is
/// NaN, the result is NaN, and the gradient is passed to the operand that is NaN. If a and b are
/// equal or both are NaN, each receives half of the gradient. int64 is also accepted.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
///@}

// ---- elementwise, one operand; the result has x's shape (ops/elementwise/unary.cpp,
//      ops/elementwise/activations.cpp)

/// Returns x raised to a constant power.
Tensor pow(const Tensor& x, double exponent);
Tensor exp(const Tensor& x);      ///< Returns e raised to x.
Tensor log(const Tensor& x);      ///< Returns the natural logarithm: -inf if x is 0, NaN if x < 0.
Tensor sqrt(const Tensor& x);     ///< Returns the square root: NaN if x < 0.
Tensor rsqrt(const Tensor& x);    ///< Returns 1 / sqrt(x).
Tensor tanh(const Tensor& x);     ///< Returns the hyperbolic tangent.
Tensor sigmoid(const Tensor& x);  ///< Returns 1 / (1 + exp(-x)), without overflow.
/// Returns the absolute value. The gradient at 0 is 0.
Tensor abs(const Tensor& x);
/// Limits x to [low, high]. The gradient is 1 if low <= x <= high, else 0, also for NaN. Throws
/// ValueError unless low <= high.
Tensor clamp(const Tensor& x, double low, double high);
/// Returns max(x, 0). The gradient at 0 is 0. The result for NaN is NaN.
Tensor relu(const Tensor& x);
/// Returns x * Phi(x), where Phi is the cumulative distribution function of the standard normal
/// distribution. This is the exact GELU (Hendrycks & Gimpel 2016).
Tensor gelu(const Tensor& x);
/// Returns 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). This is the approximation of GELU that
/// GPT-2 uses (Hendrycks & Gimpel 2016).
Tensor gelu_tanh(const Tensor& x);
/// Returns x * sigmoid(x) (Hendrycks & Gimpel 2016; also called Swish).
Tensor silu(const Tensor& x);
/// Converts x, which may have any dtype, to `dtype`. Returns x itself if x already has this dtype.
/// Conversions between float32 and float64 are differentiable. A conversion to int64 rounds toward
/// 0, and throws ValueError for a value outside the range of int64. A conversion to bool8 returns
/// true for every value except 0.
Tensor to(const Tensor& x, DType dtype);

// ---- comparisons and logic, bool8 results without a gradient (ops/elementwise/compare.cpp)

///@{
/// Compares a with b, elementwise. The functions eq, ne, lt, le, gt and ge compute ==, !=, <, <=, >
/// and >=. The result is bool8 with the broadcast shape. The operands may have any dtype, but must
/// have equal dtypes. A comparison with NaN is true for ne and false otherwise. If a is an int64
/// tensor and b is a `double`, b must be a whole number in the range of int64, else DTypeError is
/// thrown.
Tensor eq(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Tensor& b);
Tensor eq(const Tensor& a, double b);
Tensor ne(const Tensor& a, double b);
Tensor lt(const Tensor& a, double b);
Tensor le(const Tensor& a, double b);
Tensor gt(const Tensor& a, double b);
Tensor ge(const Tensor& a, double b);
///@}
/// Returns bool8 with x's shape: true where x is neither infinite nor NaN.
Tensor isfinite(const Tensor& x);
///@{
/// Returns the logical `and` (`or`) of two bool8 tensors, elementwise. The result is bool8 with the
/// broadcast shape. Throws DTypeError for other dtypes.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
///@}
/// Inverts a bool8 tensor elementwise; the result has x's shape. Throws DTypeError for other
/// dtypes.
Tensor logical_not(const Tensor& x);
/// Returns true if `|a - b| <= atol + rtol * |b|` for all elements. Equal infinities are close. A
/// NaN is never close to any value. Accepts any dtype. Throws ShapeError unless a and b have the
/// same shape.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8);
/// Throws ShapeError unless x has the given shape, as in expect_shape(q, {B, T, H, d}). Returns x.
const Tensor& expect_shape(const Tensor& x, const Shape& shape);

// ---- selection (ops/elementwise/where.cpp). These ops select elements and never multiply, so a
//      NaN or an infinity that is not selected changes neither the result nor the gradients of the
//      operands: an element that is not selected gets the gradient 0. The op that computed an
//      operand still multiplies this 0 by its own derivative, and 0 * NaN is NaN. So the gradient
//      of where(x > 0, sqrt(x), x) is NaN if x < 0, as in PyTorch. Select the input of the other op
//      first: sqrt(where(x > 0, x, 1)).

/// Returns the elements of a where `condition` is true, and those of b elsewhere. `condition`, a
/// and b broadcast to the shape of the result. `condition` is bool8. a and b may have any dtype,
/// but must have equal dtypes.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
/// Returns x with `value` in every place where `mask` is true. The result has x's shape. `mask` is
/// bool8. x may have any dtype; for int64 the fraction of `value` is dropped. Throws ShapeError
/// unless `mask` broadcasts to x's shape. Throws ValueError if x is int64 and `value` is outside
/// the range of int64.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);
///@{
/// Keeps the elements on and below (triu: on and above) a diagonal of the last two axes of x [...,
/// m, n], and replaces the others by 0. The diagonal is where column = row + `diagonal`. The result
/// has x's shape. x may have any dtype. Throws ShapeError if x has fewer than two axes.
Tensor tril(const Tensor& x, Index diagonal = 0);
Tensor triu(const Tensor& x, Index diagonal = 0);
///@}
/// Returns a mask, bool8 [rows, columns], that is true where column <= row + diagonal.
Tensor tril_mask(Index rows, Index columns, Index diagonal = 0);

// ---- reductions (ops/reduce.cpp). `axes` is the set of axes to reduce; an empty
//      set stands for all axes. The result does not have these axes, or has them with size 1 if
//      keepdim is true. An axis that appears twice in `axes` throws ShapeError.

/// Returns the sum. The sum of no elements is 0. Also accepts int64, and then wraps around on
/// overflow.
Tensor sum(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
/// Returns the arithmetic mean. The mean of no elements is NaN.
Tensor mean(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
/// Options of var().
struct VarOptions {
  /// The sum of the n squared deviations from the mean is divided by n - correction. The value 1
  /// gives the unbiased estimate (Bessel's correction), and 0 gives the variance of the population.
  int correction = 1;
  bool keepdim = false;  ///< true: the result has the reduced axes with size 1
};
/// Returns the variance. Throws ValueError unless the number of elements to reduce is above
/// `correction`.
Tensor var(const Tensor& x, const Dims& axes = {}, const VarOptions& options = {});
/// This overload is deleted, because `true` as the third argument could mean PyTorch's `unbiased`
/// or keepdim.
Tensor var(const Tensor& x, const Dims& axes, bool) = delete;
///@{
/// Returns the largest (smallest) element, as torch.amax and torch.amin do. If an element is NaN,
/// the result is NaN, and the gradient is passed to the elements that are NaN. If several elements
/// have the largest (smallest) value or are NaN, they share the gradient equally. Throws ShapeError
/// if the number of elements to reduce is 0.
Tensor max(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
Tensor min(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
///@}
/// Returns log(sum(exp(x))), computed without overflow. If all reduced elements are -inf, the
/// result is -inf with gradient 0.
Tensor logsumexp(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
/// Sums x over the axes that are repeated when `shape` is broadcast to x's shape. The result has
/// the given shape. The engine sums the gradients of broadcast operands with this function. Also
/// accepts int64. Throws ShapeError unless `shape` broadcasts to x's shape.
Tensor sum_to(const Tensor& x, const Shape& shape);

// ---- reductions without a gradient: the result is int64 or, for any and all, bool8
//      (ops/reduce.cpp). `axes` and keepdim have the same meaning as in the section above.

///@{
/// Returns bool8: true if any (all) of the reduced elements are true. For 0 elements, any() returns
/// false and all() returns true. Throws DTypeError unless x is bool8.
Tensor any(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
Tensor all(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
///@}
/// Returns, as int64, the index of the largest element along one axis. If several elements are
/// equally large, returns the smallest of their indices. The result does not have this axis, or has
/// it with size 1 if keepdim is true. Also accepts int64. A NaN counts as the largest value. Throws
/// ShapeError if the axis has size 0.
Tensor argmax(const Tensor& x, Index axis, bool keepdim = false);

// ---- softmax along one axis; the result has x's shape (ops/softmax.cpp)

/// Returns exp(x) / sum(exp(x)) along the axis, computed without overflow. If all elements along
/// the axis are -inf, the result is 0 with gradient 0.
Tensor softmax(const Tensor& x, Index axis);
/// Returns log(softmax(x, axis)), computed without overflow. If all elements along the axis are
/// -inf, the result is -inf with gradient 0.
Tensor log_softmax(const Tensor& x, Index axis);

// ---- products (ops/matmul.cpp, ops/einsum.cpp)

/// Returns the matrix product, as torch.matmul does: [..., m, k] x [..., k, n] -> [..., m, n]. The
/// leading axes broadcast. If a has one axis, it is used as a row; if b has one axis, it is used as
/// a column. The axis that this adds is removed from the result. Throws ShapeError if an operand
/// has rank 0 or if the two sizes k differ.
Tensor matmul(const Tensor& a, const Tensor& b);
/// Returns x W^T + bias of shape [..., out], where W is the weight. Shapes: x [..., in], weight
/// [out, in], bias [out] or undefined. The op is fused: the result, the gradient of x and the
/// gradient of the weight take one matrix product each. Throws ShapeError if the shapes do not fit.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
///@{
/// Returns the Einstein summation of the operands, for example "nqhd,nkhd->nhqk". The labels after
/// "->" are the axes of the result, in this order.
/// - If a term of the equation has two words or an underscore, all labels are names, as in "batch
///   pos d_model, head d_model d_head -> batch pos head d_head". Otherwise every letter is a label.
/// - The result is summed over the labels that are not in the output. A label may appear only once
///   in a term.
/// - If there is no "->", the output has the labels that appear once, in alphabetical order, as in
///   NumPy. This is allowed only for single letters.
/// - Axes with equal labels must have equal sizes; size 1 is not broadcast. Operands are contracted
///   from left to right.
///
/// Throws ValueError for an invalid equation (the message has a caret under the invalid place) and
/// for a wrong number of operands. Throws ShapeError if ranks or sizes do not fit the labels, or if
/// an intermediate result has more than 8 axes.
Tensor einsum(std::string_view equation, std::span<const Tensor> operands);
Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands);
///@}

// ---- views (ops/views.cpp). x may have any dtype. The result shares x's memory. Only reshape,
//      flatten and contiguous may copy; they copy if x's strides do not allow a view.

/// Returns a tensor of the given shape with the elements of x in row-major order. One size may be
/// -1; this size is computed from the others. Throws ShapeError unless the number of elements stays
/// the same.
Tensor reshape(const Tensor& x, const Shape& shape);
/// Reorders the axes: axis i of the result is axis axes[i] of x. Throws ShapeError unless `axes`
/// names each axis of x once.
Tensor permute(const Tensor& x, const Dims& axes);
/// Swaps two axes.
Tensor transpose(const Tensor& x, Index axis0, Index axis1);
/// Swaps the last two axes: [..., m, n] -> [..., n, m].
Tensor mT(const Tensor& x);
/// Broadcasts x to `shape` without a copy: repeated axes get stride 0. A size of -1 keeps x's size
/// on that axis. Throws ShapeError if x does not broadcast to `shape`.
Tensor expand(const Tensor& x, const Shape& shape);
/// Removes an axis of size 1. Throws ShapeError if the axis has another size.
Tensor squeeze(const Tensor& x, Index axis);
/// Inserts an axis of size 1, which becomes axis `axis` of the result. If `axis` is -1, the new
/// axis is the last one.
Tensor unsqueeze(const Tensor& x, Index axis);
/// Merges the axes `first` to `last`, including `last`. For example, first = 1 and last = 2 turn
/// shape [a, b, c, d] into [a, b*c, d]. A tensor of rank 0 becomes [1]. Throws ShapeError unless
/// first <= last.
Tensor flatten(const Tensor& x, Index first = 0, Index last = -1);
/// Returns the elements of one axis with the indices start, start + step, ... below `end`. This
/// axis gets size ceil((end - start) / step), or 0 if end <= start. The other axes do not change.
/// Negative bounds and bounds beyond the axis are handled as in Python. Throws ValueError if `step`
/// is below 1.
Tensor slice(const Tensor& x, Index axis, Index start, Index end, Index step = 1);
/// Returns the part of x at one index of an axis. The result does not have this axis. A negative
/// index is counted from the end. Throws ValueError if the index is out of range.
Tensor select(const Tensor& x, Index axis, Index index);
/// Reverses the order of the elements along one axis. The result has x's shape.
Tensor flip(const Tensor& x, Index axis);
/// Returns x itself if its elements are stored in row-major order without gaps. Otherwise returns a
/// copy that is stored in this way.
Tensor contiguous(const Tensor& x);

// ---- joining and splitting (ops/join.cpp). The tensors may have any dtype, but must have equal
//      dtypes. split and chunk return views.

///@{
/// Joins tensors along an axis. The size of this axis in the result is the sum of the tensors'
/// sizes on it. Throws ShapeError unless the tensors have equal sizes on all other axes. Throws
/// ValueError if xs is empty.
Tensor cat(std::span<const Tensor> xs, Index axis);
Tensor cat(std::initializer_list<Tensor> xs, Index axis);
///@}
///@{
/// Joins tensors of equal shape along a new axis of size xs.size(), which becomes axis `axis` of
/// the result. Throws ShapeError if their shapes differ, ValueError if xs is empty.
Tensor stack(std::span<const Tensor> xs, Index axis);
Tensor stack(std::initializer_list<Tensor> xs, Index axis);
///@}
/// Splits x along an axis into views of size `size` on this axis; the last view may be smaller. If
/// the axis has size 0, returns one empty view. Throws ValueError if size < 1.
std::vector<Tensor> split(const Tensor& x, Index size, Index axis);
/// Splits x along an axis of size s into at most n views of size ceil(s / n) on this axis; the last
/// view may be smaller (torch.chunk). If the axis has size 0, returns n empty views. Throws
/// ValueError if n < 1.
std::vector<Tensor> chunk(const Tensor& x, Index n, Index axis);

// ---- indexing (ops/index.cpp). Every index tensor is int64. An index that is negative or not
//      below the size of the axis throws ValueError; the message has the index and its place in the
//      index tensor. In gather, index_select and embedding, x and weight may have any dtype.
//      scatter_add and index_add also accept int64, and then wrap around on overflow.

/// Reads x at given indices along one axis. For axis 1 and rank 3, out[i][j][k] =
/// x[i][index[i][j][k]][k]. The result has the shape of index. Throws ShapeError unless index has
/// x's rank and, on every axis except `axis`, at most x's size.
Tensor gather(const Tensor& x, Index axis, const Tensor& index);
/// Returns x with src added at the places that gather(x, axis, index) reads. The result has x's
/// shape. If a place occurs several times, all its values are added. Throws ShapeError unless src
/// has the shape of index.
Tensor scatter_add(const Tensor& x, Index axis, const Tensor& index, const Tensor& src);
/// Returns the slices of x at the given indices of one axis, in the order of index. The result has
/// x's shape, except that this axis has as many elements as index. Throws ShapeError unless index
/// has rank 1.
Tensor index_select(const Tensor& x, Index axis, const Tensor& index);
/// Returns x with the slices of src added at the given indices of one axis. The result has x's
/// shape. If an index occurs several times, all its slices are added. Throws ShapeError unless src
/// has the shape of index_select(x, axis, index).
Tensor index_add(const Tensor& x, Index axis, const Tensor& index, const Tensor& src);
/// Returns the rows of the table `weight` [V, D] that `ids` selects. `ids` may have any shape
/// [...], and the result has shape [..., D]. If a row is selected several times, its gradients are
/// added. Throws ShapeError unless weight has rank 2.
Tensor embedding(const Tensor& weight, const Tensor& ids);

// ---- norms, losses, dropout and positions (ops/norm.cpp, ops/cross_entropy.cpp, ops/dropout.cpp,
//      ops/rope.cpp). layer_norm, rms_norm and cross_entropy run as fused kernels.

/// Normalizes x over its last axes, whose sizes are `normalized_shape`. Returns (x - mean) /
/// sqrt(var + eps) * weight + bias, where var is the variance without Bessel's correction (Ba et
/// al. 2016). The result has x's shape. weight and bias have shape `normalized_shape` or are
/// undefined. Throws ShapeError for other shapes, and ValueError if eps < 0.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
/// Normalizes x [..., D] over the last axis only. weight and bias have shape [D] or are undefined.
/// In all other respects it is equal to the overload above.
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps = 1e-5);
/// Returns x / sqrt(mean(x^2) + eps) * weight for x [..., D], over the last axis (Zhang & Sennrich
/// 2019). The result has x's shape. Throws ShapeError unless weight has shape [D] or is undefined.
/// Throws ValueError if eps < 0.
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps = 1e-5);

/// How cross_entropy() combines the losses of the targets.
enum class Reduction {
  kMean,  ///< mean over the targets that are not ignored
  kSum,   ///< sum
  kNone,  ///< no reduction: one loss per target, which is 0 for an ignored target
};
/// Options of cross_entropy().
struct CrossEntropyOptions {
  Index ignore_index = -100;               ///< targets with this value are ignored
  double label_smoothing = 0;              ///< probability, 0 to 1, that is spread over all classes
  Reduction reduction = Reduction::kMean;  ///< how the losses are combined
};
/// Returns the cross-entropy, in nats, of logits [..., C] and int64 targets [...]. The result is a
/// scalar, or has the shape of the targets for Reduction::kNone. The loss of a target t is -(1 - s)
/// log p[t] - s mean(log p), where p is the softmax of the logits and s is label_smoothing (Szegedy
/// et al. 2016). Ignored targets add nothing to the loss or to a gradient. If all targets are
/// ignored, the mean is 0 with gradient 0 (PyTorch: NaN). Throws ShapeError if the shapes do not
/// fit or C is 0. Throws ValueError for a target that is neither a class (0 to C - 1) nor
/// ignore_index, and for label_smoothing outside [0, 1].
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options = {});
/// Sets elements to 0 with probability p and multiplies the rest by 1 / (1 - p) (Srivastava et al.
/// 2014). The result has x's shape. Draws one 64-bit key from g. The random number Philox(key, i)
/// determines whether element i is kept, so the mask depends neither on the number of threads nor
/// on whether the op is fused. If p = 0, returns x itself and draws nothing. Throws ValueError
/// unless p is in [0, 1].
Tensor dropout(const Tensor& x, double p, Generator& g = default_generator());
/// Computes dropout with the given key instead of a key from a generator. Calls with equal p, key
/// and shape set the same elements to 0.
Tensor dropout(const Tensor& x, double p, std::uint64_t key);

/// Options of rope().
struct RopeOptions {
  double base = 10000;  ///< base of the frequencies base^(-2i/d) in rope(); must be > 1
  /// Position of the first row, 0 to 2^24. With a KV cache, it is the number of cached tokens.
  Index offset = 0;
};
/// Applies rotary position embedding (RoPE, Su et al. 2021) to x [..., T, d], d even. Rotates each
/// pair of elements (i, i + d/2) of the last axis by the angle position * base^(-2i/d). The T rows
/// have the positions offset to offset + T - 1. The result has x's shape. Throws ShapeError for
/// rank < 2 or an odd d, ValueError for an option out of range.
Tensor rope(const Tensor& x, const RopeOptions& options = {});

// ---- attention (ops/attention.cpp): softmax(q k^T * scale + bias) v, where masked scores are -inf
//      (Vaswani et al. 2017). Tq is the number of queries and Tk is the number of keys.

/// Callbacks that receive or replace intermediate values [..., Tq, Tk] of attention(). A callback
/// that is not set takes no time and no memory.
struct AttentionHooks {
  /// Receives a detached tensor. An observer never changes the result, not even its rounding.
  /// Observers of values are called before attention() returns. Observers of gradients are called
  /// during a backward pass.
  using Observer = std::function<void(const Tensor&)>;
  /// Receives q k^T * scale, before cap, bias and mask. A masked score that is not finite is
  /// replaced by 0.
  Observer raw_scores = {};
  Observer scores = {};           ///< scores after cap, bias and mask; -inf where masked
  Observer pattern = {};          ///< softmax of the scores, before dropout
  Observer dropped = {};          ///< weights after dropout; they multiply the values
  Observer raw_scores_grad = {};  ///< gradient of raw_scores
  Observer scores_grad = {};      ///< gradient of scores
  Observer pattern_grad = {};     ///< gradient of pattern
  Observer dropped_grad = {};     ///< gradient of dropped

  /// Receives a value and returns its replacement, which has the shape of the value. If a Replace
  /// callback is set, attention() calls attention_with_weights(), which needs O(Tq Tk) memory.
  using Replace = std::function<Tensor(const Tensor&)>;
  Replace on_raw_scores = {};  ///< replaces raw_scores
  Replace on_scores = {};      ///< replaces scores
  Replace on_pattern = {};     ///< replaces pattern
  Replace on_dropped = {};     ///< replaces dropped

  /// Returns true if any Replace callback is set.
  bool replaces() const { return on_raw_scores || on_scores || on_pattern || on_dropped; }
};
/// Policy for a fully masked row: a query whose scores are all -inf, whichever mask caused it.
enum class FullyMasked {
  kZero,     ///< weights, output and every gradient through the row are 0
  kUniform,  ///< equal weights for all keys; the scores of the row have gradient 0
};
/// Options of attention() and attention_with_weights().
struct AttentionOptions {
  std::optional<double> scale = {};  ///< factor of q k^T; default 1 / sqrt(d)
  /// A value c > 0 replaces the scores S = q k^T * scale by c tanh(S / c), before bias and mask are
  /// applied (Gemma 2, arXiv 2408.00118). The value 0 means no cap.
  double soft_cap = 0;
  bool causal = false;  ///< true: no query may attend to a later key
  /// A value w > 0 has the effect of KeepMask::sliding_window(Tq, Tk, w). The fused
  /// kernel needs no memory for this mask, and skips blocks of scores outside the window. The value
  /// 0 means no window.
  Index window = 0;
  KeepMask keep = {};   ///< keep-mask, broadcastable to [..., Tq, Tk]
  ScoreBias bias = {};  ///< term added to the scores, broadcastable to [..., Tq, Tk]; has q's dtype
  FullyMasked fully_masked = FullyMasked::kZero;  ///< policy for fully masked rows
  double dropout = 0;                             ///< probability, 0 to 1, of setting a weight to 0
  Generator* generator = nullptr;  ///< source of the dropout key; null: default_generator()
  /// Callbacks, or null. attention() copies the AttentionHooks object, so it need not exist during
  /// the backward pass.
  const AttentionHooks* hooks = nullptr;
};
/// Result of attention_with_weights(). Each tensor is differentiable.
struct AttentionResult {
  Tensor output;      ///< [..., Tq, d_value]
  Tensor raw_scores;  ///< [..., Tq, Tk]: q k^T * scale, before cap, bias and mask
  Tensor scores;      ///< [..., Tq, Tk]: after cap, bias and mask; -inf where masked
  Tensor pattern;     ///< [..., Tq, Tk]: softmax of scores, before dropout
  Tensor dropped;     ///< [..., Tq, Tk]: weights after dropout; they multiply the values
};
/// Computes attention from public ops: q [..., Tq, d], k [..., Tk, d], v [..., Tk, d_value]. The
/// leading axes broadcast. Needs O(Tq Tk) memory.
///
/// A key or value that a query may not read changes no bit of the query's results, and the query
/// changes no bit of the gradients of the key and the value. This holds even if one of the three is
/// NaN or infinite. Causality, the window, the keep-mask and a bias of -inf are masks. With
/// FullyMasked::kUniform, a fully masked row reads all values. NaN in a key or value that a query
/// may read propagates, even if the weight is 0, because 0 * NaN is NaN.
///
/// Throws ShapeError if shapes do not fit, DTypeError if dtypes differ, and ValueError if an option
/// is out of range.
AttentionResult attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                       const AttentionOptions& options = {});
/// Computes the output of attention_with_weights() with one fused kernel, and throws the errors of
/// that function. Needs O(Tq + Tk) memory unless hooks are given. Skips blocks of scores that are
/// completely masked by causality, window or mask.
///
/// Calls attention_with_weights() if there are no SIMD kernels, or for arguments that the kernel
/// does not support, such as d or d_value above 256, a soft cap, FullyMasked::kUniform and Replace
/// callbacks. Second derivatives are also computed from public ops.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options = {});
/// Returns the reason why attention() calls attention_with_weights() for these arguments, for
/// example "soft cap". Returns an empty text if attention() runs the fused kernel.
std::string_view attention_composite_reason(const Tensor& q, const Tensor& k, const Tensor& v,
                                            const AttentionOptions& options = {});

}  // namespace heed::autograd
