// Umbrella header of the library heed::lab: tasks, training, runs on disk and studies of attention.
// The program heed uses this library. This header also includes all headers of heed::nn.
#pragma once

#include "nn/nn.h"
#include "nn/run/run_folder.h"
#include "nn/run/training_run.h"
#include "nn/study/ablation.h"
#include "nn/study/cells.h"
#include "nn/study/components.h"
#include "nn/study/edge_effects.h"
#include "nn/study/patching.h"
#include "nn/study/roles.h"
#include "nn/study/study.h"
#include "nn/tasks/task.h"
#include "nn/tasks/tasks.h"
#include "nn/tasks/vocabulary.h"
#include "nn/train/build.h"
#include "nn/train/checks/causality.h"
#include "nn/train/checks/check_parameters.h"
#include "nn/train/config.h"
#include "nn/train/evaluate.h"
#include "nn/train/generate.h"
#include "nn/train/trainer.h"
