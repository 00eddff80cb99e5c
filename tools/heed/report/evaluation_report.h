// An evaluation in words: beside the best possible loss, never alone.
#pragma once

#include <string>

#include "nn/io/json.h"
#include "nn/train/evaluate.h"

namespace heed {

/// "eval 1.3012  best possible 1.2190  copy-only 1.3700  repeat tokens right 99.9 %"
std::string evaluation_line(const nn::Evaluation& e, const nn::TaskFacts& facts);
/// A table: loss, best possible and references, on these sequences and in expectation.
void print_evaluation(const nn::Evaluation& e, const nn::TaskFacts& facts);
/// Adds loss, optimal_loss, accuracy and more; null where undefined.
void add_evaluation(nn::Json& object, const nn::Evaluation& e, const nn::TaskFacts& facts);
/// If nn::leaks(e), the text of the error that ends the command; `run`: the folder. Else "".
std::string leak_text(const nn::Evaluation& e, const std::string& run);

}  // namespace heed
