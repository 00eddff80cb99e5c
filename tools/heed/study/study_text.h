// A study's heads in the terminal and as JSON.
#pragma once

#include <string>
#include <vector>

#include "nn/io/json.h"
#include "nn/study/ablation.h"
#include "nn/study/study.h"

namespace heed {

/// A line a head, with what L is more by when the head is cut; `cuts` empty: not measured.
void print_heads(const nn::Study& study, const std::vector<nn::Effect>& cuts);
/// [{layer, head, every head_quantities(), cut, saturated}], the last two null if not measured.
nn::Json heads_json(const nn::Study& study, const std::vector<nn::Effect>& cuts);
/// The weights as ten shades, query by key.
void print_ascii(const nn::Study& study, const std::vector<std::string>& labels);

}  // namespace heed
