// Base classes of tasks in which each sequence is a random question and its answer.
#pragma once

#include "nn/tasks/held_out.h"
#include "nn/tasks/task.h"

namespace heed::nn {

/// Task in which each sequence is a question of fixed length, optionally a separator, and the
/// answer. Only the tokens of the answer are targets. The question determines the answer, so the
/// optimal loss is 0.
class AnswerTask : public Task {
 protected:
  /// Constructs the task. The inputs of a sequence are the question, the separator if there is one,
  /// and the answer without its last token. They must have info.context tokens in total.
  AnswerTask(TaskInfo info, std::int64_t question_length,
             std::optional<std::int64_t> separator = {})
      : Task(std::move(info)), question_length_(question_length), separator_(separator) {}

  std::int64_t question_length() const { return question_length_; }
  /// Returns question_length() random tokens, uniform in [0, choices).
  std::vector<std::int64_t> random_question(std::int64_t choices, Generator& g) const;
  /// Returns the sequence that consists of this question and its answer.
  Sequence with_answer(const std::vector<std::int64_t>& question) const;

 private:
  /// Returns the tokens of the answer to a question.
  virtual std::vector<std::int64_t> answer(std::vector<std::int64_t> question) const = 0;
  std::vector<std::int64_t> prompt_inputs(const std::string& text) const override;
  void mark_prompt(Sequence& s) const override;
  /// Returns the number of positions before the first target.
  std::int64_t ignored() const { return question_length_ - (separator_ ? 0 : 1); }

  std::int64_t question_length_;
  std::optional<std::int64_t> separator_;
};

/// AnswerTask whose questions have the numbers 0 to questions - 1 and are drawn uniformly. A random
/// set of questions is held out: it is the evaluation set, and training never draws from it.
class NumberedTask : public AnswerTask {
 public:
  std::int64_t evaluation_size() const override { return std::ssize(held_out_.list()); }
  bool holds_out() const override { return true; }

 protected:
  NumberedTask(TaskInfo info, std::int64_t question_length, std::int64_t questions,
               std::int64_t held_out)
      : AnswerTask(std::move(info), question_length), held_out_(questions, held_out) {}

 private:
  /// Returns the tokens of the question with this number.
  virtual std::vector<std::int64_t> question(std::int64_t number) const = 0;
  Sequence draw(Generator& g) const override;
  std::optional<Sequence> held_out(std::int64_t number) const override;

  HeldOut held_out_;
};

}  // namespace heed::nn
