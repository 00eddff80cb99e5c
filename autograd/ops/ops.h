// Every op, on one page. All are differentiable unless they return int64 or bool8, take any
// strides, never promote dtypes (float32 and float64 do not mix) and throw ShapeError / DTypeError
// naming the op and both shapes. A `double` operand takes the tensor's dtype. Names and meaning are
// PyTorch's.
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

// ---- elementwise, two operands: shapes broadcast (ops/elementwise/arithmetic.cpp)
Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& x);
Tensor operator+(const Tensor& a, double b);
Tensor operator+(double a, const Tensor& b);
Tensor operator-(const Tensor& a, double b);
Tensor operator-(double a, const Tensor& b);
Tensor operator*(const Tensor& a, double b);
Tensor operator*(double a, const Tensor& b);
Tensor operator/(const Tensor& a, double b);
Tensor operator/(double a, const Tensor& b);
/// The larger (smaller) of both; equal values share the gradient half and half.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);

// ---- elementwise, one operand, results of x's shape (ops/elementwise/unary.cpp,
//      ops/elementwise/activations.cpp)
Tensor pow(const Tensor& x, double exponent);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor erf(const Tensor& x);
/// Gradient 0 at 0.
Tensor abs(const Tensor& x);
/// Into [low, high]; the gradient passes inside and at the borders.
Tensor clamp(const Tensor& x, double low, double high);
/// Gradient 0 at 0.
Tensor relu(const Tensor& x);
/// x * Phi(x), exact (Hendrycks & Gimpel 2016).
Tensor gelu(const Tensor& x);
/// GPT-2's approximation: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
Tensor gelu_tanh(const Tensor& x);
/// x * sigmoid(x).
Tensor silu(const Tensor& x);
/// float32 <-> float64, differentiable; any dtype to any other without a gradient (bool8: != 0).
Tensor to(const Tensor& x, DType dtype);

// ---- comparisons and logic, bool8 of the broadcast shape (ops/elementwise/compare.cpp)
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
Tensor isfinite(const Tensor& x);
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);
/// Same shape and |a - b| <= atol + rtol * |b| everywhere; NaN is never close.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8);
/// Throws ShapeError unless x has this shape: expect_shape(q, {B, T, H, d}). Returns x.
const Tensor& expect_shape(const Tensor& x, const Shape& shape);

// ---- selection: these select, they never multiply, so unselected NaN or inf changes nothing
//      (ops/elementwise/where.cpp)
/// condition ? a : b, elementwise; all three broadcast to the result's shape.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
/// x, but `value` where mask is true, of x's shape. The mask broadcasts to x.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);
/// Keeps elements on and below (above) a diagonal of the last two axes, 0 elsewhere; of x's shape.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);
/// bool8 [rows, columns], true where column <= row + diagonal.
Tensor tril_mask(std::int64_t rows, std::int64_t columns, std::int64_t diagonal = 0);

// ---- reductions over a set of axes (empty = all), which the result lacks, or has with size 1 if
//      keepdim (ops/reduce.cpp, ops/cumsum.cpp)
Tensor sum(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
struct VarOptions {
  int correction = 1;  ///< divides by n - correction. 1: Bessel's; 0: the population variance
  bool keepdim = false;
};
Tensor var(const Tensor& x, const Dims& axes = {}, const VarOptions& options = {});
/// A third argument of true or false would be PyTorch's `unbiased` to some, keepdim to others.
Tensor var(const Tensor& x, const Dims& axes, bool) = delete;
/// torch.amax / amin: equal extremes share the gradient evenly. ShapeError on an empty reduction.
Tensor max(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
Tensor min(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
/// True where any (all) elements of a bool8 tensor along the axes are true.
Tensor any(const Tensor& x, const Dims& axes = {}, bool keepdim = false);  ///< bool8
Tensor all(const Tensor& x, const Dims& axes = {}, bool keepdim = false);  ///< bool8
/// Index of the first largest element along one axis, which the result lacks, or has with size 1 if
/// keepdim; int64.
Tensor argmax(const Tensor& x, std::int64_t axis, bool keepdim = false);
/// log(sum(exp(x))), stable; -inf with gradient 0 where every element is -inf.
Tensor logsumexp(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
/// Sums of the elements up to and including each along one axis; of x's shape.
Tensor cumsum(const Tensor& x, std::int64_t axis);
/// Sums broadcast axes so that the result has `shape`: what the engine does to gradients.
Tensor sum_to(const Tensor& x, const Shape& shape);

// ---- softmax along one axis, of x's shape (ops/softmax.cpp). A row that is all -inf gives 0
//      (log_softmax: -inf), gradient 0.
Tensor softmax(const Tensor& x, std::int64_t axis);
Tensor log_softmax(const Tensor& x, std::int64_t axis);

// ---- products (ops/matmul.cpp, ops/einsum.cpp)
/// torch.matmul: [..., m, k] x [..., k, n] -> [..., m, n], batch axes broadcast. A 1-D operand is a
/// row (column), whose axis the result lacks.
Tensor matmul(const Tensor& a, const Tensor& b);
/// x [..., in] times weight [out, in] transposed, plus bias [out] if defined -> [..., out]. Fused.
/// MatmulPrecision decides if the operands of its three products are rounded.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
/// How linear multiplies float32; other dtypes are never rounded.
enum class Precision : std::uint8_t {
  kFloat32,
  kBfloat16,  ///< operands rounded to bfloat16, sums in float32 (kernels/simd/gemm_bf16.h)
};
/// Sets linear's precision on this thread for a scope (PyTorch: set_float32_matmul_precision). The
/// backward of what it recorded is of the same precision, wherever that runs; gradients that are
/// themselves differentiated (create_graph) are those of float32 products.
class MatmulPrecision {
 public:
  explicit MatmulPrecision(Precision precision);
  ~MatmulPrecision();
  MatmulPrecision(const MatmulPrecision&) = delete;

 private:
  Precision before_;
};
/// Einstein summation. Labels are single letters ("nqhd,nkhd->nhqk"), or names if any term has two
/// words or an underscore ("batch pos d_model, head d_model d_head -> batch pos head d_head").
/// A repeated label takes the diagonal; sizes never broadcast; operands contract left to right.
/// The result has the axes behind "->", in that order. ValueError points at a bad label with a
/// caret.
Tensor einsum(std::string_view equation, std::span<const Tensor> operands);
Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands);

// ---- shape: views where strides allow (ops/views.cpp)
Tensor reshape(const Tensor& x, const Shape& shape);  ///< one size may be -1
Tensor permute(const Tensor& x, const Dims& axes);    ///< axis i is x's axis axes[i]
/// Exchanges two axes.
Tensor transpose(const Tensor& x, std::int64_t axis0, std::int64_t axis1);
Tensor mT(const Tensor& x);                          ///< transposes the last two axes
Tensor expand(const Tensor& x, const Shape& shape);  ///< -1 keeps a size
Tensor squeeze(const Tensor& x, std::int64_t axis);  ///< without an axis of size 1
/// With a new axis of size 1 before x's axis `axis`; -1: behind the last.
Tensor unsqueeze(const Tensor& x, std::int64_t axis);
/// Axes first to last, both included, as one axis: [a, b, c, d] with 1, 2 -> [a, b*c, d].
Tensor flatten(const Tensor& x, std::int64_t first = 0, std::int64_t last = -1);
/// Elements start, start + step, ... below end of one axis, whose size becomes their number;
/// Python's rules for negative and large bounds.
Tensor slice(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t end,
             std::int64_t step = 1);
/// One index of an axis, which disappears.
Tensor select(const Tensor& x, std::int64_t axis, std::int64_t index);
/// The elements of one axis in reverse order.
Tensor flip(const Tensor& x, std::int64_t axis);
/// The diagonal of two axes, which the result lacks, appended as its last axis.
Tensor diagonal(const Tensor& x, std::int64_t axis0 = 0, std::int64_t axis1 = 1);
/// Returns the values in row-major storage; x itself if it is so already.
Tensor contiguous(const Tensor& x);

// ---- joining and splitting (ops/join.cpp)
/// Joined along an axis, whose size is the sum of theirs; the other axes are equal.
Tensor cat(std::span<const Tensor> xs, std::int64_t axis);
Tensor cat(std::initializer_list<Tensor> xs, std::int64_t axis);
/// Joined along a new axis of size xs.size(); all of one shape.
Tensor stack(std::span<const Tensor> xs, std::int64_t axis);
Tensor stack(std::initializer_list<Tensor> xs, std::int64_t axis);
/// Views of `size` elements each along an axis, the last maybe shorter.
std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t axis);
/// At most n views of equal size along an axis, the last maybe shorter (torch.chunk).
std::vector<Tensor> chunk(const Tensor& x, std::int64_t n, std::int64_t axis);

// ---- indexing; an index out of range is a ValueError naming value, bound and place
// (ops/index.cpp)
/// out[i][j][k] = x[i][index[i][j][k]][k] for axis 1. index: int64, of x's rank; the result has its
/// shape.
Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& index);
/// x with src (of index's shape) added at the places gather would read; repeated places accumulate.
Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src);
/// Slices of one axis, in the order of a 1-D int64 index, whose size the axis gets.
Tensor index_select(const Tensor& x, std::int64_t axis, const Tensor& index);
/// x with the slices of src, of index_select's shape, added at `index` of one axis; its vjp.
Tensor index_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src);
/// Rows of weight [V, D] at int64 ids of any shape -> [..., D].
Tensor embedding(const Tensor& weight, const Tensor& ids);

// ---- norms and losses (ops/norm.cpp, ops/cross_entropy.cpp, ops/dropout.cpp). Fused.
/// Over the last axes, those of `normalized_shape`: (x - mean) / sqrt(var + eps) * weight + bias;
/// weight and bias are of that shape or undefined (Ba et al. 2016).
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
/// Normalizes over the last axis alone.
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps = 1e-5);
/// Over the last axis: x / sqrt(mean(x^2) + eps) * weight (Zhang & Sennrich 2019).
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps = 1e-5);

enum class Reduction { kMean, kSum, kNone };
struct CrossEntropyOptions {
  std::int64_t ignore_index = -100;  ///< targets of this value count nowhere
  double label_smoothing = 0;        ///< in [0, 1]: share of the target spread over all classes
  Reduction reduction = Reduction::kMean;
};
/// logits [..., C] and int64 targets [...] -> scalar (kNone: [...]), in nats. The mean is over the
/// targets that count; with none it is 0 with gradient 0 (PyTorch: NaN).
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options = {});
/// Zeroes elements with probability p and scales the rest by 1/(1-p). Draws one key from g; element
/// i is then kept by Philox(key, i), so every path and thread count sees the same mask. p = 0
/// returns x itself and draws nothing.
Tensor dropout(const Tensor& x, double p, Generator& g = default_generator());
/// Uses the given key: equal keys drop equal elements.
Tensor dropout(const Tensor& x, double p, std::uint64_t key);

struct RopeOptions {
  double base = 10000;      ///< > 1
  std::int64_t offset = 0;  ///< position of the first row: how many came before, as in a KV cache
};
/// Rotates pairs (i, i + d/2) of the last axis of x [..., T, d] by position * base^(-2i/d),
/// positions offset to offset + T - 1; d even (RoPE, Su et al. 2021; ops/rope.cpp).
Tensor rope(const Tensor& x, const RopeOptions& options = {});

// ---- attention (ops/attention.cpp): softmax(q k^T * scale + bias, masked) v (Vaswani et al. 2017)

/// Callbacks that receive, or replace, intermediate values [..., Tq, Tk] of an attention call. An
/// unset callback costs nothing.
struct AttentionHooks {
  /// Receives a detached tensor and never changes a bit of the result: a value before attention()
  /// returns, a gradient during a backward pass.
  using Observer = std::function<void(const Tensor&)>;
  Observer raw_scores = {};  ///< q k^T * scale, before cap, bias and mask; 0 for unread keys
  Observer scores = {};      ///< after bias and mask: masked places -inf
  Observer pattern = {};     ///< softmax of scores, before dropout
  Observer dropped = {};     ///< after dropout: what the values are weighted with
  Observer raw_scores_grad = {}, scores_grad = {}, pattern_grad = {}, dropped_grad = {};

  /// Returns the tensor, of the same shape, that takes the value's place: the scores before and
  /// after cap, bias and mask, the weights before and after dropout. With one of these attention()
  /// computes the composite, in O(Tq Tk) memory.
  using Replace = std::function<Tensor(const Tensor&)>;
  Replace on_raw_scores = {}, on_scores = {}, on_pattern = {}, on_dropped = {};

  /// True if a callback replaces a value.
  bool replaces() const { return on_raw_scores || on_scores || on_pattern || on_dropped; }
  /// Pointers to all observers, for a change of each.
  std::array<Observer*, 8> all() {
    return {&raw_scores,      &scores,      &pattern,      &dropped,
            &raw_scores_grad, &scores_grad, &pattern_grad, &dropped_grad};
  }
};
/// Policy for a fully masked row (all scores -inf), whichever mask or causality caused it.
enum class FullyMasked {
  kZero,     ///< attends to nothing: weights, output and every gradient through it 0
  kUniform,  ///< attends to all keys alike, as a finite -1e9 for -inf would; its scores' gradient 0
  kError,    ///< ValueError naming the row
};
struct AttentionOptions {
  std::optional<double> scale = {};  ///< default 1/sqrt(d)
  /// c > 0: c tanh(S / c) for S = q k^T * scale, before bias and mask (Gemma 2, arXiv 2408.00118).
  double soft_cap = 0;
  bool causal = false;
  /// w > 0: as KeepMask::sliding_window(Tq, Tk, w, alignment), at no memory, and the kernel never
  /// computes the scores outside.
  std::int64_t window = 0;
  CausalAlignment alignment = CausalAlignment::kBottomRight;
  KeepMask keep = {};
  ScoreBias bias = {};
  FullyMasked fully_masked = FullyMasked::kZero;
  double dropout = 0;              ///< on the weights; the key is drawn from `generator`
  Generator* generator = nullptr;  ///< default: the thread's
  /// Callbacks, or null. The call copies them: they may be gone before the backward pass.
  const AttentionHooks* hooks = nullptr;
};
struct AttentionResult {
  Tensor output;      ///< [..., Tq, d_value]
  Tensor raw_scores;  ///< [..., Tq, Tk]: q k^T * scale, before cap, bias and mask
  Tensor scores;      ///< [..., Tq, Tk]: masked places -inf
  Tensor pattern;     ///< [..., Tq, Tk]: softmax of scores, before dropout
  Tensor dropped;     ///< [..., Tq, Tk]: after dropout, what the values are weighted with
};
/// q [..., Tq, d], k [..., Tk, d], v [..., Tk, d_value]; leading axes broadcast. Keys and values
/// that no query may read are never touched: NaN there changes nothing. Every part of the result is
/// differentiable.
AttentionResult attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                       const AttentionOptions& options = {});
/// Returns the output alone, fused: memory O(T) unless hooks are given, and no time for blocks
/// of scores that causality, window and mask hide entirely. d up to 256; beyond that, with a soft
/// cap and for kUniform, the composite.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options = {});
/// Returns why attention() of these is the composite, as "soft cap"; empty if it is fused.
std::string_view attention_composite_reason(const Tensor& q, const Tensor& k, const Tensor& v,
                                            const AttentionOptions& options = {});

}  // namespace heed::autograd
