#include "nn/tasks/file_task.h"

#include <algorithm>

#include "autograd/base/error.h"
#include "autograd/base/utf8.h"

namespace heed::nn {

using namespace autograd;

std::int64_t newline_of(const Vocabulary& vocabulary) {
  const auto newline = vocabulary.find("\n");
  check<ValueError>(newline.has_value(), "lines",
                    "needs a model that was trained on lines; a newline is not in the vocabulary: ",
                    vocabulary.summary());
  return *newline;
}

namespace {

TaskInfo file_info(const TextOptions& o, const Corpus& corpus, const std::string& description,
                   const std::string& note) {
  const std::string units = o.unit == Unit::kChar ? "characters" : "words";
  TaskInfo info{.name = o.by_line ? "lines" : "text",
                .description = description,
                .accuracy = o.answer_after.empty() ? units + " right" : "whole answers right",
                .prompt = o.by_line
                              ? "the start of a line; the newline before it is added"
                              : "any text in the " + units + " of the file; a newline if empty",
                .vocabulary = corpus.vocabulary,
                .classes = corpus.vocabulary.size(),
                .context = o.context,
                .endless = !o.by_line,
                .whole_answers = !o.answer_after.empty(),
                .random_targets = o.answer_after.empty(),
                .note = note,
                .data = corpus.data};
  if (o.by_line) info.bos = info.stop = newline_of(corpus.vocabulary);
  return info;
}

}  // namespace

std::vector<bool> answer_marks(const TextOptions& o, const Vocabulary& vocabulary) {
  if (o.answer_after.empty()) return {};
  std::size_t at = 0;
  const auto c = next_code_point(o.answer_after, at);
  check<ValueError>(c && at == o.answer_after.size(), "`answer-after`",
                    "needs one character, got '", o.answer_after, "'");
  check<ValueError>(o.by_line, "`answer-after`", "'", o.answer_after,
                    "' has an effect only for lines; give the file as `lines`");
  std::vector<bool> marks;
  // The character must be at the end of a token. Otherwise the token would contain the beginning of
  // the answer.
  for (const std::string& symbol : vocabulary.symbols())
    marks.push_back(symbol.ends_with(o.answer_after));
  if (std::find(marks.begin(), marks.end(), true) != marks.end()) return marks;
  check<ValueError>(o.unit == Unit::kChar, "`answer-after`", "no word that is a token ends in '",
                    o.answer_after, "' in '", o.path,
                    "'; put a space after it in the file, or omit `unit` word; the words: ",
                    vocabulary.summary());
  fail<ValueError>("`answer-after`", "'", o.answer_after, "' never occurs in '", o.path,
                   "'; its characters: ", vocabulary.summary());
}

FileTask::FileTask(const TextOptions& o, Corpus&& corpus, const std::string& description,
                   const std::string& note)
    : Task(file_info(o, corpus, description, note)),
      by_line_(o.by_line),
      marks_(answer_marks(o, corpus.vocabulary)),
      tokens_(std::move(corpus.tokens)),
      whole_(corpus.whole),
      bigrams_(o.bigrams) {
  check<ValueError>(o.context >= 1, "text", "context needs to be at least 1, got ", o.context);
}

Sequence FileTask::draw(Generator&) const {
  fail<ValueError>(
      "text", "this task has no training sequences; make one with make_text() or make_lines()");
}

std::vector<std::int64_t> FileTask::prompt_inputs(const std::string& text) const {
  if (by_line_) return Task::prompt_inputs(text);  // adds the newline with which a line starts
  const Vocabulary& v = info().vocabulary;
  if (text.empty()) return {v.find("\n").value_or(0)};
  return v.encode(text, "prompt");
}

void FileTask::mark_answer(Sequence& s) const {
  if (marks_.empty()) return;
  for (std::size_t t = 0; t < s.inputs.size() && !marks_[std::size_t(s.inputs[t])]; ++t) {
    s.targets[t] = kIgnored;
    s.counted[t] = false;
  }
}

void FileTask::prepare_evaluation(const std::function<void()>& poll) const {
  if (!bigrams_) return;
  // Counting starts at the first evaluation, because most uses of a text have no evaluation.
  std::call_once(counted_, [&] {
    model_.emplace(info().vocabulary.size());
    counted_all_ = count_training(*model_, poll);
  });
}

Sequence FileTask::with_bigrams(Sequence s) const {
  if (!bigrams_) return s;
  prepare_evaluation([] {});
  s.references[counted_all_ ? "2-gram" : "2-gram of first 4M"] = model_->loss(s.inputs, s.targets);
  return s;
}

std::unique_ptr<Task> make_text_prompts(const std::map<std::string, std::string>& data,
                                        const TextOptions& options) {
  Corpus corpus;
  corpus.vocabulary = vocabulary_of(data, options.unit), corpus.whole = true;
  for (const auto& [key, value] : data)  // the metadata of a file have other entries, too
    if (key == "vocabulary" || key.starts_with("text_")) corpus.data[key] = value;
  return std::make_unique<FileTask>(options, std::move(corpus),
                                    options.by_line ? "a line of a file" : "a text file", "");
}

}  // namespace heed::nn
