// Checks a backward pass that does not use heed: softmax with cross-entropy on float arrays, as in
// a C program. A second version of the backward pass has a bug. No test with equal cotangents can
// detect the bug, but check_vjp names a wrong entry.
#include <cmath>
#include <iostream>
#include <vector>

#include "autograd/check/check_vjp.h"

namespace {

constexpr int kRows = 4, kClasses = 5;
constexpr int kTargets[kRows] = {2, 0, 4, 1};

// Computes losses [rows] = -log softmax(logits)[target] for each row of logits [rows, classes].
// Also returns the probabilities [rows, classes].
void cross_entropy_forward(float* losses, float* probabilities, const float* logits,
                           const int* targets, int rows, int classes) {
  for (int r = 0; r < rows; r++) {
    const float* row = logits + r * classes;
    float* p = probabilities + r * classes;
    float largest = row[0], total = 0;
    for (int c = 1; c < classes; c++) largest = fmaxf(largest, row[c]);
    for (int c = 0; c < classes; c++) total += p[c] = expf(row[c] - largest);
    for (int c = 0; c < classes; c++) p[c] /= total;
    losses[r] = logf(total) + largest - row[targets[r]];
  }
}

// Computes dlogits [rows, classes] from dlosses [rows].
void cross_entropy_backward(float* dlogits, const float* dlosses, const float* probabilities,
                            const int* targets, int rows, int classes) {
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < classes; c++)
      dlogits[r * classes + c] =
          (probabilities[r * classes + c] - float(c == targets[r])) * dlosses[r];
}

// A wrong version of the backward pass. In the columns after the target's column, it uses the dloss
// of the next row.
void cross_entropy_backward_wrong(float* dlogits, const float* dlosses, const float* probabilities,
                                  const int* targets, int rows, int classes) {
  for (int r = 0; r < rows; r++) {
    const float* dloss = dlosses + r;
    for (int c = 0; c < classes; c++) {
      const float indicator = c == targets[r] ? 1 : 0;
      dlogits[r * classes + c] = (probabilities[r * classes + c] - indicator) * *dloss;
      if (c == targets[r] && r + 1 < rows) dloss++;
    }
  }
}

// ---- adapters from vectors to the C functions
using Vectors = std::vector<std::vector<float>>;
struct Forward {
  std::vector<float> losses = std::vector<float>(kRows),
                     probabilities = std::vector<float>(kRows * kClasses);
  explicit Forward(const Vectors& x) {
    cross_entropy_forward(losses.data(), probabilities.data(), x[0].data(), kTargets, kRows,
                          kClasses);
  }
};

Vectors forward(const Vectors& x) { return {Forward(x).losses}; }

auto backward_by(decltype(&cross_entropy_backward) function) {
  return [function](const Vectors& x, const Vectors& cotangents) {
    Vectors gradients = {std::vector<float>(kRows * kClasses)};
    function(gradients[0].data(), cotangents[0].data(), Forward(x).probabilities.data(), kTargets,
             kRows, kClasses);
    return gradients;
  };
}

}  // namespace

int main() {
  using namespace heed::autograd;
  Vectors logits(1);
  for (int i = 0; i < kRows * kClasses; ++i) logits[0].push_back(float(7 * i % 11 - 5) / 4);

  const CheckReport right = check_vjp(forward, backward_by(cross_entropy_backward), logits);
  std::cout << "backward: " << right << "\n\n";
  const CheckReport wrong = check_vjp(forward, backward_by(cross_entropy_backward_wrong), logits);
  std::cout << "backward with the bug: " << wrong << "\n\n";
  const auto row = wrong.worst().at / kClasses, column = wrong.worst().at % kClasses;
  std::cout << "The wrong entry is logit " << column << " of row " << row << ", whose target is "
            << kTargets[row] << ".\n";

  // A test whose loss is the mean over the rows has equal cotangents, and does not find the bug.
  const auto equal = [](auto backward) {
    return backward_by(backward)(Vectors{std::vector<float>(kRows * kClasses, 0.5F)},
                                 Vectors{std::vector<float>(kRows, 1.0F / kRows)});
  };
  const bool same = equal(cross_entropy_backward) == equal(cross_entropy_backward_wrong);
  std::cout << "With equal cotangents, both return " << (same ? "the same" : "different")
            << " gradients.\n";
  return right.ok() && !wrong.ok() && column > kTargets[row] && same ? 0 : 1;
}
