// micro: attention in one file, from derivatives of matrices to a trained model.
//
//   g++ -O2 micro.cpp -o micro && ./micro        (about 10 seconds; standard library only)
//
// The program compares each derivative with finite differences. Then it trains two layers of
// attention to continue repeated sequences: after "fcadfca" comes "d". At the end it draws what one
// of its induction heads attends to. These heads copy (Elhage et al. 2021; Olsson et al. 2022).
//
// heed does the same for larger models, with the same names. "heed: FILE" names the file of heed
// that does the work of the code below it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

namespace micro {

using std::size_t;
using Random = std::mt19937_64;

void check(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

// ==== 1. Matrices ================= heed: autograd/tensor/tensor.h, autograd/kernels/simd/gemm.cpp
// Tensors of heed have up to eight axes, so that one operation computes a whole batch. Here each
// value is a matrix, and the model computes one sequence after the other.

// A matrix of doubles. Element (i, j) is data[i * cols + j].
struct Matrix {
  size_t rows, cols;
  std::vector<double> data;
  Matrix(size_t r, size_t c, double value = 0) : rows(r), cols(c), data(r * c, value) {}
  double& operator()(size_t i, size_t j) { return data[i * cols + j]; }
  double operator()(size_t i, size_t j) const { return data[i * cols + j]; }
};

// Adds x to sum.
void add(Matrix& sum, const Matrix& x) {
  check(sum.rows == x.rows && sum.cols == x.cols, "add: the matrices differ in shape");
  for (size_t i = 0; i < x.data.size(); ++i) sum.data[i] += x.data[i];
}

Matrix zeros_like(const Matrix& x) { return Matrix(x.rows, x.cols); }

Matrix scaled(Matrix x, double factor) {
  for (double& element : x.data) element *= factor;
  return x;
}

Matrix transposed(const Matrix& x) {
  Matrix y(x.cols, x.rows);
  for (size_t i = 0; i < x.rows; ++i)
    for (size_t j = 0; j < x.cols; ++j) y(j, i) = x(i, j);
  return y;
}

// Returns a b, for a [m, k] and b [k, n].
Matrix product(const Matrix& a, const Matrix& b) {
  check(a.cols == b.rows, "product: needs shapes [m, k] and [k, n]");
  Matrix c(a.rows, b.cols);
  for (size_t i = 0; i < a.rows; ++i)
    for (size_t k = 0; k < a.cols; ++k)  // before j, so that the inner loop runs along rows
      for (size_t j = 0; j < b.cols; ++j) c(i, j) += a(i, k) * b(k, j);
  return c;
}

// Returns a matrix of normal random numbers with mean 0 and this standard deviation.
Matrix normal(size_t rows, size_t cols, double deviation, Random& random) {
  std::normal_distribution<double> distribution(0, deviation);
  Matrix x(rows, cols);
  for (double& element : x.data) element = distribution(random);
  return x;
}

// ==== 2. The graph ====================== heed: autograd/graph/graph.h, autograd/engine/engine.cpp
// An operation returns a new node, which refers to the nodes of its inputs. backward() walks from
// the result to the leaves and applies the chain rule at each node. L is the number that is
// differentiated, usually the loss. In heed gradients are tensors, too, so that they can be
// differentiated again.

struct Node;
using Tensor = std::shared_ptr<Node>;  // a handle: copies refer to the same node
using Tensors = std::vector<Tensor>;
using Grads = std::vector<Matrix>;  // dL/d(input) for each input, in the order of the inputs
using Vjp = std::function<Grads(const Matrix& g)>;  // vector-Jacobian product; g is dL/d(output)

// Record of how one tensor was computed. A leaf, such as a weight, has no inputs and no vjp.
struct Node {
  Tensors inputs;
  Matrix value;
  Vjp vjp;
  Matrix grad;    // dL/d(value)
  size_t number;  // larger than the numbers of its inputs
};

// Returns the output of an operation as a new node. Each operation ends in this call. The vjp must
// not capture the returned tensor: the node would own itself and would never be freed.
Tensor record(const Tensors& inputs, const Matrix& output, const Vjp& vjp) {
  static size_t count = 0;
  return std::make_shared<Node>(Node{inputs, output, vjp, zeros_like(output), count++});
}

Tensor leaf(const Matrix& value) { return record({}, value, nullptr); }

// Adds dL/dx to x->grad for each tensor x that y depends on. grad_output is dL/dy.
// The walk always takes the pending node with the largest number. All nodes between this node and y
// have larger numbers and were visited before, so its gradient is complete. Inner nodes keep their
// gradients. Therefore a second walk over the same graph would add them again.
void backward(const Tensor& y, const Matrix& grad_output) {
  add(y->grad, grad_output);
  std::map<size_t, Node*> pending = {{y->number, y.get()}};  // by number, each node once
  while (!pending.empty()) {
    Node& node = *pending.rbegin()->second;
    pending.erase(node.number);
    if (!node.vjp) continue;
    const Grads grads = node.vjp(node.grad);
    check(grads.size() == node.inputs.size(), "backward: a vjp returns one gradient per input");
    for (size_t k = 0; k < grads.size(); ++k) {
      Node& input = *node.inputs[k];
      add(input.grad, grads[k]);
      pending[input.number] = &input;
    }
  }
}

void zero_grad(const Tensors& leaves) {
  for (const Tensor& x : leaves) x->grad = zeros_like(x->value);
}

// ==== 3. Operations ===================================================== heed: autograd/ops/ops.h
// Returns c = a b, for a [m, k] and b [k, n].                        heed: autograd/ops/matmul.cpp
// c_ij is the sum of a_il b_lj over l. Therefore dL/da_il is the sum of g_ij b_lj over j, which is
// element (i, l) of g b^T. In the same way dL/db is a^T g.
Tensor matmul(const Tensor& a, const Tensor& b) {
  return record({a, b}, product(a->value, b->value), [a, b](const Matrix& g) {
    return Grads{product(g, transposed(b->value)), product(transposed(a->value), g)};
  });
}

// Returns the transposed matrix.                                      heed: autograd/ops/views.cpp
Tensor mT(const Tensor& x) {
  return record({x}, transposed(x->value), [](const Matrix& g) { return Grads{transposed(g)}; });
}

// Returns the sum of two matrices of the same shape. heed: autograd/ops/elementwise/arithmetic.cpp
Tensor operator+(const Tensor& a, const Tensor& b) {
  Matrix sum = a->value;
  add(sum, b->value);
  return record({a, b}, sum, [](const Matrix& g) { return Grads{g, g}; });
}

// Returns x times a constant.                        heed: autograd/ops/elementwise/arithmetic.cpp
Tensor operator*(const Tensor& x, double c) {
  return record({x}, scaled(x->value, c), [c](const Matrix& g) { return Grads{scaled(g, c)}; });
}

// Returns x with `fill` to the right of the diagonal.
Matrix fill_future(Matrix x, double fill) {
  for (size_t i = 0; i < x.rows; ++i)
    for (size_t j = i + 1; j < x.cols; ++j) x(i, j) = fill;
  return x;
}

// Returns scores [query, key] with `fill` at each key that comes after its query. Softmax turns
// -infinity into weight 0, so that no token attends to a later one.    heed: autograd/ops/mask.cpp
Tensor causal_mask(const Tensor& scores, double fill = -INFINITY) {
  return record({scores}, fill_future(scores->value, fill),
                [](const Matrix& g) { return Grads{fill_future(g, 0)}; });
}

// Returns p = exp(x) / sum(exp(x)) for each row x of a matrix.      heed: autograd/ops/softmax.cpp
// The derivative dp_j/dx_i is p_i (1 - p_i) for i = j, and -p_i p_j otherwise. Therefore dL/dx_i,
// the sum of g_j dp_j/dx_i over all j, is p_i (g_i - sum of g_j p_j over all j).
Tensor softmax(const Tensor& x) {
  Matrix p = x->value;
  for (size_t i = 0; i < p.rows; ++i) {
    double largest = p(i, 0), sum = 0;
    for (size_t j = 0; j < p.cols; ++j) largest = std::max(largest, p(i, j));
    for (size_t j = 0; j < p.cols; ++j) {
      p(i, j) = std::exp(p(i, j) - largest);  // at most 1, so that nothing overflows
      sum += p(i, j);
    }
    for (size_t j = 0; j < p.cols; ++j) p(i, j) /= sum;
  }
  return record({x}, p, [p](const Matrix& g) {
    Matrix dx = zeros_like(p);
    for (size_t i = 0; i < p.rows; ++i) {
      double row_sum = 0;
      for (size_t j = 0; j < p.cols; ++j) row_sum += g(i, j) * p(i, j);
      for (size_t j = 0; j < p.cols; ++j) dx(i, j) = p(i, j) * (g(i, j) - row_sum);
    }
    return Grads{dx};
  });
}

// Returns the mean of -log(softmax(logits)(t, targets[t])) over all t as a matrix [1, 1], for
// logits [targets, classes].                                  heed: autograd/ops/cross_entropy.cpp
// The derivative of -log p_c for the logit x_i is p_i - 1 for i = c, and p_i otherwise.
Tensor cross_entropy(const Tensor& logits, const std::vector<size_t>& targets) {
  check(targets.size() == logits->value.rows, "cross_entropy: needs one target for each row");
  const Matrix p = softmax(logits)->value;
  const double weight = 1 / double(targets.size());
  Matrix loss(1, 1);
  for (size_t t = 0; t < targets.size(); ++t) loss(0, 0) -= weight * std::log(p(t, targets[t]));
  return record({logits}, loss, [p, targets, weight](const Matrix& g) {
    Matrix dx = p;
    for (size_t t = 0; t < targets.size(); ++t) dx(t, targets[t]) -= 1;
    return Grads{scaled(dx, weight * g(0, 0))};
  });
}

// ==== 4. Attention and model ============ heed: nn/layers/attention.cpp, nn/layers/transformer.cpp
constexpr size_t kLayers = 2, kHeads = 2, kModel = 32;
constexpr size_t kHead = kModel / kHeads;         // columns of q, k and v of one head
constexpr size_t kContext = 32;                   // T, the number of tokens of a sequence
constexpr size_t kClasses = 32, kBos = kClasses;  // tokens 0 to 31, and one that begins sequences

// Returns softmax(q k^T / sqrt(d), masked) v, for q, k and v [T, d] of one head. Row t of the
// result is a weighted mean of the rows 0 to t of v. The weights are row t of the pattern [T, T],
// which is appended to `patterns` if that is not null. heed computes all heads in one kernel, which
// does not store the pattern.
//                                                                 heed: autograd/ops/attention.cpp
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 std::vector<Matrix>* patterns = nullptr) {
  const Tensor scores = matmul(q, mT(k)) * (1 / std::sqrt(double(q->value.cols)));  // [T, T]
  const Tensor pattern = softmax(causal_mask(scores));                              // [T, T]
  if (patterns) patterns->push_back(pattern->value);
  return matmul(pattern, v);  // [T, d]
}

// Weights of one head. It reads the stream x [T, kModel] through W_Q, W_K and W_V, of shape
// [kModel, kHead], and adds its output to the stream through W_O [kHead, kModel].
struct Head {
  Tensor W_Q, W_K, W_V, W_O;
};

// A causal language model: embeddings, layers of attention, and an output layer.
struct Transformer {
  Tensor tok, pos;                        // embeddings [kClasses + 1, kModel], [kContext, kModel]
  std::vector<std::vector<Head>> layers;  // kLayers lists of kHeads heads
  Tensor head;         // not an attention head: the output layer [kClasses, kModel]
  Tensors parameters;  // all of these tensors

  // Draws the weights. All matrices but the embeddings have the deviation 1 / sqrt(3 kModel).
  explicit Transformer(Random& random) : layers(kLayers) {
    const auto draw = [&](size_t rows, size_t cols, double deviation) {
      parameters.push_back(leaf(normal(rows, cols, deviation, random)));
      return parameters.back();
    };
    tok = draw(kClasses + 1, kModel, 0.5);
    pos = draw(kContext, kModel, 0.5);
    const double d = 1 / std::sqrt(3.0 * kModel);
    for (std::vector<Head>& heads : layers)
      for (size_t h = 0; h < kHeads; ++h)
        heads.push_back({draw(kModel, kHead, d), draw(kModel, kHead, d), draw(kModel, kHead, d),
                         draw(kHead, kModel, d)});
    head = draw(kClasses, kModel, d);
  }

  // Returns the logits [kContext, kClasses] of the next token at each position. Appends the
  // patterns of all heads to `patterns`, those of layer 0 first.          heed: nn/layers/probe.h
  Tensor forward(const std::vector<size_t>& ids, std::vector<Matrix>* patterns = nullptr) const {
    Matrix one_hot(kContext, kClasses + 1);  // its product with tok has row ids[t] of tok as row t
    for (size_t t = 0; t < kContext; ++t) one_hot(t, ids[t]) = 1;
    Tensor x = matmul(leaf(one_hot), tok) + pos;  // [kContext, kModel]
    for (const std::vector<Head>& heads : layers) {
      const Tensor in = x;  // the heads of a layer read the same stream, and each adds to it
      for (const auto& [W_Q, W_K, W_V, W_O] : heads)
        x = x + matmul(attention(matmul(in, W_Q), matmul(in, W_K), matmul(in, W_V), patterns), W_O);
    }
    return matmul(x, mT(head));
  }
};

// ==== 5. The induction task ========================================= heed:
// nn/lab/tasks/induction.cpp A block of `period` different tokens, repeated to kContext tokens.
// Target t is the token after input t. If t > period, the second copy has begun, and the earlier
// tokens determine target t.
struct Sequence {
  size_t period;
  std::vector<size_t> inputs, targets;
};

Sequence repeat_block(size_t period, Random& random) {
  std::vector<size_t> block(kClasses);
  std::iota(block.begin(), block.end(), size_t(0));
  std::shuffle(block.begin(), block.end(), random);  // the block is its first `period` elements
  Sequence s{period, {}, {}};
  for (size_t t = 0; t < kContext; ++t) {
    s.inputs.push_back(t == 0 ? kBos : s.targets.back());
    s.targets.push_back(block[t % period]);
  }
  return s;
}

std::vector<Sequence> sample(size_t count, Random& random) {
  std::uniform_int_distribution<size_t> period(3, 24);
  std::vector<Sequence> batch;
  for (size_t b = 0; b < count; ++b) batch.push_back(repeat_block(period(random), random));
  return batch;
}

// ==== 6. Gradient check ========================================= heed: autograd/check/gradcheck.h
// Differentiates L = sum(r * f(inputs)), for a random matrix r, in two ways: by backward(), and by
// (L(e + h) - L(e - h)) / 2h for at most 100 elements e of each input. Prints the relative error
// |difference - backward| / |difference|, where both are vectors of all these derivatives. Returns
// true if the error is at most 1e-7.
bool gradcheck(const char* name, const Tensors& inputs,
               const std::function<Tensor(const Tensors&)>& f) {
  const Tensor y = f(inputs);
  Random random(1);
  const Matrix r = normal(y->value.rows, y->value.cols, 1, random);
  zero_grad(inputs);
  backward(y, r);
  const double h = 1e-5;
  double error_squares = 0, squares = 0;
  for (const Tensor& x : inputs)
    for (size_t i = 0; i < x->value.data.size(); i += 1 + x->value.data.size() / 100) {
      const double before = x->value.data[i];
      const auto l_at = [&](double element) {
        x->value.data[i] = element;
        const Matrix value = f(inputs)->value;
        return std::inner_product(r.data.begin(), r.data.end(), value.data.begin(), 0.0);
      };
      const double difference = (l_at(before + h) - l_at(before - h)) / (2 * h);
      x->value.data[i] = before;
      error_squares += std::pow(difference - x->grad.data[i], 2);
      squares += difference * difference;
    }
  const double error = std::sqrt(error_squares / squares);
  std::printf("  %-14s relative error %.1e\n", name, error);
  return error <= 1e-7;  // false for NaN
}

// ==== 7. AdamW and training ===================== heed: nn/optim/optimizer.h,
// nn/lab/train/trainer.cpp Adam with decoupled weight decay (Loshchilov & Hutter 2019). All
// parameters decay, because all are matrices. In heed vectors, such as biases, do not decay.
struct AdamW {
  double lr = 1e-2, beta1 = 0.9, beta2 = 0.99, eps = 1e-8, weight_decay = 0.01;
  Tensors parameters;
  std::vector<Matrix> exp_avg, exp_avg_sq;  // means of g and g^2 for each parameter
  int updates = 0;

  explicit AdamW(const Tensors& all) : parameters(all) {
    for (const Tensor& x : all) exp_avg.push_back(zeros_like(x->value));
    exp_avg_sq = exp_avg;
  }
  void step() {
    ++updates;
    // The means start at 0 and are too small at first. Division by these numbers corrects that.
    const double c1 = 1 - std::pow(beta1, updates), c2 = 1 - std::pow(beta2, updates);
    for (size_t k = 0; k < parameters.size(); ++k)
      for (size_t i = 0; i < parameters[k]->value.data.size(); ++i) {
        double& p = parameters[k]->value.data[i];
        const double g = parameters[k]->grad.data[i];
        double& m = exp_avg[k].data[i];
        double& v = exp_avg_sq[k].data[i];
        p *= 1 - lr * weight_decay;
        m = beta1 * m + (1 - beta1) * g;
        v = beta2 * v + (1 - beta2) * g * g;
        p -= lr * (m / c1) / (std::sqrt(v / c2) + eps);
      }
  }
};

// Returns the mean loss of a batch. Adds its gradient to the grad of each parameter.
double loss_and_gradients(const Transformer& model, const std::vector<Sequence>& batch) {
  double sum = 0;
  for (const Sequence& s : batch) {
    const Tensor loss = cross_entropy(model.forward(s.inputs), s.targets);
    backward(loss, Matrix(1, 1, 1 / double(batch.size())));
    sum += loss->value(0, 0);
  }
  return sum / double(batch.size());
}

// Returns the fraction of the targets at t > period that have the largest logit.
double accuracy(const Transformer& model, const std::vector<Sequence>& batch) {
  double right = 0, count = 0;
  for (const Sequence& s : batch) {
    const Matrix logits = model.forward(s.inputs)->value;
    for (size_t t = s.period + 1; t < kContext; ++t) {
      const double* row = &logits.data[t * kClasses];
      if (std::max_element(row, row + kClasses) == row + s.targets[t]) ++right;
      ++count;
    }
  }
  return right / count;
}

// Trains until the accuracy on fresh sequences is 0.99, for at most 1000 steps. Returns the last
// accuracy.
double train(Transformer& model, Random& random) {
  AdamW optimizer(model.parameters);
  double reached = 0;
  for (int step = 1; step <= 1000 && reached < 0.99; ++step) {
    zero_grad(model.parameters);
    const double loss = loss_and_gradients(model, sample(16, random));
    optimizer.step();
    if (step % 50 != 0) continue;
    reached = accuracy(model, sample(200, random));
    std::printf("  step %4d   loss %.3f   accuracy %.3f\n", step, loss, reached);
  }
  return reached;
}

// ==== 8. What the heads attend to =================================== heed: nn/lab/study/roles.h
// Prints the scores of all heads on a sequence, and the pattern of the best induction head. At
// position t this head attends to t - period + 1, the token after the last earlier copy
// of token t. For this, a head of layer 0 must have written there which token comes before.
void print_heads(const Transformer& model, Random& random) {
  // Returns the mean weight of the key `distance` before the query, over the queries t >= first.
  const auto mean_weight = [](const Matrix& pattern, size_t distance, size_t first) {
    double sum = 0;
    for (size_t t = first; t < kContext; ++t) sum += pattern(t, t - distance);
    return sum / double(kContext - first);
  };
  const Sequence s = repeat_block(15, random);
  std::vector<Matrix> patterns;
  model.forward(s.inputs, &patterns);
  size_t best = 0;
  double best_score = 0;
  for (size_t n = 0; n < patterns.size(); ++n) {
    const double score = mean_weight(patterns[n], s.period - 1, s.period + 1);
    if (score > best_score) {
      best = n;
      best_score = score;
    }
    std::printf("  L%zuH%zu   previous token %.2f   token to copy %.2f\n", n / kHeads, n % kHeads,
                mean_weight(patterns[n], 1, 1), score);
  }
  std::printf("\nPattern of L%zuH%zu (rows: queries; columns: keys; from 0 to 1: .:-=+*#%%@)\n    ",
              best / kHeads, best % kHeads);
  const auto label = [&](size_t t) { return "abcdefghijklmnopqrstuvwxyzABCDEF^"[s.inputs[t]]; };
  for (size_t j = 0; j < kContext; ++j) std::printf("%c ", label(j));
  for (size_t i = 0; i < kContext; ++i) {
    std::printf("\n  %c ", label(i));
    for (size_t j = 0; j <= i; ++j)
      std::printf("%c ", " .:-=+*#%@"[std::min<size_t>(9, size_t(10 * patterns[best](i, j)))]);
  }
  std::printf("\n");
}

}  // namespace micro

#ifndef MICRO_TEST  // tests/examples/micro_test.cpp compares these functions with those of heed
int main() {
  using namespace micro;
  Random random(1);
  Transformer model(random);
  const auto draw = [&](size_t rows, size_t cols) { return leaf(normal(rows, cols, 1, random)); };
  const Tensor a = draw(3, 4), b = draw(4, 2), c = draw(3, 4), logits = draw(kContext, kClasses);
  const Sequence s = repeat_block(8, random);
  std::printf("Gradient checks, each at most 1e-7:\n");
  const bool right[] = {
      gradcheck("matmul", {a, b}, [](const Tensors& x) { return matmul(x[0], x[1]); }),
      gradcheck("mT", {a}, [](const Tensors& x) { return mT(x[0]); }),
      gradcheck("a times a^T", {a}, [](const Tensors& x) { return matmul(x[0], mT(x[0])); }),
      gradcheck("+", {a, c}, [](const Tensors& x) { return x[0] + x[1]; }),
      gradcheck("*", {a}, [](const Tensors& x) { return x[0] * 0.7; }),
      // If `fill` were -infinity, L would not be finite.
      gradcheck("causal_mask", {a}, [](const Tensors& x) { return causal_mask(x[0], 0); }),
      gradcheck("softmax", {a}, [](const Tensors& x) { return softmax(x[0]); }),
      gradcheck("cross_entropy", {logits},
                [&](const Tensors& x) { return cross_entropy(x[0], s.targets); }),
      gradcheck("attention", {a, c, draw(3, 2)},
                [](const Tensors& x) { return attention(x[0], x[1], x[2]); }),
      gradcheck("whole model", model.parameters,
                [&](const Tensors&) { return cross_entropy(model.forward(s.inputs), s.targets); })};
  std::printf("\nTraining:\n");
  const double reached = train(model, random);
  std::printf("\nMean attention weights:\n");
  print_heads(model, random);
  return std::count(std::begin(right), std::end(right), false) == 0 && reached >= 0.99 ? 0 : 1;
}
#endif
