// Learning-rate schedules: warm-up, then constant, linear or cosine decay, or a plateau and a decay
// at its end.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "nn/io/enum_names.h"

namespace heed::nn {

enum class Decay { kConstant, kLinear, kCosine, kWsd };
template <>
struct EnumNames<Decay> {
  static constexpr std::pair<Decay, const char*> kTable[] = {{Decay::kConstant, "constant"},
                                                             {Decay::kLinear, "linear"},
                                                             {Decay::kCosine, "cosine"},
                                                             {Decay::kWsd, "wsd"}};
};

/// The learning rate as a function of the step, nanoGPT's rule. Steps count updates from 0.
///   step < warmup_steps:  lr * (step + 1) / (warmup_steps + 1)
///   after, constant:      lr
///   after, linear:        min_lr + (lr - min_lr) * (1 - r)
///   after, cosine:        min_lr + (lr - min_lr) * (1 + cos(pi r)) / 2   (Loshchilov & Hutter
///   2017)
///   after, wsd:           lr, then linear over the last decay_steps (Hu et al. 2024: warm-up,
///   stable, decay)
/// where r = (step - start) / (total_steps - start), start = warmup_steps, of wsd total_steps -
/// decay_steps if that is later; and min_lr from total_steps on.
struct Schedule {
  Decay decay = Decay::kConstant;
  double lr = 1e-3;   ///< the largest, reached when warm-up ends
  double min_lr = 0;  ///< where decay ends
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;  ///< when decay ends; not read by constant
  std::int64_t decay_steps = 0;  ///< of wsd

  double lr_at(std::int64_t step) const {
    if (step < warmup_steps) return lr * double(step + 1) / double(warmup_steps + 1);
    if (decay == Decay::kConstant) return lr;
    if (step >= total_steps) return min_lr;
    const std::int64_t start =
        decay == Decay::kWsd ? std::max(warmup_steps, total_steps - decay_steps) : warmup_steps;
    if (step < start) return lr;
    const double r = double(step - start) / double(total_steps - start);
    const double share =
        decay == Decay::kCosine ? 0.5 * (1 + std::cos(std::numbers::pi * r)) : 1 - r;
    return min_lr + share * (lr - min_lr);
  }
};

}  // namespace heed::nn
