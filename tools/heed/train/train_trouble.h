// What stops a training, or should be known of it: leaks, parameters that do not learn.
#pragma once

#include <filesystem>
#include <string>

#include "nn/train/audit.h"
#include "nn/train/trainer.h"

namespace heed {

/// CheckError naming an output and a later input that it depends on, if nn::spot_leaks finds one.
void check_causality(const nn::Trainer& trainer, const std::filesystem::path& folder);

/// Writes the ledger of a step to audit.txt and returns its one line.
std::string keep_audit(const std::vector<nn::ParameterAudit>& audit,
                       const std::filesystem::path& folder);

/// Which parameters the last step gave no gradient, and why; "" if there are none.
std::string missing_gradients(const nn::Trainer& trainer);

}  // namespace heed
