// Learning-rate schedules: warm-up, then constant, linear or cosine decay.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace heed::nn {

enum class Decay { kConstant, kLinear, kCosine };

/// The learning rate as a function of the step, nanoGPT's rule. Steps count updates from 0.
///   step < warmup_steps:  lr * (step + 1) / (warmup_steps + 1)
///   after, constant:      lr
///   after, linear:        min_lr + (lr - min_lr) * (1 - r)
///   after, cosine:        min_lr + (lr - min_lr) * (1 + cos(pi r)) / 2   (Loshchilov & Hutter
///   2017)
/// where r = (step - warmup_steps) / (total_steps - warmup_steps), and min_lr from total_steps on.
struct Schedule {
  Decay decay = Decay::kConstant;
  double lr = 1e-3;   ///< the largest, reached when warm-up ends
  double min_lr = 0;  ///< where linear and cosine decay end
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;  ///< when decay ends; not read by constant

  double lr_at(std::int64_t step) const {
    if (step < warmup_steps) return lr * double(step + 1) / double(warmup_steps + 1);
    if (decay == Decay::kConstant) return lr;
    if (step >= total_steps) return min_lr;
    const double r = double(step - warmup_steps) / double(total_steps - warmup_steps);
    const double share =
        decay == Decay::kLinear ? 1 - r : 0.5 * (1 + std::cos(std::numbers::pi * r));
    return min_lr + share * (lr - min_lr);
  }
};

}  // namespace heed::nn
