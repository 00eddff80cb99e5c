// Runs the exercise: checks the layer with the five steps of attention.cpp and prints its mistakes.
#include <iostream>

#include "examples/exercises/attention.h"
#include "examples/exercises/check_attention.h"

int main() {
  using namespace heed::exercises;
  const AttentionFinding finding = check_attention(hidden_attention);
  std::cout << finding.message << "\n";
  return finding.right() ? 0 : 1;
}
