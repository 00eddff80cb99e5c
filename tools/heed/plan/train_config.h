// What a training run shall be, from what was given and by whom.
#pragma once

#include <string>
#include <vector>

#include "nn/train/config.h"
#include "tools/heed/command_line/command.h"

namespace heed {

/// Every value of a run, and the preset that it starts from. They refer to both.
std::vector<nn::Setting> recipe_settings(nn::RunConfig& config, std::string& preset);

/// Makes `config`, which c.settings refer to, of what was given. Precedence: option > config file >
/// preset > default; the first two are settled in c.values and assigned. UsageError or ValueError
/// for what does not go together or has no effect.
void make_config(nn::RunConfig& config, const std::string& preset, const Command& c);

}  // namespace heed
