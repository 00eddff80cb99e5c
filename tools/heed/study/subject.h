// The subject of a study: a run, a sequence and an objective L, and the texts that describe them.
#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/lab/run/run_folder.h"
#include "nn/lab/study/forward_passes.h"
#include "nn/lab/study/study.h"
#include "tools/heed/pictures.h"
#include "tools/plot/text.h"

namespace heed {

/// Texts that pictures show beside the numbers. arrays.safetensors contains them as metadata.
struct StudyTexts {
  std::string run;                  ///< name of the run directory
  std::string task;                 ///< name of the task
  std::string objective;            ///< L in words: "the logit of c at position 5"
  std::vector<std::string> tokens;  ///< labels of the axes, [T]

  /// Returns the token at a position in a form that is visible, such as "␣" for a blank.
  std::string visible_token(Index position) const {
    return plot::token_text(tokens[std::size_t(position)]);
  }
  /// Returns the texts as metadata of a file.
  std::map<std::string, std::string> metadata() const;
};

/// A run, a sequence and an objective L.
struct Subject {
  /// `sequence` is a batch of one sequence [1, T] of the run's task.
  Subject(const std::filesystem::path& folder, std::shared_ptr<const lab::LoadedRun> run,
          lab::Batch sequence, const lab::Objective& objective);

  std::shared_ptr<const lab::LoadedRun> run;
  lab::Batch sequence;  ///< [1, T]
  /// False if the text of the run is not available, so that the task has no other sequences.
  bool has_sequences = true;
  lab::Objective objective;
  PictureSource source;  ///< source.run is the path of the run as the user gave it
  StudyTexts texts;

  const nn::Transformer& model() const { return run->model; }
  const lab::TaskInfo& info() const { return run->task->info(); }
  std::string folder() const { return source.run.string(); }
  /// Returns a short description of L: "diff:c-d at 5", or "the loss at 5".
  std::string objective_text() const;
  /// Returns the sequence as text.
  std::string text() const;

  /// Returns the heads and MLPs in the value of an option (parse_components()).
  std::vector<nn::Component> components(const std::string& option, const std::string& text) const {
    const nn::Transformer::Options& o = model().options;
    return nn::parse_components(option, text, o.layers, o.attention.heads, o.mlp);
  }
  /// Runs the model on the sequence.
  lab::BaseRun base() const { return lab::BaseRun(model(), sequence, objective); }
  /// Runs the model forward and backward. Throws NumericError if L is not finite.
  lab::Study study() const;
};

/// Opens a run. If the text of the run is not available (lab::TextError) and `has_sequences` is
/// false, opens it for prompts alone. Sets `has_sequences` to whether it has the text. Throws the
/// other errors of RunFolder::open().
std::shared_ptr<lab::LoadedRun> open_for_study(const std::filesystem::path& folder,
                                               const std::string& weights, bool& has_sequences);
/// Parses `of` (loss, logprob, logprob:C, logit:C or diff:A-B), the value of --of, and `at`
/// (positions such as "3" or "3,5", or ""), the value of --at. The tokens A, B and C may be '-'.
/// `length` is the length of the sequence. Throws UsageError for any other text, for a token that
/// the model does not predict, and for a position outside of the sequence.
lab::Objective parse_objective(const std::string& of, const std::string& at,
                               const lab::TaskInfo& info, Index length);
/// Returns a description of L in words: "the logit of c minus that of d, at position 5".
std::string objective_description(const lab::Objective& o, const lab::Vocabulary& vocabulary);
/// Returns a short description of L: "diff:c-d at 5", or "the loss at 5".
std::string objective_text(const lab::Objective& o, const lab::TaskInfo& info);
/// Returns the unit of L and its changes: "logits" or "nats".
const char* effect_unit(const lab::Objective& objective);

}  // namespace heed
