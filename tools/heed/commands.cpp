#include "tools/heed/commands.h"

#include "tools/heed/report/output.h"

namespace heed {

Commands all_commands() {
  Commands commands;
  for (const auto declare :
       {train_command, sweep_command, compare_command, eval_command, generate_command,
        score_command, study_command, plot_command, gradcheck_command, verify_command,
        bench_command, info_command, diff_command, export_command, runs_command, tasks_command,
        completions_command})
    declare(*commands.emplace_back(std::make_unique<Command>()));
  for (const auto& command : commands)
    for (nn::Setting& s : command->settings) s.help = with_options(s.help);
  return commands;
}

}  // namespace heed
