// Tasks of a random question and the one answer that it has.
#pragma once

#include "nn/tasks/held_out.h"
#include "nn/tasks/task.h"

namespace heed::nn {

/// A sequence is a question of fixed length, a separator if there is one, and the answer, the only
/// part that counts. It is determined by the question, so the optimal loss is 0.
class AnswerTask : public Task {
 protected:
  /// The inputs of a sequence, info.context of them, are all but the last token of the answer.
  AnswerTask(TaskInfo info, std::int64_t question_length,
             std::optional<std::int64_t> separator = {})
      : Task(std::move(info)), question_length_(question_length), separator_(separator) {}

  std::int64_t question_length() const { return question_length_; }
  /// Tokens in [0, choices), each as likely.
  std::vector<std::int64_t> random_question(std::int64_t choices, Generator& g) const;
  Sequence with_answer(const std::vector<std::int64_t>& question) const;

 private:
  virtual std::vector<std::int64_t> answer(std::vector<std::int64_t> question) const = 0;
  std::vector<std::int64_t> prompt_inputs(const std::string& text) const override;
  void mark_prompt(Sequence& s) const override;
  std::int64_t ignored() const { return question_length_ - (separator_ ? 0 : 1); }

  std::int64_t question_length_;
  std::optional<std::int64_t> separator_;
};

/// An AnswerTask whose questions are numbered 0 .. questions - 1, each as likely. Some are held
/// out: training does not draw them, they are the evaluation set.
class NumberedTask : public AnswerTask {
 public:
  std::int64_t evaluation_size() const override { return std::ssize(held_out_.list()); }

 protected:
  NumberedTask(TaskInfo info, std::int64_t question_length, std::int64_t questions,
               std::int64_t held_out)
      : AnswerTask(std::move(info), question_length), held_out_(questions, held_out) {}

 private:
  virtual std::vector<std::int64_t> question(std::int64_t number) const = 0;
  Sequence draw(Generator& g) const override;
  std::optional<Sequence> held_out(std::int64_t number) const override;

  HeldOut held_out_;
};

}  // namespace heed::nn
