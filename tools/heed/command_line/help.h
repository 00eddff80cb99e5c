// Help texts. A command has two levels of help: `heed train --help` has the usual options, which
// are those of lab::Setting::common, and `heed train --help all` has everything.
#pragma once

#include <string>

#include "tools/heed/command_line/command.h"

namespace heed {

/// Returns the list of commands and, if `all` is true, the whole help of each command.
std::string help_text(const Commands& commands, bool all);

/// Returns the help of a command: everything if `all` is true, otherwise the usual options.
std::string help_text(const Command& command, bool all);

}  // namespace heed
