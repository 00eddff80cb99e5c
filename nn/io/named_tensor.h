// A tensor and its name: a parameter of a model, an entry of a file.
#pragma once

#include <string>

#include "nn/io/names.h"

namespace heed::nn {

struct NamedTensor {
  std::string name;  ///< as in PyTorch's state_dict: "blocks.0.ln1.weight"
  Tensor tensor;
};

}  // namespace heed::nn
