#include "nn/lab/tasks/answer_task.h"

#include <algorithm>

#include "autograd/base/error.h"

namespace heed::lab {

using namespace autograd;

std::vector<Index> AnswerTask::random_question(Index choices, Generator& g) const {
  std::vector<Index> question(std::size_t(question_length_), 0);
  g.randint(question, 0, choices);
  return question;
}

Sequence AnswerTask::with_answer(const std::vector<Index>& question) const {
  const std::vector<Index> tokens = answer(question);
  Sequence s;
  s.inputs = question;
  s.inputs.push_back(separator_);
  s.inputs.insert(s.inputs.end(), tokens.begin(), tokens.end() - 1);
  s.targets.assign(question.size(), kIgnored);
  s.targets.insert(s.targets.end(), tokens.begin(), tokens.end());
  s.counted.assign(question.size(), false);
  s.counted.resize(s.targets.size(), true);
  s.position_optimal.assign(s.targets.size(), 0.0);
  return s;
}

std::vector<Index> AnswerTask::prompt_inputs(const std::string& text) const {
  std::vector<Index> ids = info().vocabulary.encode(text, "prompt");
  const auto question = std::find(ids.begin(), ids.end(), separator_) - ids.begin();
  check<ValueError>(question == question_length_, info().name, "a prompt needs exactly ",
                    question_length_, " tokens before the ", info().vocabulary.label(separator_),
                    ", got ", question);
  if (question == std::ssize(ids)) ids.push_back(separator_);
  return ids;
}

void AnswerTask::mark_prompt(Sequence& s) const {
  std::fill_n(s.targets.begin(), question_length_, kIgnored);
  std::fill_n(s.counted.begin(), question_length_, false);
  // The question determines the target of the last token, too.
  const std::vector<Index> tokens = answer({s.inputs.begin(), s.inputs.begin() + question_length_});
  const Index next = std::ssize(s.inputs) - 1 - question_length_;
  if (next >= std::ssize(tokens)) return;
  s.targets.back() = tokens[std::size_t(next)];
  s.counted.back() = true;
}

}  // namespace heed::lab
