// The parameters of built-in tasks as settings: the command line, config.toml, help and errors read
// the one line that a task's options have for each.
#pragma once

#include <functional>

#include "nn/io/setting.h"
#include "nn/tasks/task.h"

namespace heed::nn {

/// The options of one task, and the function that makes the task from them.
struct TaskMaker {
  std::vector<Setting> parameters;  ///< set them, then make; they live as long as `make` does
  std::function<std::unique_ptr<Task>(std::optional<std::int64_t> context)> make;
};
/// Returns the maker of a built-in task, options at their defaults. ValueError on an unknown name.
TaskMaker task_maker(const std::string& name);

/// Returns one setting "task-KEY" for each key that any task has; its help lists the tasks, their
/// ranges and defaults. The settings read and write `values`, which must outlive them, and check
/// only the kind of a value: the range depends on the task and is checked by complete_parameters().
std::vector<Setting> task_settings(TaskParameters& values);

/// Throws ValueError, which begins with `task`, unless every parameter of the options is in its
/// range and the context has at least `least_context` tokens.
void check_parameters(const std::string& task, const std::vector<Setting>& parameters,
                      std::int64_t context, std::int64_t least_context);
template <class Options>
void check_options(const std::string& task, Options o, std::int64_t least_context = 1) {
  check_parameters(task, o.parameters(), o.context, least_context);
}

/// Returns `given` with the task's defaults for the rest. ValueError for a value out of range, and
/// for a parameter that the task does not have, with the tasks that have it.
TaskParameters complete_parameters(const std::string& task, const TaskParameters& given);

}  // namespace heed::nn
