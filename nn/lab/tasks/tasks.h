// The options of every task and the functions that make the tasks. make_task(name) uses the
// defaults of these options. Each make function throws ValueError if an option is out of range.
//
// parameters() returns the settings of a task, which are --task-KEY on the command line
// (nn/lab/tasks/parameters.h). The settings refer to the members of the options object, which must
// outlive the settings.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "nn/lab/settings/setting.h"
#include "nn/lab/tasks/task.h"

namespace heed::lab {

/// Options of the task `induction`: BOS, then a block of P distinct random tokens, repeated to the
/// end of the sequence. P is random too, so the positions alone do not determine the next token.
/// The accuracy counts the targets at positions t > P. The target at t = P is not counted, because
/// its prediction needs P, and P is not known before the block repeats. Sources: Elhage et al.
/// 2021; Olsson et al. 2022.
struct InductionOptions {
  Index vocabulary = 32;   ///< number of tokens without BOS, 2 to 52
  Span periods = {3, 24};  ///< range of P, drawn uniformly; at most `vocabulary`
  Index context = 48;      ///< tokens of a sequence, at least periods.last + 2
  /// Returns the settings of this task.
  std::vector<Setting> parameters() {
    return {{"vocabulary", vocabulary, {2, 52}, "different tokens"},
            {"periods", periods, {1, 52}, "range of block lengths, drawn uniformly"}};
  }
};
/// Returns the task `induction`. Throws ValueError if an option is out of range.
std::unique_ptr<Task> make_induction(const InductionOptions& options = {});

/// Options of the task `recall`: K pairs of a key and its value, then each key once more, as a
/// query, at a random position among blank tokens. Only the positions of queries have targets and
/// count. The target of a query is the value of its key. There are 64 tokens: the blank token '.',
/// 31 keys and 32 values. Source: Arora et al. 2023, Zoology (multi-query associative recall).
struct RecallOptions {
  Index pairs = 8;     ///< number of pairs K, 1 to 31
  Index context = 48;  ///< tokens of a sequence, at least 3 * pairs
  /// Returns the settings of this task.
  std::vector<Setting> parameters() {
    return {{"pairs", pairs, {1, 31}, "pairs of key and value"}};
  }
};
/// Returns the task `recall`. Throws ValueError if an option is out of range.
std::unique_ptr<Task> make_recall(const RecallOptions& options = {});

/// Options of the task `markov`: a Markov chain. Each sequence has its own random transition
/// matrix, with rows uniform on the simplex, and a uniform first token. The optimal predictor gives
/// the transition from token i to token j, which occurred n_ij times among n_i transitions from i,
/// the probability (n_ij + 1) / (n_i + symbols). Source: Edelman et al. 2024.
struct MarkovOptions {
  Index symbols = 2;    ///< number of tokens, 2 to 52
  Index context = 100;  ///< tokens of a sequence, at least 1
  /// Returns the settings of this task.
  std::vector<Setting> parameters() { return {{"symbols", symbols, {2, 52}, "different tokens"}}; }
};
/// Returns the task `markov`. Throws ValueError if an option is out of range.
std::unique_ptr<Task> make_markov(const MarkovOptions& options = {});

/// Options of the task `dyck`: balanced brackets of several types, with at most `depth` open
/// brackets. If no bracket is open, the next bracket is an opening bracket. If `depth` brackets are
/// open, it is a closing bracket. Otherwise opening and closing are equally likely. The type of an
/// opening bracket is uniform. The accuracy counts closing brackets. Sources: Hewitt et al. 2020;
/// Yao et al. 2021.
struct DyckOptions {
  Index types = 4;     ///< types of brackets, 2 to 8
  Index depth = 4;     ///< largest number of open brackets, 1 to 64
  Index context = 48;  ///< tokens of a sequence, at least 2
  /// Returns the settings of this task.
  std::vector<Setting> parameters() {
    return {{"types", types, {2, 8}, "types of brackets"},
            {"depth", depth, {1, 64}, "largest number of open brackets"}};
  }
};
/// Returns the task `dyck`. Throws ValueError if an option is out of range.
std::unique_ptr<Task> make_dyck(const DyckOptions& options = {});

/// Options of the task `modadd`: the inputs are a, b and =, and the only target is (a + b) mod p.
/// The p^2 sums are split at random into a training part and an evaluation part. No sum occurs
/// twice in a training batch. Sources: Power et al. 2022; Nanda et al. 2023.
struct ModaddOptions {
  Index modulus = 53;        ///< modulus p, 2 to 119
  double train_share = 0.5;  ///< fraction of sums in the training part; above 0, below 1
  /// "ordered" splits a + b and b + a independently; "unordered" puts them into the same part.
  std::string split = "ordered";
  std::int64_t split_seed = 1;  ///< seed of the split, 0 to 2^32 - 1
  Index context = 3;            ///< must be 3
  /// Returns the settings of this task.
  std::vector<Setting> parameters() {
    return {{"modulus", modulus, {2, 119}, "p: numbers are 0 to p - 1"},
            {"train-share", train_share, {0, 1, true, true}, "fraction of the sums to train on"},
            {"split", split, std::vector<std::string>{"ordered", "unordered"},
             "ordered: a + b may be in training while b + a is held out"},
            {"split-seed", split_seed, {0, 0xffffffff}, "seed of the held-out sums"}};
  }
};
/// Returns the task `modadd`. Throws ValueError if an option is out of range.
std::unique_ptr<Task> make_modadd(const ModaddOptions& options = {});

/// Options of the tasks `reverse` and `copy`: T / 2 random tokens, a separator, then the answer.
/// The answer is the random tokens in reverse order (`reverse`) or in their order (`copy`). Only
/// the tokens of the answer are targets.
struct ReverseOptions {
  bool copy = false;      ///< true: `copy`; false: `reverse`
  Index vocabulary = 16;  ///< number of tokens without the separator, 1 to 52
  Index context = 32;     ///< tokens of a sequence, T; even, at least 2
  /// Returns the settings of this task.
  std::vector<Setting> parameters() {
    return {{"vocabulary", vocabulary, {1, 52}, "different tokens"}};
  }
};
/// Returns the task `reverse` or `copy`. Throws ValueError if an option is out of range.
std::unique_ptr<Task> make_reverse(const ReverseOptions& options = {});

/// Options of the task `random`: BOS, then independent uniform tokens.
struct RandomOptions {
  Index vocabulary = 32;  ///< number of tokens without BOS, 2 to 52
  Index context = 48;     ///< tokens of a sequence, at least 1
  /// Returns the settings of this task.
  std::vector<Setting> parameters() {
    return {{"vocabulary", vocabulary, {2, 52}, "different tokens"}};
  }
};
/// Returns the task `random`. Throws ValueError if an option is out of range.
std::unique_ptr<Task> make_random(const RandomOptions& options = {});

/// Options of the tasks `text` and `lines` on a UTF-8 text file. Each token is a code point or a
/// word of the text (nn/lab/tasks/vocabulary.h).
///
/// By default (`text`), sequences are windows of `context` tokens of the text. The first 90 % of
/// the text are for training, the rest is for validation, as in nanoGPT's shakespeare_char.
///
/// If `by_line` is set (`lines`), each line is a sequence that starts and ends with a newline
/// token, as in Karpathy's makemore. The final newline is a target, but padding is not. A tenth of
/// the lines, but at most 1000, is held out. The held-out lines are drawn with a fixed seed, so
/// that all runs on a file are evaluated on the same lines. Empty lines are skipped. TaskInfo::note
/// describes which other lines are left out.
struct TextOptions {
  std::string path;    ///< the text file, a regular file
  Index context = 64;  ///< length T of a sequence in tokens, at least 1
  /// If set, the loss of a bigram model is a reference of evaluation sequences ("2-gram" in
  /// Sequence::references). Bigrams are counted on the first 4 million training tokens.
  bool bigrams = false;
  bool by_line = false;     ///< true: each line is a sequence
  Unit unit = Unit::kChar;  ///< unit of text that one token stands for
  /// Empty or one character; requires `by_line`. If it is set, only the tokens after the first
  /// token that ends in this character are targets. The accuracy is then the fraction of whole
  /// answers that are correct. Lines without such a token are left out. If it is empty, every token
  /// of a line is a target.
  std::string answer_after = {};
  /// Distance in tokens between the starts of two successive evaluation windows of `text`, 1 to
  /// `context`; 0 means `context`. If it is smaller than `context`, windows overlap, and all
  /// windows but the first have targets only at their last `stride` positions. So each token is a
  /// target once, and at least context - stride tokens precede it (except in the first window).
  Index stride = 0;
};
/// Returns the task `text`, or the task `lines` if options.by_line is set. Throws IoError if `path`
/// is not a readable, non-empty regular file of valid UTF-8, if the file has more than 1 GiB, or if
/// it has more than 65,536 distinct characters or words. Throws ValueError if the text is too short
/// or has fewer than 10 usable lines, if no token ends in answer_after, or if an option is out of
/// range.
std::unique_ptr<Task> make_text(const TextOptions& options);
/// Returns the task `text` or `lines` on a text in the tokens of another one, to evaluate a model
/// on it. Its evaluation set is the whole text, or all of its lines, and drawing training sequences
/// throws ValueError. The tokens are those of `vocabulary`, by their symbols; options.unit and
/// options.bigrams are ignored. Throws the errors of make_text(), but one line or two tokens
/// suffice. Also throws ValueError for a character or word that is not a symbol (the message
/// contains its line), and for lines if newline is not a symbol.
std::unique_ptr<Task> make_whole_text(const TextOptions& options, const Vocabulary& vocabulary);
/// Returns a task on a text without reading the text. `data` is the TaskInfo::data of the task that
/// read the text. The returned task accepts prompts, but drawing training or evaluation sequences
/// throws ValueError. Throws the errors of vocabulary_of() in nn/lab/tasks/corpus.h.
std::unique_ptr<Task> make_text_prompts(const std::map<std::string, std::string>& data,
                                        const TextOptions& options);

/// Key of the record that saved_data() adds for a task that is not a part of heed.
inline constexpr const char* kOwnTaskKey = "own_task";
/// Returns TaskInfo::data and, for a task that is not a part of heed, a record of its vocabulary
/// and its prompts. Weights files contain them as metadata.
std::map<std::string, std::string> saved_data(const TaskInfo& info);
/// Returns a task that accepts the prompts of another program's task, as its record states them.
/// Drawing training or evaluation sequences throws ValueError. Throws IoError if the record is
/// damaged.
std::unique_ptr<Task> make_own_prompts(const std::string& name, Index context,
                                       const std::string& record);

}  // namespace heed::lab
