// The interface of tasks: a Task draws sequences for next-token prediction and computes the optimal
// loss on them. make_task() returns a built-in task by its name; make_text() in nn/tasks/tasks.h
// returns a task on a text file. Losses are in nats, token ids are int64.
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

/// Returns a uniform random integer in [0, n). Requires n >= 1.
inline std::int64_t draw_below(std::int64_t n, Generator& g) {
  std::int64_t drawn = 0;
  g.randint({&drawn, 1}, 0, n);
  return drawn;
}

/// Target of a position that is ignored in the loss. Equals the default ignore_index of
/// cross_entropy.
inline constexpr std::int64_t kIgnored = -100;

/// One sequence: the inputs of the model, and the target at each position.
struct Sequence {
  std::vector<std::int64_t> inputs;   ///< [T], in [0, vocabulary)
  std::vector<std::int64_t> targets;  ///< [T], in [0, classes), or kIgnored
  /// [T], the positions that count in the accuracy. Each of them has a target.
  std::vector<bool> counted;
  /// Mean loss of the Bayes-optimal predictor on this sequence, in nats per target; NaN if unknown.
  double optimal = std::numeric_limits<double>::quiet_NaN();
  /// Mean loss of simpler predictors, in nats per target, by name: {"copy-only", 1.31}.
  std::map<std::string, double> references = {};
  /// [T], the loss of the Bayes-optimal predictor at each position in nats, 0 at a position without
  /// a target; empty if unknown. If it is given, `optimal` is computed from it and may be omitted.
  std::vector<double> position_optimal = {};
};

/// B sequences of one length T.
struct Batch {
  Tensor inputs;                ///< [B, T] int64, in [0, vocabulary)
  Tensor targets;               ///< [B, T] int64, in [0, classes) or kIgnored
  Tensor counted;               ///< [B, T] bool8, true: counts in the accuracy
  std::vector<double> optimal;  ///< [B], Sequence::optimal; empty if unknown
  std::map<std::string, std::vector<double>> references;  ///< [B] for each name
  std::vector<double> position_optimal;                   ///< [B * T], empty if unknown
};

/// Returns the sequences as one batch [B, T]. Throws ValueError if the list is empty or if the
/// lengths of the sequences or of their fields differ.
Batch make_batch(const std::vector<Sequence>& sequences);

/// Returns a batch of one sequence [1, T] cut after its last target, so that no padding remains.
Batch without_padding(Batch one);

/// Facts about a task that do not change during a run.
struct TaskInfo {
  std::string name;          ///< as make_task() accepts it: "induction"
  std::string description;   ///< one line for `heed tasks`
  std::string accuracy;      ///< the meaning of the accuracy: "repeat tokens right"
  std::string prompt;        ///< the prompts that Task::prompt accepts, for --help
  Vocabulary vocabulary;     ///< symbols of the inputs
  std::int64_t classes = 0;  ///< tokens 0 .. classes - 1 are predicted, the rest are input only
  std::int64_t context = 0;  ///< length T of every sequence, in tokens
  std::optional<std::int64_t> bos = {};  ///< the first input of every sequence
  bool endless = false;  ///< sequences have no end, so generation may continue beyond the context
  std::optional<std::int64_t> stop = {};  ///< the token that ends a sequence
  /// If true, the accuracy is the fraction of sequences whose counted positions are all predicted
  /// correctly, as in a correct greedy continuation. If false, it is the fraction of counted
  /// positions that are predicted correctly. Sequences without counted positions are skipped.
  bool whole_answers = false;
  std::string note = {};  ///< says which data are left out; empty if none are
  /// Expected value of Sequence::optimal over the task's sequences, nats per target; NaN if
  /// unknown.
  double optimal = std::numeric_limits<double>::quiet_NaN();
  std::map<std::string, double> references = {};  ///< expected values of Sequence::references
  /// Expected accuracy of simpler predictors: {"values unbound", 0.125}.
  std::map<std::string, double> accuracy_references = {};
  /// The formula of `optimal`, or the reason why there is none. `heed tasks NAME` prints it.
  std::string optimum = {};
  std::string source = {};  ///< the papers or the code that define the task
  /// Identifies data that a checkpoint does not contain. For a text the entries are text_size
  /// (bytes), text_hash (64-bit FNV-1a) and vocabulary (all characters as one string, or the words
  /// as a JSON array). Equal data have equal entries.
  std::map<std::string, std::string> data = {};
};

/// Generator of sequences whose optimal loss is known or can be compared. A derived class passes
/// its TaskInfo to the constructor and overrides draw().
class Task {
 public:
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// Returns the facts that were passed to the constructor.
  const TaskInfo& info() const { return info_; }

  /// Returns `batch` training sequences drawn from g, or all training sequences if the task has
  /// fewer. Throws ValueError unless batch >= 1.
  Batch sample(std::int64_t batch, Generator& g) const;
  /// Returns an upper bound of the number of different training sequences.
  virtual std::int64_t training_size() const { return std::numeric_limits<std::int64_t>::max(); }

  /// Returns sequences first .. first + count - 1 of the evaluation set. The set is fixed: it does
  /// not depend on sequences drawn before. For a text it is the whole validation part in windows of
  /// T tokens that do not overlap; for lines it is the lines held out. Both are padded with ignored
  /// targets, so an average over batches must weight each batch by its number of targets. Tasks
  /// without held-out data draw the set from a fixed seed. Throws ValueError if the range is empty
  /// or outside [0, evaluation_size()).
  Batch evaluation(std::int64_t first, std::int64_t count) const;
  /// Returns the number of sequences in the evaluation set.
  virtual std::int64_t evaluation_size() const { return 1024; }
  /// Does the slow part of the first evaluation() in advance. Calls poll() regularly; poll() may
  /// throw to cancel the work.
  virtual void prepare_evaluation(const std::function<void()>& /*poll*/) const {}

  /// Returns one sequence [1, T] that illustrates the task in a picture.
  Batch example(Generator& g) const;

  /// Returns a prompt as one sequence [1, n]. Adds BOS or the separator if the task has one. The
  /// targets are the next tokens of the prompt; the last target is ignored because its token is not
  /// generated yet. Throws ValueError if the prompt is empty, if it contains a character that is
  /// not a symbol, or if it is longer than the context and the task is not endless.
  Batch prompt(const std::string& text) const;

 protected:
  /// Stores the facts. Does not check them.
  explicit Task(TaskInfo info) : info_(std::move(info)) {}

  /// Returns the input ids of a prompt. The default implementation adds BOS if the task has a BOS
  /// token and the prompt does not start with it.
  virtual std::vector<std::int64_t> prompt_inputs(const std::string& text) const;

 private:
  /// Returns one training sequence of T tokens.
  virtual Sequence draw(Generator& g) const = 0;
  /// Returns `batch` training sequences. The default implementation calls draw() for each.
  virtual std::vector<Sequence> draw_batch(std::int64_t batch, Generator& g) const;
  /// Returns sequence `number` of the held-out sequences. The default implementation returns
  /// nothing, and then the evaluation set is drawn from a fixed seed.
  virtual std::optional<Sequence> held_out(std::int64_t /*number*/) const { return {}; }
  /// Returns the sequence of example().
  virtual Sequence draw_example(Generator& g) const { return draw(g); }
  /// Removes positions from `counted` and `targets` of a prompt, in which every next token is a
  /// target, so that both follow the rules of a drawn sequence.
  virtual void mark_prompt(Sequence&) const {}

  TaskInfo info_;
};

/// Returns the names that make_task() accepts, in the order in which they are listed for users.
std::vector<std::string> task_names();

/// Values of a task's parameters as text, by key: {"periods", "3..24"}. Parameters that are missing
/// here have their defaults. nn/tasks/parameters.h lists the keys of a task.
using TaskParameters = std::map<std::string, std::string>;

/// Returns a built-in task. `context` is the length T of its sequences; if it is missing, the
/// task's default is used. Throws ValueError for an unknown name (the message contains the nearest
/// one), for a context that the task does not support, for a parameter that the task does not have
/// and for a value out of range.
std::unique_ptr<Task> make_task(const std::string& name, std::optional<std::int64_t> context = {},
                                const TaskParameters& parameters = {});

}  // namespace heed::nn
