// The whole program as a function.
#pragma once

namespace heed {

/// Runs the command line and returns the exit code (tools/heed/report/output.h). Throws nothing.
int run_heed(int argc, char** argv);

}  // namespace heed
