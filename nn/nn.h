// Umbrella header of the library heed::nn: layers, optimizers, schedules and safetensors. It also
// includes all of heed::autograd. Tasks, training and studies are in heed::lab (nn/lab.h).
#pragma once

#include "autograd/autograd.h"
#include "nn/io/named_tensor.h"
#include "nn/io/names.h"
#include "nn/io/nearest.h"
#include "nn/io/safetensors.h"
#include "nn/layers/attention.h"
#include "nn/layers/forward_context.h"
#include "nn/layers/init.h"
#include "nn/layers/kv_cache.h"
#include "nn/layers/layers.h"
#include "nn/layers/module.h"
#include "nn/layers/probe.h"
#include "nn/layers/transformer.h"
#include "nn/layers/weight_names.h"
#include "nn/optim/optimizer.h"
#include "nn/optim/schedule.h"

/// The library heed::nn: models.
namespace heed::nn {}
