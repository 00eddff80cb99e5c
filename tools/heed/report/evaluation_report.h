// An evaluation in words: beside the best possible loss, never alone.
#pragma once

#include <string>

#include "nn/io/json.h"
#include "nn/train/evaluate.h"

namespace heed {

/// A table: loss, best possible and references, on these sequences and in expectation.
void print_evaluation(const nn::Evaluation& e, const nn::TaskFacts& facts);
/// Adds loss, optimal_loss, accuracy and more; null where undefined.
void add_evaluation(nn::Json& object, const nn::Evaluation& e, const nn::TaskFacts& facts);
/// If nn::leaks(e), the text of the error that ends the command; `run`: the folder. Else "".
std::string leak_text(const nn::Evaluation& e, const std::string& run);

}  // namespace heed
