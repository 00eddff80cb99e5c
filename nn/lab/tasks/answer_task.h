// Base class of tasks in which each sequence is a random question and its answer.
#pragma once

#include "nn/lab/tasks/task.h"

namespace heed::lab {

/// Task in which each sequence is a question of fixed length, a separator, and the answer. Only the
/// tokens of the answer are targets. The question determines the answer, so the optimal loss is 0.
class AnswerTask : public Task {
 protected:
  /// Constructs the task. The inputs of a sequence are the question, the separator, and the answer
  /// without its last token. They must have info.context tokens in total.
  AnswerTask(TaskInfo info, Index question_length, Index separator)
      : Task(std::move(info)), question_length_(question_length), separator_(separator) {}

  /// Returns question_length() random tokens, uniform in [0, choices).
  std::vector<Index> random_question(Index choices, Generator& g) const;
  /// Returns the sequence that consists of this question and its answer.
  Sequence with_answer(const std::vector<Index>& question) const;

 private:
  /// Returns the tokens of the answer to a question.
  virtual std::vector<Index> answer(std::vector<Index> question) const = 0;
  std::vector<Index> prompt_inputs(const std::string& text) const override;
  void mark_prompt(Sequence& s) const override;

  Index question_length_, separator_;
};

}  // namespace heed::lab
