// What heed train says while it trains. What does not change is said once, so that the lines of
// steps and evaluations fit into 80 columns.
#pragma once

#include <string>
#include <vector>

#include "nn/train/audit.h"
#include "nn/train/trainer.h"

namespace heed {

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

/// The ledger as a table, a parameter a line.
std::string audit_table(const std::vector<nn::ParameterAudit>& audit);
/// Its ranges in one line; those in trouble do not count.
std::string audit_line(const std::vector<nn::ParameterAudit>& audit);

}  // namespace heed
