// Declarations of all commands. Each function fills in a Command: its name, help, settings and
// modes. Each command is implemented in the directory of its name.
#pragma once

#include "tools/heed/command_line/command.h"

namespace heed {

void tasks_command(Command& c);
void train_command(Command& c);
void eval_command(Command& c);
void generate_command(Command& c);
void gradcheck_command(Command& c);
void study_command(Command& c);
void plot_command(Command& c);
void info_command(Command& c);
void compare_command(Command& c);
void export_command(Command& c);
void import_command(Command& c);

}  // namespace heed
