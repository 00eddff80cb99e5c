#include "tools/heed/commands.h"

#include "tools/heed/report/output.h"

namespace heed {

Commands all_commands() {
  Commands commands;
  using Declare = void (*)(Command&);
  const std::pair<const char*, std::vector<Declare>> kinds[] = {
      {"Train", {train_command, compare_command, tasks_command}},
      {"Look", {eval_command, generate_command, study_command, plot_command, info_command}},
      {"Check", {gradcheck_command}},
      {"Other", {export_command, import_command}}};
  for (const auto& [kind, list] : kinds)
    for (const Declare declare : list) {
      Command& command = *commands.emplace_back(std::make_unique<Command>());
      declare(command);
      command.kind = kind;
    }
  for (const auto& command : commands)
    for (lab::Setting& s : command->settings) s.help = with_options(s.help);
  return commands;
}

}  // namespace heed
