// Common parts of the tasks on a user's file: nn/tasks/text.cpp, nn/tasks/lines.cpp.
#pragma once

#include <functional>
#include <mutex>
#include <optional>

#include "nn/tasks/corpus.h"
#include "nn/tasks/ngram.h"

namespace heed::nn {

/// Returns which tokens of the vocabulary end in the character answer_after (<unk> does not); empty
/// if that is. ValueError unless it is one character, in which some token ends, and the task is
/// by_line.
std::vector<bool> answer_marks(const TextOptions& options, const Vocabulary& vocabulary);

/// A task on a file whose text was not read: it can read prompts.
class FilePrompts : public Task {
 public:
  FilePrompts(const TextOptions& options, const Vocabulary& vocabulary,
              const std::map<std::string, std::string>& data, const std::string& description,
              const std::string& note);

  std::int64_t evaluation_size() const override { return 0; }

 protected:
  /// With answer_after: ignores the targets before the answer.
  void mark_answer(Sequence& s) const;

 private:
  Sequence draw(Generator&) const override;
  std::vector<std::int64_t> prompt_inputs(const std::string& text) const override;
  void mark_prompt(Sequence& s) const override { mark_answer(s); }

  bool by_line_;
  std::vector<bool> marks_;  // answer_marks
};

/// A task on a file with its text: draws sequences, and has the losses of n-grams as references.
class FileTask : public FilePrompts {
 protected:
  FileTask(const TextOptions& options, Corpus&& corpus, const std::string& description,
           const std::string& note);

  const TokenArray& tokens() const { return tokens_; }
  void prepare_evaluation(const std::function<void()>& poll) const override;
  /// Returns the sequence with the losses of n-grams on it among its references.
  Sequence with_ngrams(Sequence s) const;
  static constexpr std::int64_t kMostCounted = 4'000'000;
  static constexpr std::int64_t kPolled = 1 << 14;  ///< tokens between polls

 private:
  /// Counts what trains, kMostCounted tokens of it at most, calling poll() now and then; returns
  /// whether that was all.
  virtual bool count_training(NgramModel& model, const std::function<void()>& poll) const = 0;

  TokenArray tokens_;
  std::int64_t ngrams_;  // the highest order, 0: none
  mutable std::optional<NgramModel> model_;
  mutable bool counted_all_ = false;
  mutable std::once_flag counted_;
};

/// Lines as sequences; `by_line` is set.
std::unique_ptr<Task> make_lines(const TextOptions& options);

}  // namespace heed::nn
