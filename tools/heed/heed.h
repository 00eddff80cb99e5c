// The whole program as a function.
#pragma once

#include <functional>

namespace heed {

/// Runs a command; what it throws becomes one line on stderr and an exit code
/// (tools/heed/report/output.h), and so does a stdout that cannot be written.
int exit_code_of(const std::function<int()>& command);

/// Runs the command line and returns the exit code (tools/heed/report/output.h). Throws nothing.
int run_heed(int argc, char** argv);

}  // namespace heed
