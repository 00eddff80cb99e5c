// Help texts. A command has several levels of help: `heed train --help` has the usual options,
// `--help GROUP` one group, `--help json` the keys of --json, and `--help all` everything. The
// levels of an option are determined by nn::Setting::group and nn::Setting::common, and those of a
// note by Command::notes.
#pragma once

#include <string>

#include "tools/heed/command_line/command.h"

namespace heed {

/// Returns the list of commands. If `level` is "all", also returns the whole help of each command.
std::string help_text(const Commands& commands, const std::string& level);

/// Returns the help of a command at a level: "" for the usual options, "all", or the name of a
/// group in lower case. Throws UsageError, which lists the groups, for any other level.
std::string help_text(const Command& command, const std::string& level);

}  // namespace heed
