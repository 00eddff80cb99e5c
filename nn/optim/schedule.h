// Learning-rate schedules: a linear warm-up, then constant, linear, cosine or warm-up-stable-decay.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

#include "nn/io/enum_names.h"

namespace heed::nn {

/// Course of the learning rate after the warm-up. The comment of Schedule has the formulas.
enum class Decay {
  kConstant,  ///< no decay
  kLinear,    ///< linear decay to min_lr
  kCosine,    ///< half a cosine down to min_lr (Loshchilov & Hutter 2017)
  kWsd        ///< constant, then linear decay in the last steps (Hu et al. 2024)
};
template <>
inline constexpr auto kEnumNames<Decay> = std::to_array({"constant", "linear", "cosine", "wsd"});

/// Learning rate as a function of the step, as in nanoGPT. Steps count updates from 0.
///
/// - In the warm-up (step < warmup_steps), the rate is lr * (step + 1) / (warmup_steps + 1).
/// - With kConstant, the rate is lr after the warm-up.
/// - With kLinear, the rate is min_lr + (lr - min_lr) * (1 - r).
/// - With kCosine, it is min_lr + (lr - min_lr) * (1 + cos(pi r)) / 2 (Loshchilov & Hutter 2017).
/// - With kWsd (warm-up, stable, decay: Hu et al. 2024), the rate is lr until the decay begins, and
///   then the rate of kLinear.
/// - From total_steps on, the rate after the warm-up is min_lr, except with kConstant.
///
/// r = (step - start) / (total_steps - start) is the progress of the decay. The decay starts at
/// start = warmup_steps. With kWsd, it starts at start = total_steps - decay_steps if that is
/// later.
struct Schedule {
  Decay decay = Decay::kConstant;  ///< course of the rate after the warm-up
  double lr = 1e-3;                ///< largest rate, reached at the end of the warm-up
  double min_lr = 0;               ///< rate at the end of the decay
  Index warmup_steps = 0;          ///< length of the warm-up in steps
  Index total_steps = 0;           ///< step at which the decay ends; unused with kConstant
  Index decay_steps = 0;           ///< length of the decay in steps; only with kWsd

  /// Returns the learning rate of update `step`.
  double lr_at(Index step) const {
    if (step < warmup_steps) return lr * double(step + 1) / double(warmup_steps + 1);
    if (decay == Decay::kConstant) return lr;
    if (step >= total_steps) return min_lr;
    const Index start =
        decay == Decay::kWsd ? std::max(warmup_steps, total_steps - decay_steps) : warmup_steps;
    if (step < start) return lr;
    const double r = double(step - start) / double(total_steps - start);
    const double share =
        decay == Decay::kCosine ? 0.5 * (1 + std::cos(std::numbers::pi * r)) : 1 - r;
    return min_lr + share * (lr - min_lr);
  }
};

}  // namespace heed::nn
