// What heed train says while it trains. What does not change is said once, so that the lines of
// steps and evaluations fit into 80 columns.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "nn/train/trainer.h"

namespace heed {

/// Counts the time of steps alone, so that tokens/s means training.
class Pace {
 public:
  explicit Pace(const nn::RunConfig& config)
      : tokens_per_step_(double(config.batch) * double(config.model.context)) {}
  void add(double seconds) {
    seconds_ += seconds;
    ++steps_;
  }
  double tokens_per_second() const {
    return seconds_ > 0 ? tokens_per_step_ * double(steps_) / seconds_ : 0;
  }
  std::int64_t steps() const { return steps_; }  ///< since the run began or was resumed
  /// Seconds that so many steps take; NaN before the first.
  double left(std::int64_t steps) const {
    return steps_ > 0 ? seconds_ / double(steps_) * double(steps)
                      : std::numeric_limits<double>::quiet_NaN();
  }

 private:
  double tokens_per_step_, seconds_ = 0;
  std::int64_t steps_ = 0;
};

/// Where a run is.
struct StepState {
  nn::StepReport report;
  std::int64_t steps;  ///< of the whole run
  double optimal;      ///< nats; NaN if unknown
  double tokens_per_s;
  double seconds_left;  ///< NaN if unknown
};

// Lines of at most 80 columns whatever the numbers are; losses in nats per token.
/// "120/400  loss 1.2345 (+0.0171)  lr 3.0e-3  grad 0.52  2.1 s left  61k tok/s": the loss of this
/// step's batch and, in parentheses, its distance to the best possible one.
std::string step_line(const StepState& s);
/// "step   120/400  eval 1.2345 (+0.0171)  repeat tokens right 98.20 %  2.1 s left  61k tok/s"
std::string evaluation_line(const nn::Evaluation& e, const nn::TaskFacts& facts,
                            const StepState& s);
/// What a run trains: model, batch, steps.
std::vector<std::string> start_lines(nn::Trainer& trainer);
/// What evaluation_line leaves out: on which sequences, and the best possible and other reference
/// losses of these very ones.
std::vector<std::string> evaluation_facts(const nn::Evaluation& e, const nn::Task& task);

}  // namespace heed
