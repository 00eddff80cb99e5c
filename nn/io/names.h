// Using-declarations: names of heed::autograd that are used without their namespace in heed::nn.
#pragma once

#include "autograd/ops/ops.h"
#include "autograd/tensor/create.h"

namespace heed::nn {

using autograd::DType;
using autograd::Generator;
using autograd::Index;
using autograd::KeepMask;
using autograd::ScoreBias;
using autograd::Shape;
using autograd::Tensor;
using enum autograd::DType;
using autograd::default_generator;

}  // namespace heed::nn
