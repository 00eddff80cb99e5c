// Parses command lines with CLI11. Only cli11.cpp includes CLI11, because the templates of CLI11
// take seconds to compile.
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
/// UsageError for invalid input. For an unknown option, the error suggests the option with the most
/// similar name. If the option is known from nanoGPT or PyTorch, the error gives heed's name for
/// it.
CommandLine parse_command_line(const Commands& commands, int argc, char** argv);

}  // namespace heed
