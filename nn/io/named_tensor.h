// NamedTensor: a parameter of a model or an entry of a file.
#pragma once

#include <string>

#include "nn/io/names.h"

namespace heed::nn {

/// A parameter of a model, or an entry of a file.
struct NamedTensor {
  std::string name;  ///< name as in PyTorch's state_dict, such as "blocks.0.ln1.weight"
  Tensor tensor;     ///< handle of the tensor
};

}  // namespace heed::nn
