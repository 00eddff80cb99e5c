// The parameters of built-in tasks as settings. Each parameter is defined once, in parameters() of
// the task's options. The command line, config.toml, help texts and errors all use this definition.
#pragma once

#include <functional>

#include "autograd/base/error.h"
#include "nn/lab/settings/setting.h"
#include "nn/lab/tasks/task.h"

namespace heed::lab {

/// The options of one task, and the function that makes the task from them.
struct TaskMaker {
  /// Settings that write the options object from which `make` makes the task. `make` owns this
  /// object, so the settings must not be used after `make` is destroyed.
  std::vector<Setting> parameters;
  /// Returns the task. If `context` has no value, the default of the options is used.
  std::function<std::unique_ptr<Task>(std::optional<Index> context)> make;
};
/// Returns the maker of a built-in task, with all options at their defaults. Throws ValueError if
/// the name is unknown.
TaskMaker task_maker(const std::string& name);

/// Returns one setting "task-KEY" for each KEY that is a parameter of at least one task. The help
/// of a setting lists these tasks with their ranges and defaults. The settings read and write
/// `values`, which must outlive them. They check only the kind of a value, such as a whole number.
/// complete_parameters() checks the range, because the range depends on the task.
std::vector<Setting> task_settings(TaskParameters& values);

/// Throws ValueError unless every parameter of an options object (tasks.h) is in its range and its
/// context is at least `least_context`. The message begins with `task`.
template <class Options>
void check_options(const std::string& task, Options o, Index least_context = 1) {
  for (const Setting& s : o.parameters())
    if (const std::string wrong = s.problem(s.key, s.get()); !wrong.empty())
      heed::fail<autograd::ValueError>(task, wrong);
  heed::check<autograd::ValueError>(o.context >= least_context, task,
                                    "needs a context of at least ", least_context, ", got ",
                                    o.context);
}

/// Returns all parameters of a task: those in `given` with their given values, and all others with
/// their defaults. Throws ValueError if a value is out of range. Throws ValueError if the task does
/// not have a parameter; the message lists the tasks that have this parameter.
TaskParameters complete_parameters(const std::string& task, const TaskParameters& given);

}  // namespace heed::lab
