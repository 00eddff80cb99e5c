// Evaluation of a model on a task: the loss of the model and the optimal loss on the same
// sequences.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/lab/tasks/task.h"
#include "nn/layers/transformer.h"

namespace heed::lab {

/// Sizes of predicted tokens as text.
struct TextSize {
  Index tokens = 0;        ///< number of tokens
  Index characters = 0;    ///< code points; newlines count
  std::int64_t bytes = 0;  ///< bytes of UTF-8
  /// Adds one token.
  void add(const Vocabulary& vocabulary, Index id);
};

/// Quality of the predictions of a text. Unlike a loss in nats per token, bits per character or per
/// byte can be compared between models with different vocabularies. Without tokens, all values are
/// missing.
struct TextQuality {
  std::optional<double> perplexity = {};          ///< exp of the nats per token
  std::optional<double> bits_per_character = {};  ///< total nats / ln 2 / code points
  std::optional<double> bits_per_byte = {};       ///< total nats / ln 2 / bytes
};
/// Returns the quality of predictions that cost `nats` in total.
TextQuality text_quality(double nats, const TextSize& size);

/// Result of evaluate(). Losses are means in nats per target over a set of sequences.
struct Evaluation {
  double loss = 0;  ///< loss of the model
  /// Loss of the Bayes-optimal predictor on the same sequences; no value if the task cannot compute
  /// it.
  std::optional<double> optimal;
  /// Standard error of loss - optimal, or of `loss` if `optimal` is none, estimated over the
  /// sequences. None for fewer than two sequences.
  std::optional<double> standard_error;
  /// Fraction of the counted positions, or of whole answers, that are predicted correctly, 0 to 1
  /// (TaskInfo::whole_answers). None if no position is counted.
  std::optional<double> accuracy;
  /// Losses of simple predictors on the same sequences, for example {"copy-only", 1.37}.
  std::vector<std::pair<std::string, double>> references;
  std::vector<double> position_loss;     ///< mean loss at each position; NaN if it has no targets
  std::vector<double> position_optimal;  ///< optimal loss at each position; empty if unknown
  Index sequences = 0;                   ///< number of sequences that were evaluated
  Index tokens = 0;                      ///< number of targets that were evaluated
  TextQuality text = {};                 ///< values of a task on a text; all are none for others
  /// If the loss is not finite: a text with the first op whose result is not finite although all
  /// its inputs are finite.
  std::string trouble = {};
};

/// Returns whether the loss is more than 4 standard errors below the optimal loss. This is
/// very improbable by chance, so the model probably reads the tokens that it should predict.
bool leaks(const Evaluation& e);
/// Returns the error message for an evaluation for which leaks() is true. It contains both losses.
std::string leak_text(const Evaluation& e);

/// Returns the number of sequences in each forward pass of evaluate().
Index evaluation_chunk(const Transformer& model, const TaskInfo& info);

/// Returns the number of sequences in the final evaluation of a run: the whole evaluation set, but
/// at most as many sequences as have 1,000,000 positions in total. A long text can have more.
Index final_evaluation_size(const Task& task);

/// Evaluates the model, without dropout, on the first `sequences` sequences of the task's
/// evaluation set. If `sequences` is 0, uses final_evaluation_size() sequences, as at the end of a
/// run. If it is larger than the set, uses the whole set. Does not use the random streams of a run,
/// so that evaluating more or less often does not change the run. `progress` receives the number of
/// sequences done and their total. While the task prepares its evaluation set, for example counts
/// the bigrams of a text, `progress` receives (0, 0).
Evaluation evaluate(const Transformer& model, const Task& task, Index sequences = 0,
                    const ProgressCallback& progress = {});

/// Evaluates the model, without dropout, on `sequences` training sequences, or on all if the task
/// has fewer. They are drawn with a fixed seed, so that they are the same in each evaluation of a
/// run. If the loss is below that of evaluate(), the model memorizes. Loss, accuracy, sequences and
/// tokens of the result are set. `progress` is called as by evaluate().
Evaluation evaluate_training(const Transformer& model, const Task& task, Index sequences,
                             const ProgressCallback& progress = {});

/// Prediction of a token from the tokens before it.
struct TokenScore {
  double log_probability = 0;  ///< natural logarithm of the probability
  Index rank = 1;              ///< 1 + number of tokens with a larger logit
};
/// Returns the score of each token of a sequence, whose `ids` have shape [1, T]. The first token
/// and tokens that the model never predicts, such as BOS, have none. Throws NumericError if a logit
/// is not finite.
std::vector<std::optional<TokenScore>> score(const Transformer& model, const Tensor& ids);

}  // namespace heed::lab
