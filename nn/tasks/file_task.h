// Base class of the tasks on a user's file (nn/tasks/text.cpp, nn/tasks/lines.cpp).
#pragma once

#include <functional>
#include <mutex>
#include <optional>

#include "nn/tasks/bigram.h"
#include "nn/tasks/corpus.h"

namespace heed::nn {

/// Returns the token of the newline, with which each sequence of `lines` starts and ends. Throws
/// ValueError if it is not a symbol of the vocabulary.
std::int64_t newline_of(const Vocabulary& vocabulary);

/// Returns one flag for each token of the vocabulary: true if its symbol ends in the character
/// options.answer_after. Returns an empty list if answer_after is empty. Throws ValueError if
/// answer_after is not one character, if no token ends in this character, or if by_line is not set.
std::vector<bool> answer_marks(const TextOptions& options, const Vocabulary& vocabulary);

/// Base class of the tasks on a file. If options.bigrams is set, the loss of a bigram model is a
/// reference of its evaluation sequences. An object of this class itself has a vocabulary and no
/// text: it only accepts prompts.
class FileTask : public Task {
 public:
  FileTask(const TextOptions& options, Corpus&& corpus, const std::string& description,
           const std::string& note);

  std::int64_t evaluation_size() const override { return 0; }
  bool holds_out() const override { return !whole_; }

 protected:
  /// Throws ValueError, because the task has no training sequences.
  Sequence draw(Generator&) const override;
  /// If options.answer_after is set, makes the targets before the answer kIgnored.
  void mark_answer(Sequence& s) const;
  const TokenArray& tokens() const { return tokens_; }
  bool whole() const { return whole_; }  ///< true: all tokens are for evaluation
  void prepare_evaluation(const std::function<void()>& poll) const override;
  /// Adds the loss of the bigram model to the references of the sequence, and returns the sequence.
  Sequence with_bigrams(Sequence s) const;
  static constexpr std::int64_t kMostCounted = 4'000'000;  ///< limit of training tokens to count
  static constexpr std::int64_t kPolled = 1 << 14;         ///< tokens between two calls of poll()

 private:
  /// Counts the bigrams of the training tokens until at least kMostCounted tokens are counted.
  /// Calls poll() after about every kPolled tokens. Returns true if all training tokens were
  /// counted.
  virtual bool count_training(BigramModel&, const std::function<void()>& /*poll*/) const {
    return true;
  }
  std::vector<std::int64_t> prompt_inputs(const std::string& text) const override;
  void mark_prompt(Sequence& s) const override { mark_answer(s); }

  bool by_line_;
  std::vector<bool> marks_;  // the result of answer_marks()
  TokenArray tokens_;
  bool whole_, bigrams_;
  mutable std::optional<BigramModel> model_;
  mutable bool counted_all_ = false;
  mutable std::once_flag counted_;
};

/// Returns the task `lines`. Requires options.by_line. If `known` is given, returns the task of
/// make_whole_text(). Throws the errors of make_text() or make_whole_text().
std::unique_ptr<Task> make_lines(const TextOptions& options, const Vocabulary* known = nullptr);

}  // namespace heed::nn
