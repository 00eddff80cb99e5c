// Command lines, read by CLI11. Its .cpp is the one file that includes CLI11, whose templates take
// seconds to compile.
#pragma once

#include <string>

#include "tools/heed/command_line/command.h"

namespace heed {

struct CommandLine {
  Command* command = nullptr;  ///< null: none was named
  bool version = false;
  std::string help;  ///< what --help prints, if it was asked for
};

/// Finds the command and fills its `values`, each checked. UsageError for anything wrong, with the
/// nearest name, or ours for nanoGPT's and PyTorch's, for an option that is not there.
CommandLine parse_command_line(const Commands& commands, int argc, char** argv);

}  // namespace heed
