// The commands, one file each: cmd_<name>.cpp.
#pragma once

#include "tools/heed/command.h"

namespace heed {

std::unique_ptr<Command> tasks_command(CLI::App& app);
std::unique_ptr<Command> train_command(CLI::App& app);
std::unique_ptr<Command> eval_command(CLI::App& app);
std::unique_ptr<Command> generate_command(CLI::App& app);
std::unique_ptr<Command> gradcheck_command(CLI::App& app);
std::unique_ptr<Command> study_command(CLI::App& app);
std::unique_ptr<Command> bench_command(CLI::App& app);
std::unique_ptr<Command> info_command(CLI::App& app);

}  // namespace heed
