// Reports an evaluation: the loss, together with the best possible loss if that is known.
#pragma once

#include <string>

#include "nn/lab/train/evaluate.h"
#include "tools/heed/report/out.h"

namespace heed {

/// Keys that add_evaluation() sets.
inline const std::string kEvaluationKeys =
    "loss optimal_loss accuracy standard_error references expected_optimal_loss "
    "expected_references expected_accuracy_references eval_sequences eval_tokens evaluation_set "
    "perplexity bits_per_character bits_per_byte";

/// Progress while lab::evaluate() calls its callback with (0, 0).
inline constexpr const char* kCountingBigrams = "Counting the bigrams of the training text";

/// Sets kEvaluationKeys and adds a table for text. A key whose value is undefined is null. The
/// table contains loss, best possible loss and reference losses, as measured on these sequences and
/// in expectation. For a text it also contains perplexity and bits.
void add_evaluation(Out& out, const lab::Evaluation& e, const lab::Task& task);

}  // namespace heed
