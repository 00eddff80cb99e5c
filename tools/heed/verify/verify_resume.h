// heed verify resume: a resumed run has the bits of one that was never stopped.
#pragma once

#include <string>

namespace heed {

/// Trains the beginning of the run again, straight and in two parts, in a temporary folder; the
/// run's own is only read. Returns the exit code, 1 if a bit differs. Errors as nn::verify_resume.
int verify_resume(const std::string& run, bool json);

}  // namespace heed
