// Builds the configuration of a training run from the command line and from configuration files.
#pragma once

#include <string>
#include <vector>

#include "nn/lab/train/config.h"
#include "tools/heed/command_line/command.h"

namespace heed {

/// Returns settings for all values of `config` and for `preset`, the name of the preset. The
/// settings refer to both arguments, which must outlive them.
std::vector<lab::Setting> recipe_settings(lab::RunConfig& config, std::string& preset);

/// Returns the configuration to which c.assign() applies the given values. It is the preset that
/// was given or, if none was given, the preset of the task. If a text or lines file is given, it
/// determines the task. With `from`, the model is that of the source. The task is also that of the
/// source, unless a task, a file or a preset is given. Throws UsageError if the given values
/// contradict each other or are unknown, and IoError if the source cannot be read.
lab::RunConfig chosen_preset(const Command& c);

/// Checks the configuration that c.assign() has produced from chosen_preset(c). Replaces a run in
/// config.from by its weights file. Throws UsageError or ValueError if values contradict each other
/// or have no effect.
void check_config(lab::RunConfig& config, const Command& c);

}  // namespace heed
