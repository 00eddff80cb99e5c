// The program heed as a function, so that tests can link it.
#pragma once

#include <functional>

namespace heed {

/// Runs a command and returns the exit code (tools/heed/report/output.h). An exception, or a failed
/// write to stdout, is printed as one line on stderr.
int exit_code_of(const std::function<int()>& command);

/// Runs the command line and returns the exit code (tools/heed/report/output.h). Never throws.
int run_heed(int argc, char** argv);

}  // namespace heed
