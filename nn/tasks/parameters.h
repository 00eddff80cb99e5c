// The parameters of built-in tasks as settings. The command line, config.toml, help and errors all
// use the same definition of a parameter: its line in parameters() of the task's options.
#pragma once

#include <functional>

#include "nn/io/setting.h"
#include "nn/tasks/task.h"

namespace heed::nn {

/// The options of one task, and the function that makes the task from them.
struct TaskMaker {
  /// Settings of the options object that `make` reads. `make` owns the object, so they must not be
  /// used after `make` is destroyed.
  std::vector<Setting> parameters;
  /// Returns the task. A missing context means the default of the options.
  std::function<std::unique_ptr<Task>(std::optional<std::int64_t> context)> make;
};
/// Returns the maker of a built-in task, with all options at their defaults. Throws ValueError for
/// an unknown name.
TaskMaker task_maker(const std::string& name);

/// Returns one setting "task-KEY" for each key that at least one task has. Its help lists the tasks
/// with their ranges and defaults. The settings read and write `values`, which must outlive them.
/// They check only the kind of a value. Its range depends on the task, and complete_parameters()
/// checks it.
std::vector<Setting> task_settings(TaskParameters& values);

/// Throws ValueError unless every parameter is in its range and the context has at least
/// `least_context` tokens. The message begins with `task`.
void check_parameters(const std::string& task, const std::vector<Setting>& parameters,
                      std::int64_t context, std::int64_t least_context);
/// Calls check_parameters() for an options object of nn/tasks/tasks.h.
template <class Options>
void check_options(const std::string& task, Options o, std::int64_t least_context = 1) {
  check_parameters(task, o.parameters(), o.context, least_context);
}

/// Returns all parameters of the task: the given values, and the defaults of the others. Throws
/// ValueError for a value out of range and for a parameter that the task does not have. In the
/// second case the message lists the tasks that have it.
TaskParameters complete_parameters(const std::string& task, const TaskParameters& given);

}  // namespace heed::nn
