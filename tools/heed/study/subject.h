// What a study is of: a run, a sequence and a scalar L of it, and the words for them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/run/run_folder.h"
#include "nn/study/study.h"
#include "tools/heed/pictures.h"

namespace heed {

/// What pictures say beside the numbers; arrays.safetensors keeps it as metadata.
struct StudyTexts {
  std::string run;  ///< the folder's name
  std::string task;
  std::string objective;            ///< "the logit of c minus that of d, at position 5"
  std::vector<std::string> tokens;  ///< labels of the axes

  std::map<std::string, std::string> metadata() const;
};

/// A run on one sequence, and L.
struct Subject {
  /// `one` is a sequence [1, T] of the run's task.
  Subject(const std::filesystem::path& folder, std::shared_ptr<const nn::LoadedRun> run,
          nn::Batch one, const nn::Objective& objective);

  std::shared_ptr<const nn::LoadedRun> run;
  nn::Batch one;
  nn::Objective objective;
  PictureSource source;  ///< source.run is the run's folder, as it was given
  StudyTexts words;

  const nn::Transformer& model() const { return run->model; }
  const nn::TaskInfo& info() const { return run->task->info(); }
  std::string folder() const { return source.run.string(); }
  /// L as --of and --at say it: "diff:c-d at 5".
  std::string of() const;
  /// The sequence.
  std::string text() const;

  /// Runs the model forward and backward, and cuts each head unless that would take seconds.
  /// NumericError if L is not finite.
  nn::Study study() const;
};

/// L as --of and --at say it.
std::string objective_text(const nn::Objective& o, const nn::TaskInfo& info);

}  // namespace heed
