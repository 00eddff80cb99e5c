// A task makes sequences for next-token prediction and computes the best possible loss on them.
// Built-in tasks by name; a text file by nn/tasks/tasks.h. Start with Task.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autograd/tensor/random.h"
#include "autograd/tensor/tensor.h"
#include "nn/tasks/vocabulary.h"

namespace heed::nn {

using autograd::Generator;
using autograd::Tensor;

/// A number in [0, n), each as likely.
inline std::int64_t draw_below(std::int64_t n, Generator& g) {
  std::int64_t drawn = 0;
  g.randint({&drawn, 1}, 0, n);
  return drawn;
}

/// The target of a position that does not count in the loss: cross_entropy's ignore_index.
inline constexpr std::int64_t kIgnored = -100;

/// One sequence: what the model reads, and what it should predict at each position.
struct Sequence {
  std::vector<std::int64_t> inputs;   ///< [T]
  std::vector<std::int64_t> targets;  ///< [T], kIgnored where there is nothing to predict
  std::vector<bool> counted;          ///< [T], positions of the accuracy; a subset of the targets
  /// Mean nats per target of the Bayes-optimal predictor on this very sequence; NaN if unknown.
  double optimal = std::numeric_limits<double>::quiet_NaN();
  /// Mean nats per target of simpler predictors, by name: {"copy-only", 1.31}.
  std::map<std::string, double> references = {};
  /// Nats of the Bayes-optimal predictor at each position, 0 without a target; empty if unknown.
  /// Where given, `optimal` is its mean and may be left out.
  std::vector<double> position_optimal = {};  // [T]
};

/// B sequences of one length.
struct Batch {
  Tensor inputs;                ///< [B, T] int64, in [0, vocabulary)
  Tensor targets;               ///< [B, T] int64, in [0, classes) or kIgnored
  Tensor counted;               ///< [B, T] bool8
  std::vector<double> optimal;  ///< [B], empty if unknown
  std::map<std::string, std::vector<double>> references;  ///< name -> [B]
  std::vector<double> position_optimal;                   ///< [B * T], empty if unknown
};

/// ValueError unless there is a sequence and all are of one length.
Batch make_batch(const std::vector<Sequence>& sequences);

/// Returns one sequence [1, T] up to its last target, without the padding behind it.
Batch without_padding(Batch one);

/// Facts about a task that do not change during a run.
struct TaskInfo {
  std::string name;          ///< "induction"
  std::string description;   ///< one line
  std::string accuracy;      ///< what the accuracy is a fraction of: "repeat tokens right"
  std::string prompt;        ///< what Task::prompt takes, for --help
  Vocabulary vocabulary;     ///< of the inputs
  std::int64_t classes = 0;  ///< tokens 0 .. classes - 1 are predicted, the rest are input only
  std::int64_t context = 0;  ///< T of every sequence
  std::optional<std::int64_t> bos = {};  ///< the first input of every sequence
  bool endless = false;  ///< sequences have no end: generation may go on beyond the context
  std::optional<std::int64_t> stop = {};  ///< the token that ends a sequence
  /// The accuracy is a fraction of the sequences that have counted positions: all of them right, as
  /// a greedy continuation would have them. Else of the counted positions.
  bool whole_answers = false;
  std::string note = {};  ///< what of the data is left out; empty: nothing
  /// Expectation of Sequence::optimal over the task's sequences, nats per target; NaN if unknown.
  double optimal = std::numeric_limits<double>::quiet_NaN();
  std::map<std::string, double> references = {};  ///< expectations of Sequence::references
  /// Expected `accuracy` of simpler predictors: {"values unbound", 0.125}.
  std::map<std::string, double> accuracy_references = {};
  /// The formula of `optimal`, or why there is none; for heed tasks NAME.
  std::string optimum = {};
  std::string source = {};  ///< where the task comes from: papers
  /// Identifies, in a checkpoint, data that lie outside of it. Of a text: text_size (bytes),
  /// text_hash (FNV-1a, 64 bits), vocabulary (all characters in a row; words as a JSON array).
  /// Equal data give equal entries.
  std::map<std::string, std::string> data = {};
};

class Task {
 public:
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  const TaskInfo& info() const { return info_; }

  /// `batch` training sequences from g; all of them if the task has no more. ValueError unless
  /// batch >= 1.
  Batch sample(std::int64_t batch, Generator& g) const;
  /// How many different training sequences there are, at most.
  virtual std::int64_t training_size() const { return std::numeric_limits<std::int64_t>::max(); }

  /// Sequences first .. first + count - 1 of the fixed evaluation set, whatever was drawn before.
  /// Text: the whole validation part in windows of T that do not overlap, or the lines held out,
  /// filled up with ignored targets, so weigh batches by their targets. Else: sequences from a seed
  /// of their own. ValueError outside [0, evaluation_size()).
  Batch evaluation(std::int64_t first, std::int64_t count) const;
  virtual std::int64_t evaluation_size() const { return 1024; }
  /// Does the slow part of the first evaluation() in advance. Calls poll() now and then, which may
  /// throw to cancel it.
  virtual void prepare_evaluation(const std::function<void()>& /*poll*/) const {}

  /// Returns one sequence [1, T] that shows in a picture what the task is about.
  Batch example(Generator& g) const;

  /// Returns a typed text as one sequence [1, n]: BOS or the separator is added where the task has
  /// one, targets are the next tokens of the prompt itself, the last one (to be generated) is
  /// ignored. ValueError on a character that is not a symbol, an empty prompt, or one longer than
  /// the context unless the task is endless.
  Batch prompt(const std::string& text) const;

 protected:
  explicit Task(TaskInfo info) : info_(std::move(info)) {}

  /// Returns the input ids of a prompt; by default with BOS in front unless it is typed.
  virtual std::vector<std::int64_t> prompt_inputs(const std::string& text) const;

 private:
  virtual Sequence draw(Generator& g) const = 0;
  /// By default `batch` calls of draw().
  virtual std::vector<Sequence> draw_batch(std::int64_t batch, Generator& g) const;
  /// Sequence `number` of an evaluation set that is kept apart. By default nothing: the set is
  /// drawn from a seed of its own.
  virtual std::optional<Sequence> held_out(std::int64_t /*number*/) const { return {}; }
  virtual Sequence draw_example(Generator& g) const { return draw(g); }
  /// Narrows `counted`, and drops targets, of a prompt whose targets are all its next tokens.
  virtual void mark_prompt(Sequence&) const {}

  TaskInfo info_;
};

/// The names make_task takes, best one first.
std::vector<std::string> task_names();

/// Values of a task's parameters as text, by key: {"periods", "3..24"}. The others have their
/// defaults. Which there are: nn/tasks/parameters.h.
using TaskParameters = std::map<std::string, std::string>;

/// A built-in task. `context`: T, instead of the task's own. ValueError on an unknown name, with
/// the nearest, a context that the task cannot fill, or a parameter that it does not have.
std::unique_ptr<Task> make_task(const std::string& name, std::optional<std::int64_t> context = {},
                                const TaskParameters& parameters = {});

}  // namespace heed::nn
