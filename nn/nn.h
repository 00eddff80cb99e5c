// All of heed::nn: layers, tasks, training and the study of attention.
#pragma once

#include "nn/io/safetensors.h"
#include "nn/layers/init.h"
#include "nn/layers/transformer.h"
#include "nn/study/study.h"
#include "nn/tasks/tasks.h"
#include "nn/train/evaluate.h"
#include "nn/train/generate.h"
#include "nn/train/optim.h"
#include "nn/train/trainer.h"
