#include "nn/lab/tasks/parameters.h"

#include "autograd/base/text.h"

namespace heed::lab {

using namespace autograd;

namespace {

constexpr const char* kPrefix = "task-";

// Returns the values that a parameter accepts and its default, such as "2 to 52, default 32".
std::string values_text(const Setting& parameter) {
  const std::string allowed =
      parameter.names.empty() ? parameter.range.text() : join(parameter.names, " or ");
  return allowed + ", default " + parameter.shown;
}

std::vector<std::string> tasks_with(const std::string& key) {
  std::vector<std::string> tasks;
  for (const std::string& name : task_names())
    if (find_setting(task_maker(name).parameters, key)) tasks.push_back(name);
  return tasks;
}

}  // namespace

std::vector<Setting> task_settings(TaskParameters& values) {
  struct Use {
    std::string values;
    std::vector<std::string> tasks;
  };
  std::vector<Setting> settings;
  std::map<std::string, std::vector<Use>> uses;
  for (const std::string& task : task_names())
    for (const Setting& parameter : task_maker(task).parameters) {
      const std::string key = parameter.key, text = values_text(parameter);
      std::vector<Use>& known = uses[key];
      if (known.empty()) {
        Setting& s = settings.emplace_back(parameter);
        s.key = kPrefix + key, s.range = {}, s.shown = "the task's";
        s.get = [&values, key] { return values.contains(key) ? values.at(key) : ""; };
        s.set_checked = [&values, key](const std::string& value) { values[key] = value; };
      }
      if (known.empty() || known.back().values != text) known.push_back({text, {}});
      known.back().tasks.push_back(task);
    }
  for (Setting& s : settings) {
    for (const Use& use : uses[s.key.substr(std::string(kPrefix).size())])
      s.help += "; " + join(use.tasks) + ": " + use.values;
    s.names.clear();  // s.help has the names, and complete_parameters() checks a name
  }
  return settings;
}

TaskParameters complete_parameters(const std::string& task, const TaskParameters& given) {
  const std::vector<std::string> names = task_names();
  const bool built_in = std::find(names.begin(), names.end(), task) != names.end();
  const TaskMaker maker = built_in ? task_maker(task) : TaskMaker{};
  for (const auto& [key, value] : given)
    if (!find_setting(maker.parameters, key)) {
      const std::vector<std::string> tasks = tasks_with(key);
      const std::string name = "`" + (kPrefix + key) + "`";
      check<ValueError>(!tasks.empty(), name, "no task has this parameter; leave it out");
      fail<ValueError>(name, "the task ", task, " does not have this parameter; only ", join(tasks),
                       tasks.size() == 1 ? " has it" : " have it");
    }
  TaskParameters all;
  for (const Setting& parameter : maker.parameters) {
    const auto found = given.find(parameter.key);
    if (found != given.end()) parameter.set("`" + (kPrefix + parameter.key) + "`", found->second);
    all[parameter.key] = parameter.get();
  }
  return all;
}

}  // namespace heed::lab
