// The options of every task and the functions that make the tasks. The defaults are those of
// make_task(name). Each make function throws ValueError for an option that is out of range.
//
// parameters() returns the settings that the command line calls --task-KEY (nn/tasks/parameters.h).
// They refer to the members of the options object, which must outlive them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "nn/io/setting.h"
#include "nn/tasks/task.h"

namespace heed::nn {

/// Options of the task `induction`: BOS, then a block of P different random tokens, repeated until
/// the end. P is random as well, so positions alone do not determine the next token. The accuracy
/// counts positions t > P; position t = P is not counted because its token cannot be inferred.
/// Elhage et al. 2021; Olsson et al. 2022.
struct InductionOptions {
  std::int64_t vocabulary = 32;  ///< tokens without BOS, 2 to 52
  Span periods = {3, 24};        ///< P is uniform in this range; at most `vocabulary`
  std::int64_t context = 48;     ///< tokens, at least periods.last + 2
  /// Returns the settings of this task.
  std::vector<Setting> parameters() {
    return {{"vocabulary", vocabulary, {2, 52}, "different tokens"},
            {"periods", periods, {1, 52}, "range of block lengths, drawn uniformly"}};
  }
};
/// Returns the task `induction`.
std::unique_ptr<Task> make_induction(const InductionOptions& options = {});

/// Options of the task `recall`: K pairs of a key and its value, then each key once more at a
/// random position among filler tokens. Only the position of such a query counts, and its target is
/// the key's value. There are 64 tokens: the blank token '.', 31 keys and 32 values. Arora et al.
/// 2023, Zoology (multi-query associative recall), with queries at arbitrary positions.
struct RecallOptions {
  std::int64_t pairs = 8;        ///< K, 1 to 31
  std::string filler = "blank";  ///< "blank", or "random" for uniform random tokens
  std::int64_t context = 48;     ///< tokens, at least 3 * pairs
  /// Returns the settings of this task.
  std::vector<Setting> parameters() {
    return {{"pairs", pairs, {1, 31}, "pairs of key and value"},
            {"filler", filler, std::vector<std::string>{"blank", "random"},
             "tokens between the queries"}};
  }
};
/// Returns the task `recall`.
std::unique_ptr<Task> make_recall(const RecallOptions& options = {});

/// Options of the task `markov`: a Markov chain. Each sequence draws its own transition matrix,
/// with rows uniform on the simplex, and a uniform first token. The optimal predictor counts
/// transitions: (n_ij + 1) / (n_i + symbols). Edelman et al. 2024.
struct MarkovOptions {
  std::int64_t symbols = 2;    ///< different tokens, 2 to 52
  std::int64_t context = 100;  ///< tokens, at least 1
  /// Returns the settings of this task.
  std::vector<Setting> parameters() { return {{"symbols", symbols, {2, 52}, "different tokens"}}; }
};
/// Returns the task `markov`.
std::unique_ptr<Task> make_markov(const MarkovOptions& options = {});

/// Options of the task `dyck`: balanced brackets of several types, at most `depth` of them open. At
/// depth 0 a bracket opens and at the largest depth one closes. In between, both are equally
/// likely. The type of an opening bracket is uniform. The accuracy counts closing brackets. Hewitt
/// et al. 2020; Yao et al. 2021.
struct DyckOptions {
  std::int64_t types = 4;     ///< types of brackets, 2 to 8
  std::int64_t depth = 4;     ///< largest number of open brackets, 1 to 64
  std::int64_t context = 48;  ///< tokens, at least 2
  /// Returns the settings of this task.
  std::vector<Setting> parameters() {
    return {{"types", types, {2, 8}, "types of brackets"},
            {"depth", depth, {1, 64}, "largest number of open brackets"}};
  }
};
/// Returns the task `dyck`.
std::unique_ptr<Task> make_dyck(const DyckOptions& options = {});

/// Options of the task `modadd`: the inputs a, b, = and one target, (a + b) mod p. The p^2 sums are
/// split once. Training batches contain sums of the first part without repetition; the evaluation
/// set is the second part. Power et al. 2022; Nanda et al. 2023.
struct ModaddOptions {
  std::int64_t modulus = 53;  ///< p, 2 to 119
  double train_share = 0.5;   ///< fraction of the sums in the training part, above 0, below 1
  /// "ordered" splits all sums; "unordered" puts a + b and b + a into the same part.
  std::string split = "ordered";
  std::int64_t split_seed = 1;  ///< seed of the split, 0 to 2^32 - 1
  std::int64_t context = 3;     ///< must be 3
  /// Returns the settings of this task.
  std::vector<Setting> parameters() {
    return {{"modulus", modulus, {2, 119}, "p: numbers are 0 to p - 1"},
            {"train-share", train_share, {0, 1, true, true}, "fraction of the sums to train on"},
            {"split", split, std::vector<std::string>{"ordered", "unordered"},
             "ordered: a + b may be in training while b + a is held out"},
            {"split-seed", split_seed, {0, 0xffffffff}, "seed of the held-out sums"}};
  }
};
/// Returns the task `modadd`.
std::unique_ptr<Task> make_modadd(const ModaddOptions& options = {});

/// Options of the tasks `reverse` and `copy`: T / 2 random tokens, a separator, then the same
/// tokens in reverse order, or in the same order. Only the answer has targets.
struct ReverseOptions {
  bool copy = false;             ///< true: the task `copy`
  std::int64_t vocabulary = 16;  ///< tokens without the separator, 1 to 52
  std::int64_t context = 32;     ///< tokens, even, at least 2
  /// Returns the settings of this task.
  std::vector<Setting> parameters() {
    return {{"vocabulary", vocabulary, {1, 52}, "different tokens"}};
  }
};
/// Returns the task `reverse` or `copy`.
std::unique_ptr<Task> make_reverse(const ReverseOptions& options = {});

/// Options of the task `urn`: independent tokens. Each sequence draws its own probabilities,
/// uniform on the simplex. The optimal predictor counts: (n_j + 1) / (t + colors) for token j after
/// t tokens, as in Polya's urn.
struct UrnOptions {
  std::int64_t colors = 3;    ///< different tokens, 2 to 52
  std::int64_t context = 64;  ///< tokens, at least 1
  /// Returns the settings of this task.
  std::vector<Setting> parameters() { return {{"colors", colors, {2, 52}, "different tokens"}}; }
};
/// Returns the task `urn`.
std::unique_ptr<Task> make_urn(const UrnOptions& options = {});

/// Options of the task `sort`: n random digits, then the same digits sorted. T = 2 n - 1, and only
/// the answer has targets. A quarter of all inputs is held out. Karpathy's minGPT, demo.ipynb.
struct SortOptions {
  std::int64_t digits = 3;    ///< different digits, 2 to 10; digits^n is at most 1e6
  std::int64_t context = 11;  ///< tokens, odd, at least 3
  /// Returns the settings of this task.
  std::vector<Setting> parameters() { return {{"digits", digits, {2, 10}, "different digits"}}; }
};
/// Returns the task `sort`.
std::unique_ptr<Task> make_sort(const SortOptions& options = {});

/// Options of the task `adder`: two numbers of n digits, then the n + 1 digits of their sum, the
/// last digit first. T = 3 n, and only the answer has targets. A fifth of all problems, at most
/// 500, is held out. Karpathy's minGPT, projects/adder.
struct AdderOptions {
  std::int64_t context = 6;  ///< tokens, 3 n for n from 1 to 8
  /// Returns an empty list: the context determines the task.
  std::vector<Setting> parameters() { return {}; }
};
/// Returns the task `adder`.
std::unique_ptr<Task> make_adder(const AdderOptions& options = {});

/// Options of the tasks `parity` and `majority`: T - 1 random bits, the separator |, then one bit.
/// It is 1 if the number of ones is odd (parity) or if more than half of the bits are ones
/// (majority). Only this bit is a target.
struct BitsOptions {
  bool majority = false;      ///< false: the task `parity`
  std::int64_t context = 25;  ///< tokens, at least 2; even for majority
  /// Returns an empty list: the context determines the task.
  std::vector<Setting> parameters() { return {}; }
};
/// Returns the task `parity` or `majority`.
std::unique_ptr<Task> make_bits(const BitsOptions& options = {});

/// Options of the task `random`: BOS, then independent uniform tokens.
struct RandomOptions {
  std::int64_t vocabulary = 32;  ///< tokens without BOS, 2 to 52
  std::int64_t context = 48;     ///< tokens, at least 1
  /// Returns the settings of this task.
  std::vector<Setting> parameters() {
    return {{"vocabulary", vocabulary, {2, 52}, "different tokens"}};
  }
};
/// Returns the task `random`.
std::unique_ptr<Task> make_random(const RandomOptions& options = {});

/// Options of the tasks on a UTF-8 text file. Tokens are the code points of the text in their
/// order, or its words (nn/tasks/vocabulary.h).
///
/// By default the text is a stream: sequences are windows of `context` tokens. The first 90 % of
/// the text train and the rest validate (nanoGPT's shakespeare_char).
///
/// With `by_line`, each line is a sequence that starts and ends with the token \\n. The final \\n
/// is a target; padding is not (makemore). A tenth of the lines, at most 1000, is held out. It is
/// drawn with a fixed seed, so that all runs are evaluated on the same lines, whatever their seed.
/// Empty lines are skipped. TaskInfo::note says which other lines are left out.
struct TextOptions {
  std::string path;           ///< the text file, a regular file
  std::int64_t context = 64;  ///< tokens of a sequence, at least 1
  /// Highest order of the n-gram models whose losses are references of evaluation sequences
  /// ("4-gram" in Sequence::references); the lowest is 2. 0: none. They are counted on the first
  /// 4 million training tokens, and each prediction uses only inputs that the model has, too.
  /// Counting takes about 0.2 s per order and million tokens.
  std::int64_t ngrams = 0;
  bool by_line = false;     ///< each line is a sequence
  Unit unit = Unit::kChar;  ///< unit of text of one token
  /// Number of words that are tokens, the most frequent first. All other words are the token
  /// `<unk>`. 1 to 65,534.
  std::int64_t max_words = 8192;
  /// One character, only with `by_line`. Only the tokens after the first token that ends in this
  /// character are targets, and the accuracy is the fraction of correct whole answers. Lines
  /// without the character are left out. Empty: every token of a line is a target.
  std::string answer_after = {};
};
/// Returns the task `text`, or `lines` if options.by_line is set. Throws IoError if `path` is not a
/// readable regular file of valid UTF-8 of at most 1 GiB. Throws ValueError if the text is too
/// short, if no line contains answer_after, or if an option is out of range.
std::unique_ptr<Task> make_text(const TextOptions& options);
/// Returns a task on a text that is not read. `data` is the TaskInfo::data of the original task.
/// The task accepts prompts; drawing training or evaluation sequences throws ValueError. Throws
/// IoError if `data` has no valid vocabulary.
std::unique_ptr<Task> make_text_prompts(const std::map<std::string, std::string>& data,
                                        const TextOptions& options);

}  // namespace heed::nn
