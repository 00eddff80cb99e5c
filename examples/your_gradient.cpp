// Checks two backward passes of y = softmax(x), written by hand: a right one and a wrong one.
#include <cmath>
#include <iostream>
#include <vector>

#include "autograd/check/check_vjp.h"

using Arrays = std::vector<std::vector<double>>;  // one array for each input, output or gradient

// The only input is x [3], the only output is y [3].
static Arrays forward(const Arrays& inputs) {
  std::vector<double> y = inputs[0];
  double sum = 0;
  for (double& e : y) {
    e = std::exp(e);
    sum += e;
  }
  for (double& e : y) e /= sum;
  return {y};
}

// grad_outputs[0] is dL/dy. Returns dL/dx, with the length of x.
static Arrays backward(const Arrays& inputs, const Arrays& grad_outputs) {
  const std::vector<double>& dy = grad_outputs[0];
  const std::vector<double> y = forward(inputs)[0];
  double dot = 0;
  for (std::size_t i = 0; i < y.size(); ++i) dot += y[i] * dy[i];
  std::vector<double> dx(y.size());
  for (std::size_t i = 0; i < y.size(); ++i) dx[i] = y[i] * (dy[i] - dot);
  return {dx};
}

// The mistake: `dot` is missing, as if each y[i] depended on x[i] alone.
static Arrays wrong_backward(const Arrays& inputs, const Arrays& grad_outputs) {
  std::vector<double> dx = forward(inputs)[0];
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] *= grad_outputs[0][i];
  return {dx};
}

int main() {
  const Arrays inputs = {{0.5, -1.2, 0.3}};
  const auto right = heed::autograd::check_vjp(forward, backward, inputs);
  const auto wrong = heed::autograd::check_vjp(forward, wrong_backward, inputs);
  std::cout << right << "\n" << wrong << "\n";
  return right.ok() && !wrong.ok() ? 0 : 1;
}
