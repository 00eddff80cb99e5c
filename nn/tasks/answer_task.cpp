#include "nn/tasks/answer_task.h"

#include <algorithm>

#include "autograd/base/error.h"

namespace heed::nn {

using namespace autograd;

std::vector<std::int64_t> AnswerTask::random_question(std::int64_t choices, Generator& g) const {
  std::vector<std::int64_t> question(std::size_t(question_length_), 0);
  g.randint(question, 0, choices);
  return question;
}

Sequence AnswerTask::with_answer(const std::vector<std::int64_t>& question) const {
  const std::vector<std::int64_t> tokens = answer(question);
  Sequence s;
  s.inputs = question;
  if (separator_) s.inputs.push_back(*separator_);
  s.inputs.insert(s.inputs.end(), tokens.begin(), tokens.end() - 1);
  const auto before = std::size_t(ignored());
  s.targets.assign(before, kIgnored);
  s.targets.insert(s.targets.end(), tokens.begin(), tokens.end());
  s.counted.assign(before, false);
  s.counted.resize(s.targets.size(), true);
  s.position_optimal.assign(s.targets.size(), 0.0);
  return s;
}

std::vector<std::int64_t> AnswerTask::prompt_inputs(const std::string& text) const {
  std::vector<std::int64_t> ids = info().vocabulary.encode(text, "prompt");
  if (!separator_) {
    check<ValueError>(std::ssize(ids) >= question_length_, info().name, "a prompt needs at least ",
                      question_length_, " tokens, the question, got ", ids.size());
    return ids;
  }
  const auto question = std::find(ids.begin(), ids.end(), *separator_) - ids.begin();
  check<ValueError>(question == question_length_, info().name, "a prompt needs exactly ",
                    question_length_, " tokens before the ", info().vocabulary.label(*separator_),
                    ", got ", question);
  if (question == std::ssize(ids)) ids.push_back(*separator_);
  return ids;
}

void AnswerTask::mark_prompt(Sequence& s) const {
  std::fill_n(s.targets.begin(), ignored(), kIgnored);
  std::fill_n(s.counted.begin(), ignored(), false);
  // The question determines the target of the last token, too.
  const std::vector<std::int64_t> tokens =
      answer({s.inputs.begin(), s.inputs.begin() + question_length_});
  const std::int64_t next = std::ssize(s.inputs) - 1 - ignored();
  if (next >= std::ssize(tokens)) return;
  s.targets.back() = tokens[std::size_t(next)];
  s.counted.back() = true;
}

Sequence NumberedTask::draw(Generator& g) const {
  return with_answer(question(held_out_.draw_other(g)));
}

std::optional<Sequence> NumberedTask::held_out(std::int64_t number) const {
  return with_answer(question(held_out_.list()[std::size_t(number)]));
}

}  // namespace heed::nn
