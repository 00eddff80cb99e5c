// heed verify resume: a resumed run has the bits of one that was never stopped.
#pragma once

#include <string>

#include "tools/heed/report/report.h"

namespace heed {

inline constexpr Column kLegColumns[] = {
    {"leg", "leg"}, {"hash", "hash"}, {"difference", "difference"}};
inline constexpr Column kResumeKeys[] = {
    {"ok"}, {"hash"}, {"run"}, {"steps"}, rows("legs", kLegColumns)};

/// Trains the beginning of the run again, straight and in two parts, in a temporary folder; the
/// run's own is only read. Exits with 1 if a bit differs. Errors as nn::verify_resume.
Report verify_resume(const std::string& run);

}  // namespace heed
