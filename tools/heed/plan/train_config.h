// The configuration of a training run, from what was given on the command line and in files.
#pragma once

#include <string>
#include <vector>

#include "nn/train/config.h"
#include "tools/heed/command_line/command.h"

namespace heed {

/// Settings of every value of a run, and of the preset that it starts from. They refer to both.
std::vector<nn::Setting> recipe_settings(nn::RunConfig& config, std::string& preset);

/// Returns what the values of c.settings are assigned to: the preset that was given, else that of
/// the task, which a text or lines also choose. UsageError if these contradict or are unknown.
nn::RunConfig chosen_preset(const Command& c);

/// Checks what c.assign() made of chosen_preset(c). UsageError or ValueError for values that
/// exclude each other or have no effect.
void check_config(const nn::RunConfig& config, const Command& c);

}  // namespace heed
