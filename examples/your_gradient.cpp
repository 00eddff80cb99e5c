// Checks two backward passes of y = tanh(W x + b), written by hand: a right one and a wrong one.
#include <cmath>
#include <iostream>
#include <vector>

#include "autograd/check/check_vjp.h"

using Arrays = std::vector<std::vector<double>>;  // one array for each input, output or gradient

constexpr std::size_t kIn = 4, kOut = 3;

// The inputs are x [4], W [3, 4] in row-major order and b [3]. The only output is y [3].
static Arrays forward(const Arrays& inputs) {
  const auto &x = inputs[0], &W = inputs[1], &b = inputs[2];
  std::vector<double> y = b;
  for (std::size_t i = 0; i < kOut; ++i) {
    for (std::size_t j = 0; j < kIn; ++j) y[i] += W[i * kIn + j] * x[j];
    y[i] = std::tanh(y[i]);
  }
  return {y};
}

// grad_output[0] is dL/dy. Returns dL/dx, dL/dW and dL/db, with the lengths of x, W and b.
static Arrays backward(const Arrays& inputs, const Arrays& grad_output) {
  const auto &x = inputs[0], &W = inputs[1];
  const std::vector<double> y = forward(inputs)[0];
  std::vector<double> dx(kIn), dW(kOut * kIn), db(kOut);
  for (std::size_t i = 0; i < kOut; ++i) {
    db[i] = grad_output[0][i] * (1 - y[i] * y[i]);  // the derivative of tanh
    for (std::size_t j = 0; j < kIn; ++j) {
      dW[i * kIn + j] = db[i] * x[j];
      dx[j] += db[i] * W[i * kIn + j];
    }
  }
  return {dx, dW, db};
}

// The mistake: the gradient of b lacks the factor 1 - y^2, the derivative of tanh.
static Arrays wrong_backward(const Arrays& inputs, const Arrays& grad_output) {
  Arrays gradients = backward(inputs, grad_output);
  gradients[2] = grad_output[0];
  return gradients;
}

int main() {
  const Arrays inputs = {{0.5, -1.2, 0.3, 0.8},
                         {0.1, -0.4, 0.7, 0.2, -0.3, 0.6, 0.1, -0.8, 0.9, 0.2, -0.5, 0.4},
                         {0.1, -0.2, 0.3}};
  const auto right = heed::autograd::check_vjp(forward, backward, inputs);
  const auto wrong = heed::autograd::check_vjp(forward, wrong_backward, inputs);
  std::cout << right << "\n" << wrong << "\n";
  return right.ok() && !wrong.ok() ? 0 : 1;
}
