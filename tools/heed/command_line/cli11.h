// Parses command lines with CLI11. Only the .cpp of this header includes CLI11, because its
// templates take seconds to compile.
#pragma once

#include <string>

#include "tools/heed/command_line/command.h"

namespace heed {

/// A parsed command line.
struct CommandLine {
  Command* command = nullptr;  ///< the named command; null if the line names none
  bool version = false;        ///< true: --version was given
  std::string help;            ///< the text to print if --help was given, else ""
};

/// Parses the command line, finds the command and fills its `values` with checked values. Throws
/// UsageError for invalid input. For an unknown option the error suggests the nearest name, or
/// heed's name for an option of nanoGPT or PyTorch.
CommandLine parse_command_line(const Commands& commands, int argc, char** argv);

}  // namespace heed
