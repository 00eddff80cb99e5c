// Umbrella header of the library heed::lab: tasks, training, runs on disk and studies of attention.
// The program heed uses this library. This header also includes all headers of heed::nn.
#pragma once

#include "nn/lab/run/run_folder.h"
#include "nn/lab/run/training_run.h"
#include "nn/lab/study/ablation.h"
#include "nn/lab/study/cells.h"
#include "nn/lab/study/components.h"
#include "nn/lab/study/edge_effects.h"
#include "nn/lab/study/patching.h"
#include "nn/lab/study/roles.h"
#include "nn/lab/study/study.h"
#include "nn/lab/tasks/task.h"
#include "nn/lab/tasks/tasks.h"
#include "nn/lab/tasks/vocabulary.h"
#include "nn/lab/train/build.h"
#include "nn/lab/train/checks/causality.h"
#include "nn/lab/train/checks/check_parameters.h"
#include "nn/lab/train/config.h"
#include "nn/lab/train/evaluate.h"
#include "nn/lab/train/generate.h"
#include "nn/lab/train/trainer.h"
#include "nn/nn.h"

/// The library heed::lab: tasks, training and studies of attention.
namespace heed::lab {}
