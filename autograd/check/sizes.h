// The sizes that samples are checked at besides their own: 0, 1, rank 0 and large. They are made by
// calling the sample function again with other shapes, so what it draws besides its inputs (masks,
// indices) changes with them.
#pragma once

#include <string_view>

#include "autograd/graph/check_registry.h"

namespace heed::autograd {

/// As "size 0", "rank 0", "large".
std::string_view size_name(SampleSize size);
/// Whether an input of the sample has that size.
bool has_size(const Sample& sample, SampleSize size);
/// The check's samples with one size among their shapes made that size everywhere (rank 0: with all
/// inputs of rank 0), where the op takes them, and of kLarge the smallest alone. An op that takes
/// none throws an Error there, and the check says so in no_sizes().
Samples resized_samples(const Check& check, SampleSize size);

}  // namespace heed::autograd
