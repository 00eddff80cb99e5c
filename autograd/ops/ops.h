// All ops of heed on one page. Names and meanings follow PyTorch.
//
// These rules hold for every op, unless its comment states something else:
// - Dtypes: each operand is float32 or float64, and all operands have the same dtype. There is no
//   type promotion. A `double` operand is converted to the dtype of the tensor beside it. The
//   result has the dtype of the operands. DTypeError reports any other dtype and any mix of dtypes.
// - Gradients: the op is differentiable, and its gradient is differentiable again. Results of dtype
//   int64 or bool8 have no gradient.
// - Axes: a negative axis counts from the back, so -1 is the last axis. ShapeError reports an axis
//   that is out of range, and a result of more than 8 axes.
// - Broadcasting: shapes are aligned at their last axes. An axis that is missing or has size 1 is
//   repeated (NumPy's rule). ShapeError reports shapes that do not fit.
// - Memory: operands may have any strides, also 0 and negative ones. No op changes an operand.
// - Errors: the text names the op and the shapes, dtypes or values that it was given.
//
// In the shapes below, [..., m, n] stands for any number of leading axes (none included), then an
// axis of size m and one of size n.
#pragma once

#include <array>
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
/// Returns a + b, a - b, a * b or a / b, elementwise. The result has the broadcast shape. + - *
/// also accept int64, which wraps around on overflow; / throws DTypeError for int64. A `double`
/// beside an int64 tensor must be a whole number in the range of int64; otherwise they throw
/// DTypeError.
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
/// Returns the larger (smaller) of a and b, elementwise, with the broadcast shape. If one of them
/// is NaN, the result is NaN. Equal values receive half of the gradient each. int64 is accepted
/// too.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
///@}

// ---- elementwise, one operand; the result has x's shape (ops/elementwise/unary.cpp,
//      ops/elementwise/activations.cpp)

/// Returns x raised to a constant power.
Tensor pow(const Tensor& x, double exponent);
Tensor exp(const Tensor& x);      ///< Returns e raised to x.
Tensor log(const Tensor& x);      ///< Returns the natural logarithm; -inf at 0, NaN below 0.
Tensor sqrt(const Tensor& x);     ///< Returns the square root; NaN below 0.
Tensor rsqrt(const Tensor& x);    ///< Returns 1 / sqrt(x).
Tensor tanh(const Tensor& x);     ///< Returns the hyperbolic tangent.
Tensor sigmoid(const Tensor& x);  ///< Returns 1 / (1 + exp(-x)), without overflow.
Tensor erf(const Tensor& x);      ///< Returns the error function.
/// Returns the absolute value. The gradient at 0 is 0.
Tensor abs(const Tensor& x);
/// Limits x to [low, high]. The gradient is 1 inside and at both limits, 0 outside. Throws
/// ValueError if low > high.
Tensor clamp(const Tensor& x, double low, double high);
/// Returns max(x, 0). The gradient at 0 is 0. A NaN stays NaN.
Tensor relu(const Tensor& x);
/// Returns x * Phi(x), where Phi is the normal distribution function: the exact GELU (Hendrycks &
/// Gimpel 2016).
Tensor gelu(const Tensor& x);
/// Returns 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): the approximation of GELU that GPT-2
/// uses (Hendrycks & Gimpel 2016).
Tensor gelu_tanh(const Tensor& x);
/// Returns x * sigmoid(x) (Hendrycks & Gimpel 2016; also called Swish).
Tensor silu(const Tensor& x);
/// Converts x, of any dtype, to `dtype`. Returns x itself if it has that dtype. Conversions between
/// float32 and float64 are differentiable. To int64, fractions are cut off, and a value outside its
/// range throws ValueError. To bool8, every value except 0 is true.
Tensor to(const Tensor& x, DType dtype);

// ---- comparisons and logic, bool8 results without a gradient (ops/elementwise/compare.cpp)

///@{
/// Compares elementwise: == != < <= > >=. The result is bool8 with the broadcast shape. Operands
/// may have any dtype, both the same. Comparisons with NaN are false, except that ne is true. A
/// `double` beside an int64 tensor must be a whole number; otherwise they throw DTypeError.
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
/// Combines bool8 tensors elementwise: a and b, a or b. The result is bool8 with the broadcast
/// shape. Throws DTypeError for other dtypes.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
///@}
/// Inverts a bool8 tensor elementwise; the result has x's shape. Throws DTypeError for other
/// dtypes.
Tensor logical_not(const Tensor& x);
/// Returns true if |a - b| <= atol + rtol * |b| for all elements. Equal infinities are close; a NaN
/// is never close. Accepts any dtype. Throws ShapeError unless a and b have the same shape.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8);
/// Throws ShapeError unless x has the given shape, as in expect_shape(q, {B, T, H, d}). Returns x.
const Tensor& expect_shape(const Tensor& x, const Shape& shape);

// ---- selection (ops/elementwise/where.cpp). These ops select and never multiply, so a NaN or an
//      infinity that is not selected changes neither the result nor a gradient.

/// Returns a where `condition` is true, else b. All three broadcast to the shape of the result.
/// `condition` is bool8; a and b may have any dtype, both the same.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
/// Returns x with `value` in every place where `mask` is true; the result has x's shape. `mask` is
/// bool8 and broadcasts to x's shape, else ShapeError. x may have any dtype. Throws ValueError for
/// a `value` outside the range of an int64 x.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);
///@{
/// Keeps the elements on and below (triu: above) a diagonal of the last two axes of x [..., m, n]
/// and replaces the rest by 0. The result has x's shape. Diagonal k begins at column k of row 0. x
/// may have any dtype.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);
///@}
/// Returns a mask, bool8 [rows, columns], that is true where column <= row + diagonal.
Tensor tril_mask(std::int64_t rows, std::int64_t columns, std::int64_t diagonal = 0);

// ---- reductions (ops/reduce.cpp, ops/cumsum.cpp). `axes` is the set of axes to reduce; an empty
//      set stands for all axes. The result lacks these axes, or has them with size 1 if keepdim is
//      true. ShapeError reports an axis that appears twice.

/// Returns the sum; the sum of no elements is 0. Also accepts int64, which wraps around on
/// overflow.
Tensor sum(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
/// Returns the arithmetic mean; the mean of no elements is NaN.
Tensor mean(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
/// Options of var().
struct VarOptions {
  /// The sum of squares of n elements is divided by n - correction. 1 gives the unbiased estimate
  /// (Bessel's correction), 0 the variance of the population.
  int correction = 1;
  bool keepdim = false;  ///< true: the reduced axes stay, with size 1
};
/// Returns the variance. It is NaN if the number of elements equals options.correction.
Tensor var(const Tensor& x, const Dims& axes = {}, const VarOptions& options = {});
/// Deleted, because a third argument of true could be read as PyTorch's `unbiased` or as keepdim.
Tensor var(const Tensor& x, const Dims& axes, bool) = delete;
///@{
/// Returns the largest (smallest) element, as torch.amax and torch.amin do. If an element is NaN,
/// the result is NaN. Equal extremes share the gradient evenly. Throws ShapeError if there are no
/// elements to reduce.
Tensor max(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
Tensor min(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
///@}
/// Returns log(sum(exp(x))), computed without overflow. It is -inf, with gradient 0, where every
/// element is -inf.
Tensor logsumexp(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
/// Returns running sums along one axis: each element is the sum of x's elements up to and including
/// that place. The result has x's shape. Also accepts int64, which wraps around on overflow.
Tensor cumsum(const Tensor& x, std::int64_t axis);
/// Sums x over broadcast axes, so that the result has `shape`. It reverses broadcasting; the engine
/// calls it on gradients. Also accepts int64. Throws ShapeError unless `shape` broadcasts to x's
/// shape.
Tensor sum_to(const Tensor& x, const Shape& shape);

// ---- reductions to int64 or to a mask, bool8, without a gradient (ops/reduce.cpp). The result has
//      the shape that the section above describes.

///@{
/// Returns true where any (all) of the reduced elements of a bool8 tensor are true. Without
/// elements, any is false and all is true. Throws DTypeError for other dtypes.
Tensor any(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
Tensor all(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
///@}
/// Returns the int64 index of the first largest element along one axis. The result lacks this axis,
/// or has it with size 1 if keepdim is true. Also accepts int64. A NaN is not larger than a number.
/// Throws ShapeError if the axis has size 0.
Tensor argmax(const Tensor& x, std::int64_t axis, bool keepdim = false);

// ---- softmax along one axis; the result has x's shape (ops/softmax.cpp)

/// Returns exp(x) / sum(exp(x)) along the axis, computed without overflow. A row whose elements are
/// all -inf becomes 0, with gradient 0.
Tensor softmax(const Tensor& x, std::int64_t axis);
/// Returns log(softmax(x, axis)), computed without overflow. A row whose elements are all -inf
/// stays -inf, with gradient 0.
Tensor log_softmax(const Tensor& x, std::int64_t axis);

// ---- products (ops/matmul.cpp, ops/einsum.cpp)

/// Returns the matrix product, as torch.matmul does: [..., m, k] x [..., k, n] -> [..., m, n]. The
/// leading axes broadcast. A 1-D operand a is a row and a 1-D operand b is a column; the result
/// lacks that axis. Throws ShapeError for rank 0 and for different sizes k.
Tensor matmul(const Tensor& a, const Tensor& b);
/// Returns x W^T + bias: x [..., in], weight W [out, in], bias [out] or undefined -> [..., out].
/// Fused. MatmulPrecision decides whether the operands of its three products (the result, the
/// gradient of x, the gradient of weight) are rounded.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
/// Precision of the products of linear() for float32. Other dtypes are never rounded.
enum class Precision : std::uint8_t {
  kFloat32,   ///< no rounding
  kBfloat16,  ///< operands are rounded to bfloat16, sums are float32 (kernels/simd/gemm_bf16.h)
};
/// Sets the precision of linear() on this thread until the end of the scope, like PyTorch's
/// set_float32_matmul_precision. A backward pass has the precision of the forward call that
/// recorded it, wherever it runs. Gradients that are themselves differentiated (create_graph) are
/// computed with float32 products.
class MatmulPrecision {
 public:
  /// Sets the precision until this object is destroyed.
  explicit MatmulPrecision(Precision precision);
  ~MatmulPrecision();
  MatmulPrecision(const MatmulPrecision&) = delete;

 private:
  Precision before_;
};
///@{
/// Returns the Einstein summation of the operands, for example "nqhd,nkhd->nhqk". The axes of the
/// result are the labels after "->", in that order.
/// - Labels are names if any term has two words or an underscore, as in "batch pos d_model, head
///   d_model d_head -> batch pos head d_head". Otherwise they are single letters.
/// - A label that a term repeats takes the diagonal. Labels that are not in the output are summed.
/// - Without "->" (single letters only), the output is the labels that appear once, in alphabetical
///   order, as in NumPy.
/// - Sizes never broadcast. Operands are contracted from left to right.
///
/// Throws ValueError for an invalid equation, with a caret under the bad label. Throws ShapeError
/// if ranks or sizes do not fit the labels, or if an intermediate result has more than 8 axes.
Tensor einsum(std::string_view equation, std::span<const Tensor> operands);
Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands);
///@}

// ---- views (ops/views.cpp). x may have any dtype. The result shares x's memory; only reshape,
//      flatten and contiguous copy, if the strides do not permit a view.

/// Returns the elements of x, in row-major order, under a new shape. One size may be -1; it is
/// computed from the others. Throws ShapeError unless the number of elements stays the same.
Tensor reshape(const Tensor& x, const Shape& shape);
/// Reorders the axes: axis i of the result is axis axes[i] of x. Throws ShapeError unless `axes`
/// names each axis of x once.
Tensor permute(const Tensor& x, const Dims& axes);
/// Swaps two axes.
Tensor transpose(const Tensor& x, std::int64_t axis0, std::int64_t axis1);
/// Swaps the last two axes: [..., m, n] -> [..., n, m].
Tensor mT(const Tensor& x);
/// Broadcasts x to `shape` by stride 0, without a copy. A size of -1 keeps the size of that axis.
/// Throws ShapeError if x does not broadcast to `shape`.
Tensor expand(const Tensor& x, const Shape& shape);
/// Removes an axis of size 1. Throws ShapeError for another size.
Tensor squeeze(const Tensor& x, std::int64_t axis);
/// Inserts an axis of size 1 before axis `axis` of x. -1 appends it after the last axis.
Tensor unsqueeze(const Tensor& x, std::int64_t axis);
/// Merges the axes `first` to `last`, both included: [a, b, c, d] with 1, 2 -> [a, b*c, d]. A
/// tensor of rank 0 becomes [1]. Throws ShapeError if first > last.
Tensor flatten(const Tensor& x, std::int64_t first = 0, std::int64_t last = -1);
/// Takes the elements start, start + step, ... below `end` of one axis; the other axes stay. The
/// axis gets size ceil((end - start) / step). Negative and large bounds follow Python's rules.
/// Throws ValueError if step < 1.
Tensor slice(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t end,
             std::int64_t step = 1);
/// Takes one index of an axis; the result lacks this axis. A negative index counts from the back.
/// Throws ValueError if the index is out of range.
Tensor select(const Tensor& x, std::int64_t axis, std::int64_t index);
/// Reverses the order of the elements along one axis. The result has x's shape.
Tensor flip(const Tensor& x, std::int64_t axis);
/// Takes the diagonal of two axes of sizes m and n. The result lacks both axes and has a new last
/// axis of size min(m, n). Throws ShapeError if axis0 and axis1 are the same axis.
Tensor diagonal(const Tensor& x, std::int64_t axis0 = 0, std::int64_t axis1 = 1);
/// Returns x itself if its elements are stored in row-major order without gaps, else such a copy.
Tensor contiguous(const Tensor& x);

// ---- joining and splitting (ops/join.cpp). Tensors may have any dtype, all the same. split and
//      chunk return views.

///@{
/// Joins tensors along an axis. The size of this axis is the sum of their sizes; all other axes
/// must be equal, else ShapeError. Throws ValueError if xs is empty.
Tensor cat(std::span<const Tensor> xs, std::int64_t axis);
Tensor cat(std::initializer_list<Tensor> xs, std::int64_t axis);
///@}
///@{
/// Joins tensors of equal shape along a new axis of size xs.size(), which becomes axis `axis` of
/// the result. Throws ShapeError if their shapes differ, ValueError if xs is empty.
Tensor stack(std::span<const Tensor> xs, std::int64_t axis);
Tensor stack(std::initializer_list<Tensor> xs, std::int64_t axis);
///@}
/// Splits an axis into views of `size` elements each; the last one may be smaller. An axis of size
/// 0 gives one empty view. Throws ValueError if size < 1.
std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t axis);
/// Splits an axis of size s into at most n views of ceil(s / n) elements each; the last one may be
/// smaller (torch.chunk). An axis of size 0 gives n empty views. Throws ValueError if n < 1.
std::vector<Tensor> chunk(const Tensor& x, std::int64_t n, std::int64_t axis);

// ---- indexing (ops/index.cpp). Every index tensor is int64. An index below 0 or beyond the axis
// is a
//      ValueError that names the index, its place and the size. gather, index_select and embedding
//      accept any dtype; scatter_add and index_add accept int64 too, which wraps around on
//      overflow.

/// Reads x at an index along one axis: out[i][j][k] = x[i][index[i][j][k]][k] for axis 1. The
/// result has the shape of index. index has x's rank and is not larger than x on any other axis,
/// else ShapeError.
Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& index);
/// Returns x with src added at the places that gather(x, axis, index) reads. The result has x's
/// shape, and src has the shape of index, else ShapeError. Repeated places accumulate.
Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src);
/// Copies slices of one axis in the order of a 1-D index. The result has x's shape, except that the
/// axis has the size of index. Throws ShapeError unless index has rank 1.
Tensor index_select(const Tensor& x, std::int64_t axis, const Tensor& index);
/// Returns x with the slices of src added at the given indices of one axis. The result has x's
/// shape; src has the shape of index_select(x, axis, index), else ShapeError. Repeated indices
/// accumulate.
Tensor index_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src);
/// Returns rows of a table: weight [V, D], ids [...] of any shape -> [..., D]. The gradient of a
/// row is the sum over its uses. Throws ShapeError unless weight has rank 2.
Tensor embedding(const Tensor& weight, const Tensor& ids);

// ---- norms, losses, dropout and positions (ops/norm.cpp, ops/cross_entropy.cpp, ops/dropout.cpp,
//      ops/rope.cpp). The norms and cross_entropy are fused.

/// Normalizes x [..., normalized_shape...] over its last axes, those of `normalized_shape`:
/// (x - mean) / sqrt(var + eps) * weight + bias, where var divides by n (Ba et al. 2016). The
/// result has x's shape. weight and bias have shape `normalized_shape` or are undefined. Throws
/// ShapeError for other shapes, ValueError if eps < 0.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
/// Normalizes x [..., D] over the last axis only. weight and bias have shape [D] or are undefined.
/// Otherwise equal to the overload above.
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps = 1e-5);
/// Returns x / sqrt(mean(x^2) + eps) * weight for x [..., D], over the last axis (Zhang & Sennrich
/// 2019). The result has x's shape. weight has shape [D] or is undefined, else ShapeError. Throws
/// ValueError if eps < 0.
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps = 1e-5);

/// How cross_entropy() combines the losses of the targets.
enum class Reduction {
  kMean,  ///< mean over the targets that are not ignored
  kSum,   ///< sum
  kNone,  ///< no reduction: one loss per target, 0 for an ignored one
};
/// Options of cross_entropy().
struct CrossEntropyOptions {
  std::int64_t ignore_index = -100;  ///< targets of this value add nothing to loss and gradient
  double label_smoothing = 0;        ///< in [0, 1]: share of the target spread over all classes
  Reduction reduction = Reduction::kMean;  ///< how the losses are combined
};
/// Returns the cross-entropy in nats of logits [..., C] and int64 targets [...], as a scalar
/// (kNone:
/// [...]). The loss of a target t is -(1 - s) log p[t] - s mean(log p), where p is the softmax of
/// the logits and s is label_smoothing (Szegedy et al. 2016). If all targets are ignored, the mean
/// is 0 with gradient 0 (PyTorch: NaN). Throws ShapeError if the shapes do not fit or C is 0,
/// ValueError for a target that is neither a class nor ignore_index and for label_smoothing outside
/// [0, 1].
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options = {});
/// Sets elements to 0 with probability p and multiplies the rest by 1 / (1 - p) (Srivastava et al.
/// 2014). The result has x's shape. Draws one 64-bit key from g. Philox(key, i) then decides
/// whether element i is kept, so the mask does not depend on threads or on fusing. If p = 0,
/// returns x itself and draws nothing. Throws ValueError unless p is in [0, 1].
Tensor dropout(const Tensor& x, double p, Generator& g = default_generator());
/// Uses the given key instead of a new one. Equal keys drop the same elements.
Tensor dropout(const Tensor& x, double p, std::uint64_t key);

/// Options of rope().
struct RopeOptions {
  double base = 10000;  ///< > 1: base of the frequencies base^(-2i/d)
  /// Position of the first row, 0 to 2^24. With a KV cache, it is the number of cached tokens.
  std::int64_t offset = 0;
};
/// Applies rotary position embedding (RoPE, Su et al. 2021) to x [..., T, d], d even. Rotates each
/// pair (i, i + d/2) of the last axis by the angle position * base^(-2i/d). The rows have positions
/// offset to offset + T - 1. The result has x's shape. Throws ShapeError for rank < 2 or an odd d,
/// ValueError for an option out of range.
Tensor rope(const Tensor& x, const RopeOptions& options = {});

// ---- attention (ops/attention.cpp): softmax(q k^T * scale + bias, masked) v (Vaswani et al.
// 2017).
//      Tq is the number of queries and Tk the number of keys.

/// Callbacks that receive or replace intermediate values [..., Tq, Tk] of attention(). A callback
/// that is not set costs nothing.
struct AttentionHooks {
  /// Receives a detached tensor. It never changes a bit of the result. Values are passed before
  /// attention() returns, gradients during a backward pass.
  using Observer = std::function<void(const Tensor&)>;
  Observer raw_scores = {};  ///< q k^T * scale, before cap, bias and mask; 0 for keys never read
  Observer scores = {};      ///< scores after cap, bias and mask; -inf where masked
  Observer pattern = {};     ///< softmax of the scores, before dropout
  Observer dropped = {};     ///< weights after dropout; they multiply the values
  Observer raw_scores_grad = {};  ///< gradient of raw_scores
  Observer scores_grad = {};      ///< gradient of scores
  Observer pattern_grad = {};     ///< gradient of pattern
  Observer dropped_grad = {};     ///< gradient of dropped

  /// Receives a value and returns its replacement, of the same shape. With one of these,
  /// attention() computes the composite, which needs O(Tq Tk) memory.
  using Replace = std::function<Tensor(const Tensor&)>;
  Replace on_raw_scores = {};  ///< replaces raw_scores
  Replace on_scores = {};      ///< replaces scores
  Replace on_pattern = {};     ///< replaces pattern
  Replace on_dropped = {};     ///< replaces dropped

  /// Returns true if a callback replaces a value.
  bool replaces() const { return on_raw_scores || on_scores || on_pattern || on_dropped; }
  /// Returns pointers to all observers, so that a caller can change each.
  std::array<Observer*, 8> all() {
    return {&raw_scores,      &scores,      &pattern,      &dropped,
            &raw_scores_grad, &scores_grad, &pattern_grad, &dropped_grad};
  }
};
/// Policy for a fully masked row: a query whose scores are all -inf, whichever mask caused it.
enum class FullyMasked {
  kZero,     ///< weights, output and every gradient through the row are 0
  kUniform,  ///< equal weights for all keys, as -1e9 for -inf would give; its scores get gradient 0
  kError,    ///< throws ValueError that names the row
};
/// Options of attention() and attention_with_weights().
struct AttentionOptions {
  std::optional<double> scale = {};  ///< factor of q k^T; default 1 / sqrt(d)
  /// c > 0 replaces the scores S = q k^T * scale by c tanh(S / c), before bias and mask (Gemma 2,
  /// arXiv 2408.00118). 0: no cap.
  double soft_cap = 0;
  bool causal = false;  ///< true: no query may attend to a later key
  /// w > 0 masks like KeepMask::sliding_window(Tq, Tk, w, alignment), but needs no memory, and the
  /// kernel skips the scores outside the window. 0: no window.
  std::int64_t window = 0;
  CausalAlignment alignment = CausalAlignment::kBottomRight;  ///< for causal and window
  KeepMask keep = {};   ///< keep-mask, broadcastable to [..., Tq, Tk]
  ScoreBias bias = {};  ///< term added to the scores, broadcastable to [..., Tq, Tk]; q's dtype
  FullyMasked fully_masked = FullyMasked::kZero;  ///< policy for fully masked rows
  double dropout = 0;                             ///< probability in [0, 1] to drop a weight
  Generator* generator = nullptr;  ///< source of the dropout key; default: the thread's generator
  /// Callbacks, or null. The call copies them, so they need not exist during the backward pass.
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
/// leading axes broadcast. Needs O(Tq Tk) memory. Keys and values that no query may read are
/// replaced by 0 before use, so a NaN there changes nothing.
///
/// Throws ShapeError if shapes do not fit, DTypeError if dtypes differ, and ValueError for an
/// option out of range and for a fully masked row under FullyMasked::kError.
AttentionResult attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                       const AttentionOptions& options = {});
/// Computes the output of attention_with_weights() with one fused kernel, and throws the same
/// errors. Needs O(T) memory unless hooks are given. Skips blocks of scores that are hidden
/// completely by causality, window or mask. Falls back to the composite for d or d_value above 256,
/// a soft cap, FullyMasked::kUniform and replacing hooks.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options = {});
/// Returns why attention() computes the composite for these arguments, for example "soft cap".
/// Returns an empty text if it runs the fused kernel.
std::string_view attention_composite_reason(const Tensor& q, const Tensor& k, const Tensor& v,
                                            const AttentionOptions& options = {});

}  // namespace heed::autograd
