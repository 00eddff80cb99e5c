// The interface of tasks. A Task draws sequences for next-token prediction and computes the optimal
// loss on these sequences. make_task() returns a built-in task by its name, and make_text() in
// nn/lab/tasks/tasks.h returns a task on a text file. Losses are in nats, and token ids are int64.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autograd/tensor/random.h"
#include "autograd/tensor/tensor.h"
#include "nn/lab/tasks/vocabulary.h"

namespace heed::lab {

using autograd::Generator;
using autograd::Tensor;

/// Returns a uniform random integer in [0, n). Requires n >= 1.
inline Index draw_below(Index n, Generator& g) {
  Index drawn = 0;
  g.randint({&drawn, 1}, 0, n);
  return drawn;
}

/// Target of a position that the loss ignores. It equals the default ignore_index of
/// cross_entropy().
inline constexpr Index kIgnored = -100;

/// One sequence: the inputs of the model, and the target at each position.
struct Sequence {
  std::vector<Index> inputs;   ///< [T], token ids in [0, vocabulary)
  std::vector<Index> targets;  ///< [T], token ids in [0, classes), or kIgnored
  /// [T], true at the positions that count in the accuracy. Each of these positions has a target.
  std::vector<bool> counted;
  /// Mean loss of the Bayes-optimal predictor on this sequence, in nats per target; NaN if unknown.
  double optimal = std::numeric_limits<double>::quiet_NaN();
  /// Mean losses of simpler predictors by name, in nats per target, such as {"copy-only", 1.31}.
  std::map<std::string, double> references = {};
  /// [T], the loss of the Bayes-optimal predictor at each position, in nats; 0 at a position
  /// without a target. Empty if unknown. If it is not empty, make_batch() computes Batch::optimal
  /// from it, so that `optimal` may be omitted.
  std::vector<double> position_optimal = {};
  Index padding = 0;  ///< number of positions at the end that hold no token
};

/// B sequences of equal length T.
struct Batch {
  Tensor inputs;                ///< [B, T] int64, in [0, vocabulary)
  Tensor targets;               ///< [B, T] int64, in [0, classes) or kIgnored
  Tensor counted;               ///< [B, T] bool8, true at positions that count in the accuracy
  std::vector<double> optimal;  ///< [B], values of Sequence::optimal; empty if unknown
  std::map<std::string, std::vector<double>> references;  ///< name to [B] losses
  std::vector<double> position_optimal;                   ///< [B * T], empty if unknown
  std::vector<Index> padding;                             ///< [B], values of Sequence::padding

  /// Returns the number of tokens of sequence b, without padding.
  Index tokens_of(Index b) const {
    return inputs.size(1) - (padding.empty() ? 0 : padding[std::size_t(b)]);
  }
};

/// Returns the sequences as one batch [B, T]. Throws ValueError if the list is empty or if inputs,
/// targets and counted do not have equal lengths in all sequences.
Batch make_batch(const std::vector<Sequence>& sequences);

/// Returns a batch of one sequence [1, T] without the positions after its last target, so that no
/// padding remains.
Batch without_padding(Batch one);

/// Two prompts of equal length that differ in a few tokens, and the right next token of each.
struct PromptPair {
  std::vector<Index> clean;    ///< [T], inputs of the clean prompt
  std::vector<Index> corrupt;  ///< [T], inputs of the corrupt prompt
  Index right = 0;             ///< right next token after `clean`
  Index wrong = 0;             ///< right next token after `corrupt`, another than `right`
};

/// Facts about a task that do not change during a run.
struct TaskInfo {
  std::string name;         ///< name of the task: "induction"
  std::string description;  ///< one line of text for `heed tasks`
  std::string accuracy;     ///< what the accuracy counts: "repeat tokens right"
  std::string prompt;       ///< the prompts that Task::prompt() accepts, as text
  Vocabulary vocabulary;    ///< symbols of the inputs
  Index classes = 0;        ///< the model predicts tokens 0 to classes - 1; others are only inputs
  Index context = 0;        ///< length T of every sequence in tokens
  std::optional<Index> bos = {};   ///< the first input of every sequence, if it is fixed
  bool endless = false;            ///< true: generation may continue beyond `context`
  std::optional<Index> stop = {};  ///< the token that ends a sequence, if there is one
  /// If true, the accuracy is the fraction of sequences whose counted positions are all predicted
  /// correctly, as in a correct greedy continuation. If false, it is the fraction of counted
  /// positions that are predicted correctly. Sequences without counted positions are skipped.
  bool whole_answers = false;
  /// If true, the targets that count are drawn at random, as in a text. If false, the earlier
  /// tokens of a sequence determine them, as in a copied block.
  bool random_targets = false;
  std::string note = {};  ///< sentences about data that are left out or changed; may be empty
  /// Expected value of Sequence::optimal over the sequences of the task, in nats per target. NaN if
  /// unknown.
  double optimal = std::numeric_limits<double>::quiet_NaN();
  std::map<std::string, double> references = {};  ///< expected values of Sequence::references
  /// Expected accuracies of simpler predictors by name, such as {"values unbound", 0.125}.
  std::map<std::string, double> accuracy_references = {};
  /// The formula of `optimal`, or the reason why `optimal` is unknown. `heed tasks NAME` prints
  /// this text.
  std::string optimum = {};
  std::string source = {};  ///< the papers or the code that define the task
  /// Names of the corruptions that Task::pair() accepts: tokens whose change gives another answer,
  /// such as "value". Empty for most tasks.
  std::vector<std::string> corruptions = {};
  /// Identifies the text of a task on a file, because a checkpoint does not contain the text. Equal
  /// texts have equal entries. The entries are text_size (bytes), text_hash (64-bit FNV-1a) and
  /// vocabulary (all characters as one string, or the words as a JSON array). Empty for other
  /// tasks.
  std::map<std::string, std::string> data = {};
};

/// Draws training and evaluation sequences. Most tasks also compute the optimal loss on each
/// sequence. A derived class passes its TaskInfo to the constructor and overrides draw().
class Task {
 public:
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// Returns the facts that were passed to the constructor.
  const TaskInfo& info() const { return info_; }

  /// Returns `batch` training sequences, drawn with g. If training_size() is smaller than `batch`,
  /// returns all training sequences. Throws ValueError unless batch >= 1.
  Batch sample(Index batch, Generator& g) const;
  /// Returns an upper bound of the number of distinct training sequences.
  virtual Index training_size() const { return std::numeric_limits<Index>::max(); }
  /// Returns true if training never draws the sequences of the evaluation set, as in a text. A
  /// model can then be better on the training sequences, because it memorizes them.
  virtual bool holds_out() const { return false; }

  /// Returns the sequences first to first + count - 1 of the evaluation set. This set is fixed: it
  /// does not depend on sequences drawn before. For `text` it is the validation part, in windows of
  /// T tokens that do not overlap unless TextOptions::stride is set. For `lines` it is the held-out
  /// lines. Windows and lines are padded with ignored targets, so an average over batches must
  /// weight each batch by its number of targets. Tasks without held-out data draw the set with a
  /// fixed seed. Throws ValueError if the range is empty or outside [0, evaluation_size()).
  Batch evaluation(Index first, Index count) const;
  /// Returns the number of sequences in the evaluation set.
  virtual Index evaluation_size() const { return 1024; }
  /// Does the slow part of the first evaluation() call in advance. Calls poll() regularly. poll()
  /// may throw an exception to cancel the work.
  virtual void prepare_evaluation(const std::function<void()>& /*poll*/) const {}

  /// Returns one sequence as a batch [1, n], n <= T, that illustrates the task in a picture.
  Batch example(Generator& g) const;

  /// Returns a prompt as one sequence [1, n]. Adds BOS or the separator if the task has one. The
  /// target of a position is the next token of the prompt. The last target is ignored, unless the
  /// prompt determines it. A task may ignore more targets. Throws ValueError if the
  /// prompt has no token, if it contains a character or word that is not a symbol, if it is not one
  /// of the prompts that TaskInfo::prompt describes, or if it is longer than the context and the
  /// task is not endless.
  Batch prompt(const std::string& text) const;

  /// Draws a clean prompt and its corruption. The prompts of all pairs have the same length, and
  /// the tokens of each prompt determine its answer. Throws ValueError for a corruption that the
  /// task does not have.
  PromptPair pair(const std::string& corruption, Generator& g) const;

 protected:
  /// Stores `info` without checking it.
  explicit Task(TaskInfo info) : info_(std::move(info)) {}

  /// Returns the token ids of a prompt, including the tokens that the task adds. The default
  /// implementation adds the BOS token if the task has one and the prompt does not start with it.
  virtual std::vector<Index> prompt_inputs(const std::string& text) const;

 private:
  /// Draws the pair of a corruption, which is one of TaskInfo::corruptions.
  virtual PromptPair draw_pair(const std::string& /*corruption*/, Generator& /*g*/) const {
    return {};
  }
  /// Returns one training sequence of T tokens.
  virtual Sequence draw(Generator& g) const = 0;
  /// Returns `batch` training sequences. The default implementation calls draw() for each.
  virtual std::vector<Sequence> draw_batch(Index batch, Generator& g) const;
  /// Returns held-out sequence `number`. The default implementation returns no value. Then the
  /// evaluation set is drawn with a fixed seed.
  virtual std::optional<Sequence> held_out(Index /*number*/) const { return {}; }
  /// Draws the sequence that example() shows. The default implementation calls draw().
  virtual Sequence draw_example(Generator& g) const { return draw(g); }
  /// Changes `targets` and `counted` of a prompt so that they follow the rules of a drawn sequence.
  /// Before this call every next token that the model can predict is a target and counts.
  virtual void mark_prompt(Sequence&) const {}

  TaskInfo info_;
};

/// Returns the names that make_task() accepts, in the order in which `heed tasks` lists them.
std::vector<std::string> task_names();

/// Values of a task's parameters as text, by key, such as {"periods", "3..24"}. A missing parameter
/// has its default value. task_maker() in nn/lab/tasks/parameters.h returns the keys of a task.
using TaskParameters = std::map<std::string, std::string>;

/// Returns a built-in task. `context` is the length T of its sequences. If it has no value, the
/// task's default is used. Throws ValueError for an unknown name (the message contains the nearest
/// known name), for a context that the task does not support, for a parameter that the task does
/// not have, and for a value out of range.
std::unique_ptr<Task> make_task(const std::string& name, std::optional<Index> context = {},
                                const TaskParameters& parameters = {});

}  // namespace heed::lab
