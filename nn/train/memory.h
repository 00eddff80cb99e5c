// What a run needs of the machine's memory.
#pragma once

#include "nn/train/config.h"

namespace heed::nn {

/// An absurd size fails here, not in malloc: weights with gradients and AdamW's two moments, what a
/// step keeps of the residual stream, attention and logits. ValueError above about 16 GB.
void check_memory(const RunConfig& config, std::int64_t vocab, std::int64_t classes);

}  // namespace heed::nn
