// The program heed as a function, so that tests can link it.
#pragma once

#include <functional>

#include "tools/heed/command_line/command.h"

namespace heed {

/// Runs a command and returns the exit code (tools/heed/report/output.h). An exception, or a failed
/// write to stdout, is printed as one line on stderr.
int exit_code_of(const std::function<int()>& command);

/// Parses the command line, runs the command that it names, and returns the exit code
/// (tools/heed/report/output.h). `all` creates the commands of the program. Never throws.
int run_heed(int argc, char** argv, Commands (*all)() = all_commands);

}  // namespace heed
