// The commands, a folder each.
#pragma once

#include "tools/heed/command_line/command.h"

namespace heed {

std::unique_ptr<Command> tasks_command();
std::unique_ptr<Command> train_command();
std::unique_ptr<Command> eval_command();
std::unique_ptr<Command> generate_command();
std::unique_ptr<Command> gradcheck_command();
std::unique_ptr<Command> study_command();
std::unique_ptr<Command> verify_command();
std::unique_ptr<Command> bench_command();
std::unique_ptr<Command> info_command();
std::unique_ptr<Command> completions_command();

}  // namespace heed
