// Every task with its options. The defaults are those of make_task(name); parameters() are the
// settings task-KEY (nn/tasks/parameters.h), and refer to the options object.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "nn/io/setting.h"
#include "nn/tasks/task.h"

namespace heed::nn {

/// BOS, then a block of P different random tokens, again and again; P is random, too, so positions
/// alone do not tell what comes next. Accuracy counts the repeats: t > P (that t = P wraps cannot
/// be known). Elhage et al. 2021; Olsson et al. 2022.
struct InductionOptions {
  std::int64_t vocabulary = 32;  ///< tokens without BOS, 2 to 52
  Span periods = {3, 24};        ///< P uniform among them
  std::int64_t context = 48;     ///< at least periods.last + 2
  std::vector<Setting> parameters() {
    return {{"vocabulary", vocabulary, {2, 52}, "different tokens"},
            {"periods", periods, {1, 52}, "lengths of a block, each as likely"}};
  }
};
std::unique_ptr<Task> make_induction(const InductionOptions& options = {});

/// K pairs of a key and its value, then the keys again somewhere among filler: only what follows a
/// key's second place counts, and it is the value. 64 tokens: . for blank, 31 keys, 32 values.
/// Arora et al. 2023, Zoology (multi-query associative recall), with queries at any place.
struct RecallOptions {
  std::int64_t pairs = 8;        ///< 1 to 31
  std::string filler = "blank";  ///< or "random": any token
  std::int64_t context = 48;     ///< at least 3 pairs
  std::vector<Setting> parameters() {
    return {{"pairs", pairs, {1, 31}, "keys with their values"},
            {"filler", filler, std::vector<std::string>{"blank", "random"},
             "what stands between the queries"}};
  }
};
std::unique_ptr<Task> make_recall(const RecallOptions& options = {});

/// A Markov chain whose rows of transitions each sequence draws anew, uniform on the simplex; the
/// first token is uniform. The best prediction counts transitions: (n_ij + 1) / (n_i + symbols).
/// Edelman et al. 2024.
struct MarkovOptions {
  std::int64_t symbols = 2;  ///< 2 to 52
  std::int64_t context = 100;
  std::vector<Setting> parameters() { return {{"symbols", symbols, {2, 52}, "different tokens"}}; }
};
std::unique_ptr<Task> make_markov(const MarkovOptions& options = {});

/// Brackets that close in the order in which they opened, at most `depth` open at a time: at depth
/// 0 one opens, at `depth` one closes, else a coin decides; the type that opens is uniform.
/// Accuracy counts closing brackets. Hewitt et al. 2020; Yao et al. 2021.
struct DyckOptions {
  std::int64_t types = 4;  ///< 2 to 8
  std::int64_t depth = 4;  ///< 1 to 64
  std::int64_t context = 48;
  std::vector<Setting> parameters() {
    return {{"types", types, {2, 8}, "kinds of brackets"},
            {"depth", depth, {1, 64}, "most brackets open at a time"}};
  }
};
std::unique_ptr<Task> make_dyck(const DyckOptions& options = {});

/// a, b, = and then (a + b) mod p, the only target. The p^2 sums are split once: batches are of the
/// first part, without repetition; evaluation is the other part. Power et al. 2022; Nanda et al.
/// 2023.
struct ModaddOptions {
  std::int64_t modulus = 53;      ///< p, 2 to 119
  double train_share = 0.5;       ///< above 0, below 1
  std::string split = "ordered";  ///< "unordered": a + b and b + a are on the same side
  std::int64_t split_seed = 1;
  std::int64_t context = 3;  ///< no other
  std::vector<Setting> parameters() {
    return {{"modulus", modulus, {2, 119}, "p: numbers are 0 to p - 1"},
            {"train-share", train_share, {0, 1, true, true}, "part of the sums to train on"},
            {"split", split, std::vector<std::string>{"ordered", "unordered"},
             "ordered: a + b may be in training and b + a not"},
            {"split-seed", split_seed, {0, 0xffffffff}, "which sums are held out"}};
  }
};
std::unique_ptr<Task> make_modadd(const ModaddOptions& options = {});

/// T / 2 random tokens, a separator, then the same tokens reversed (or copied). The loss is on the
/// answer only.
struct ReverseOptions {
  bool copy = false;
  std::int64_t vocabulary = 16;  ///< tokens without the separator, 1 to 52
  std::int64_t context = 32;     ///< even
  std::vector<Setting> parameters() {
    return {{"vocabulary", vocabulary, {1, 52}, "different tokens"}};
  }
};
std::unique_ptr<Task> make_reverse(const ReverseOptions& options = {});

/// Tokens drawn independently with probabilities p that each sequence draws anew, uniform on the
/// simplex. The best prediction counts: (n_j + 1) / (t + colors), as from Polya's urn.
struct UrnOptions {
  std::int64_t colors = 3;  ///< 2 to 52
  std::int64_t context = 64;
  std::vector<Setting> parameters() { return {{"colors", colors, {2, 52}, "different tokens"}}; }
};
std::unique_ptr<Task> make_urn(const UrnOptions& options = {});

/// n random digits, then the same sorted; T = 2 n - 1, the answer counts. A quarter of all inputs
/// is held out. Karpathy's minGPT, demo.ipynb.
struct SortOptions {
  std::int64_t digits = 3;    ///< 2 to 10; digits^n is at most 1e6
  std::int64_t context = 11;  ///< odd
  std::vector<Setting> parameters() { return {{"digits", digits, {2, 10}, "different digits"}}; }
};
std::unique_ptr<Task> make_sort(const SortOptions& options = {});

/// Two numbers of n digits, then the n + 1 digits of their sum, the last first; T = 3 n, the answer
/// counts. A fifth of all problems, 500 at most, is held out. Karpathy's minGPT, projects/adder.
struct AdderOptions {
  std::int64_t context = 6;  ///< 3 n, n from 1 to 8
  std::vector<Setting> parameters() { return {}; }
};
std::unique_ptr<Task> make_adder(const AdderOptions& options = {});

/// T - 1 random bits, a |, then one bit: 1 if an odd number of them are 1, or if more than half
/// are. Only that counts.
struct BitsOptions {
  bool majority = false;
  std::int64_t context = 25;  ///< even for majority
  std::vector<Setting> parameters() { return {}; }
};
std::unique_ptr<Task> make_bits(const BitsOptions& options = {});

/// Independent uniform tokens after BOS.
struct RandomOptions {
  std::int64_t vocabulary = 32;  ///< tokens without BOS, 2 to 52
  std::int64_t context = 48;
  std::vector<Setting> parameters() {
    return {{"vocabulary", vocabulary, {2, 52}, "different tokens"}};
  }
};
std::unique_ptr<Task> make_random(const RandomOptions& options = {});

/// A UTF-8 text from a file. Tokens are its code points in order, or words
/// (nn/tasks/vocabulary.h). As a stream: windows of `context` tokens, the first 90 % of the text
/// train, the rest validate (nanoGPT's shakespeare_char). Or `by_line`: each line is a sequence
/// that starts and stops with the token \n; the stop counts, padding does not (makemore). A tenth
/// of the lines, 1000 at most, is held out, drawn with a fixed seed: whatever a run's seed, it is
/// measured on the same lines. Empty lines are skipped; TaskInfo::note says which others are left
/// out.
struct TextOptions {
  std::string path;
  std::int64_t context = 64;
  /// Evaluation sequences come with the losses of n-grams of order 2 to this one, counted in the
  /// first 4 million tokens that train and told no more than the model ("4-gram" in
  /// Sequence::references). 0: without. Counting takes about 0.2 s per order and million tokens.
  std::int64_t ngrams = 0;
  bool by_line = false;
  Unit unit = Unit::kChar;
  std::int64_t max_words = 8192;  ///< words that are tokens, the most frequent; the rest: <unk>
  /// With `by_line`, one character: only what follows the first token that ends in it counts, and
  /// the accuracy is of whole answers. Lines without it are left out. Empty: all of a line counts.
  std::string answer_after = {};
};
/// IoError unless `path` is a regular file that can be read, of valid UTF-8 and at most 1 GiB;
/// ValueError if it is too short or no line has answer_after.
std::unique_ptr<Task> make_text(const TextOptions& options);
/// Returns the task without its text, from the `data` of its info: it reads prompts and
/// has no training and no evaluation sequences (ValueError). IoError if `data` lacks a vocabulary.
std::unique_ptr<Task> make_text_prompts(const std::map<std::string, std::string>& data,
                                        const TextOptions& options);

}  // namespace heed::nn
