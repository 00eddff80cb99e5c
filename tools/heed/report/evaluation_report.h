// An evaluation in words: beside the best possible loss, never alone.
#pragma once

#include <string>

#include "nn/train/evaluate.h"
#include "tools/heed/report/report.h"

namespace heed {

/// What add_evaluation() sets.
inline constexpr Column kEvaluationKeys[] = {{"loss"},
                                             {"optimal_loss"},
                                             {"accuracy"},
                                             {"standard_error"},
                                             {"references"},
                                             {"expected_optimal_loss"},
                                             {"expected_references"},
                                             {"expected_accuracy_references"},
                                             {"eval_sequences"},
                                             {"eval_tokens"}};

/// Sets these keys, null where undefined, and adds a table for text: loss, best possible and
/// references, on these sequences and in expectation.
void add_evaluation(Report& report, const nn::Evaluation& e, const nn::TaskInfo& info);

}  // namespace heed
