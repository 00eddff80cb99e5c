// The lab works with models, and uses the names of heed::nn as its own.
#pragma once

#include "nn/io/names.h"

namespace heed::lab {
using namespace heed::nn;
}  // namespace heed::lab
