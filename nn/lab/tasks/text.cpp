// The tasks on a user's file. `text`: windows of the text, which is split as in nanoGPT's
// data/shakespeare_char; windows are drawn as in its train.py. `lines`: each line is a sequence
// that starts and ends with `\n`, as in Karpathy's makemore.
#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <unordered_set>

#include "autograd/base/error.h"
#include "autograd/base/utf8.h"
#include "nn/lab/tasks/bigram.h"
#include "nn/lab/tasks/corpus.h"

namespace heed::lab {

using namespace autograd;

namespace {

// Returns the token of the newline, with which each sequence of `lines` starts and ends.
Index newline_of(const Vocabulary& vocabulary) {
  const auto newline = vocabulary.find("\n");
  check<ValueError>(newline.has_value(), "lines",
                    "needs a model that was trained on lines; a newline is not in the vocabulary: ",
                    vocabulary.summary());
  return *newline;
}

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

// Returns one flag for each token of the vocabulary: true if its symbol ends in the character
// options.answer_after. Returns an empty list if answer_after is empty.
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

// A vocabulary without a text, which only accepts prompts. Base class of the tasks on a file. If
// options.bigrams is set, the loss of a bigram model is a reference of its evaluation sequences.
class FileTask : public Task {
 public:
  FileTask(const TextOptions& o, Corpus&& corpus, const std::string& description,
           const std::string& note)
      : Task(file_info(o, corpus, description, note)),
        by_line_(o.by_line),
        marks_(answer_marks(o, corpus.vocabulary)),
        tokens_(std::move(corpus.tokens)),
        whole_(corpus.whole),
        bigrams_(o.bigrams) {
    check<ValueError>(o.context >= 1, "text", "context needs to be at least 1, got ", o.context);
  }

  Index evaluation_size() const override { return 0; }
  bool holds_out() const override { return !whole_; }

 protected:
  Sequence draw(Generator&) const override {
    fail<ValueError>("text", "this task has no training sequences; make one with make_text()");
  }
  // If options.answer_after is set, makes the targets before the answer kIgnored.
  void mark_answer(Sequence& s) const {
    if (marks_.empty()) return;
    for (std::size_t t = 0; t < s.inputs.size() && !marks_[std::size_t(s.inputs[t])]; ++t) {
      s.targets[t] = kIgnored;
      s.counted[t] = false;
    }
  }
  const TokenArray& tokens() const { return tokens_; }
  bool whole() const { return whole_; }  // true: all tokens are for evaluation
  void prepare_evaluation(const std::function<void()>& poll) const override {
    if (!bigrams_) return;
    // Counting starts at the first evaluation, because most uses of a text have no evaluation.
    std::call_once(counted_, [&] {
      model_.emplace(info().vocabulary.size());
      counted_all_ = count_training(*model_, poll);
    });
  }
  // Adds the loss of the bigram model to the references of the sequence, and returns the sequence.
  Sequence with_bigrams(Sequence s) const {
    if (!bigrams_) return s;
    prepare_evaluation([] {});
    s.references[counted_all_ ? "2-gram" : "2-gram of first 4M"] =
        model_->loss(s.inputs, s.targets);
    return s;
  }
  static constexpr Index kMostCounted = 4'000'000;  // limit of training tokens to count
  static constexpr Index kPolled = 1 << 14;         // tokens between two calls of poll()

 private:
  // Counts the bigrams of the training tokens until at least kMostCounted tokens are counted. Calls
  // poll() after about every kPolled tokens. Returns true if all training tokens were counted.
  virtual bool count_training(BigramModel&, const std::function<void()>& /*poll*/) const {
    return true;
  }
  std::vector<Index> prompt_inputs(const std::string& text) const override {
    if (by_line_) return Task::prompt_inputs(text);  // adds the newline with which a line starts
    const Vocabulary& v = info().vocabulary;
    if (text.empty()) return {v.find("\n").value_or(0)};
    return v.encode(text, "prompt");
  }
  void mark_prompt(Sequence& s) const override { mark_answer(s); }

  bool by_line_;
  std::vector<bool> marks_;  // the result of answer_marks()
  TokenArray tokens_;
  bool whole_, bigrams_;
  mutable std::optional<BigramModel> model_;
  mutable bool counted_all_ = false;
  mutable std::once_flag counted_;
};

std::string describe(const TextOptions& o, const Corpus& corpus) {
  const bool words = o.unit == Unit::kWord;
  return (words ? "the next word of " : "the next character of ") + o.path + " (" +
         std::to_string(corpus.tokens.size()) + (words ? " words)" : " characters)");
}

class TextTask : public FileTask {
 public:
  TextTask(const TextOptions& o, Corpus&& corpus)
      : FileTask(o, std::move(corpus), describe(o, corpus), corpus.note),
        // This equals int(0.9 * n) in Python, which nanoGPT uses. The product is computed in
        // float64 as in Python, because 0.9 is rounded and another dtype could give another split.
        cut_(whole() ? 0 : Index(0.9 * double(tokens().size()))),
        stride_(o.stride > 0 ? o.stride : o.context) {
    const Index validation = all() - cut_;
    const auto units = [&](Index n) {
      return std::string(o.unit == Unit::kWord ? " word" : " character") + (n == 1 ? "" : "s");
    };
    check<ValueError>(stride_ <= o.context && o.stride >= 0, "`stride`",
                      "needs 1 to `context` = ", o.context, ", got ", o.stride);
    check<ValueError>(!whole() || validation >= 2, "text", "'", o.path, "' has ", validation,
                      units(validation),
                      ": needs at least 2, because each token is predicted from earlier ones");
    check<ValueError>(
        whole() || std::min(validation, cut_) > o.context, "text", "'", o.path, "' has ", all(),
        units(all()), ", ", cut_, " to train and ", validation,
        " to validate: too few for context ", o.context, "; each part needs at least ",
        o.context + 1, ". Use a longer text",
        validation >= 2 ? " or a context of at most " + std::to_string(validation - 1) : "");
  }

  Index evaluation_size() const override {
    const Index after_first = all() - cut_ - 1 - info().context;  // targets
    return 1 + (std::max<Index>(0, after_first) + stride_ - 1) / stride_;
  }

 private:
  Index all() const { return Index(tokens().size()); }

  Sequence draw(Generator& g) const override {
    if (whole()) return FileTask::draw(g);
    return window(draw_below(cut_ - info().context, g));
  }

  std::optional<Sequence> held_out(Index number) const override {
    Sequence s = window(cut_ + number * stride_);
    // The window before this one has the targets that both windows contain.
    for (Index t = 0; number > 0 && t < info().context - stride_; ++t) {
      s.targets[std::size_t(t)] = kIgnored;
      s.counted[std::size_t(t)] = false;
    }
    return with_bigrams(std::move(s));
  }

  // After the end of the text, inputs are token 0 and targets are ignored. This padding has no
  // effect, because the output of a causal model at a position does not depend on later inputs.
  Sequence window(Index start) const {
    Sequence s;
    for (Index i = start; i < start + info().context; ++i) {
      const auto at = std::size_t(i);
      s.inputs.push_back(i < all() ? tokens()[at] : 0);
      s.targets.push_back(i + 1 < all() ? tokens()[at + 1] : kIgnored);
      s.counted.push_back(i + 1 < all());
      s.padding += i >= all();
    }
    return s;
  }

  bool count_training(BigramModel& model, const std::function<void()>& poll) const override {
    const Index count = std::min(cut_, kMostCounted);
    for (Index i = 0; i < count; ++i) {
      if (i % kPolled == 0) poll();
      model.count(tokens()[std::size_t(i)]);
    }
    return count == cut_;
  }

  Index cut_;     // index of the first validation token
  Index stride_;  // distance of the starts of two validation windows
};

constexpr Index kFewest = 10;

Index test_lines(Index all) { return std::min<Index>(1000, all / 10); }

// A random set of `count` numbers from 0 to all - 1. It is drawn with a fixed seed, so that equal
// arguments give equal sets in all runs. Requires 0 <= count < all.
class HeldOut {
 public:
  HeldOut(Index all, Index count) : all_(all) {
    constexpr std::uint32_t kSplitSeed = 0x5EED11E5;
    Generator g(kSplitSeed);
    while (std::ssize(list_) < count)
      if (const Index n = draw_below(all_, g); set_.insert(n).second) list_.push_back(n);
  }

  // Returns the held-out numbers in the order in which they were drawn. The first n numbers of the
  // list are a uniform sample of 0 to all - 1, for every n.
  const std::vector<Index>& list() const { return list_; }
  bool contains(Index n) const { return set_.contains(n); }
  // Returns a uniform random number that is not held out.
  Index draw_other(Generator& g) const {
    for (;;)
      if (const Index n = draw_below(all_, g); !contains(n)) return n;
  }

 private:
  Index all_;
  std::vector<Index> list_;
  std::unordered_set<Index> set_;
};

class LinesTask : public FileTask {
 public:
  LinesTask(const TextOptions& o, Corpus&& corpus, std::vector<std::uint32_t> starts,
            const std::string& description, const std::string& note)
      : FileTask(o, std::move(corpus), description, note),
        starts_(std::move(starts)),
        held_out_(std::ssize(starts_), whole() ? 0 : test_lines(std::ssize(starts_))) {}

  Index evaluation_size() const override {
    return whole() ? std::ssize(starts_) : std::ssize(held_out_.list());
  }

 private:
  Sequence draw(Generator& g) const override {
    if (whole()) return FileTask::draw(g);
    return sequence(held_out_.draw_other(g));
  }

  std::optional<Sequence> held_out(Index number) const override {
    return with_bigrams(sequence(whole() ? number : held_out_.list()[std::size_t(number)]));
  }

  Index newline() const { return *info().bos; }

  // Returns the token at index `at`. After the last token of the file it returns a newline, so that
  // the last line also ends with a newline.
  Index token(std::size_t at) const { return at < tokens().size() ? tokens()[at] : newline(); }

  Sequence sequence(Index line) const {
    Sequence s;
    s.inputs = {newline()};
    for (std::size_t at = starts_[std::size_t(line)]; token(at) != newline(); ++at) {
      s.targets.push_back(token(at));
      s.inputs.push_back(token(at));
    }
    s.targets.push_back(newline());
    s.counted.assign(s.targets.size(), true);
    // The padding is at the end, and its targets are ignored. It has no effect, because the output
    // of a causal model at a position does not depend on later inputs.
    const auto context = std::size_t(info().context);
    s.padding = info().context - std::ssize(s.inputs);
    s.inputs.resize(context, newline());
    s.targets.resize(context, kIgnored);
    s.counted.resize(context, false);
    mark_answer(s);
    return s;
  }

  bool count_training(BigramModel& model, const std::function<void()>& poll) const override {
    Index polled = 0;
    for (Index line = 0; line < std::ssize(starts_); ++line) {
      if (line == 0 || model.counted() - polled >= kPolled) {
        poll();
        polled = model.counted();
      }
      if (held_out_.contains(line)) continue;
      if (model.counted() >= kMostCounted) return false;
      model.start(newline());
      std::size_t at = starts_[std::size_t(line)];
      for (; token(at) != newline(); ++at) model.count(token(at));
      model.count(newline());
    }
    return true;
  }

  std::vector<std::uint32_t> starts_;  // by line: index of its first token
  HeldOut held_out_;                   // indices into starts_
};

// The lines that are used, and how many lines are left out for each reason.
struct Choice {
  std::vector<std::uint32_t> starts;  // by used line: index of its first token
  Index too_long = 0, no_answer = 0;
  Index longest = 0;  // tokens of the longest line, without newline

  Index all() const { return std::ssize(starts) + too_long + no_answer; }
};

Choice choose_lines(const TextOptions& o, const Corpus& corpus) {
  const std::vector<bool> marks = answer_marks(o, corpus.vocabulary);
  Choice choice;
  const Index newline = newline_of(corpus.vocabulary);
  bool marked = marks.empty();
  const TokenArray& tokens = corpus.tokens;
  std::size_t start = 0;
  for (std::size_t at = 0; at <= tokens.size(); ++at) {
    const bool ends = at == tokens.size() || tokens[at] == newline;
    if (!ends) {
      marked = marked || marks[std::size_t(tokens[at])];
      continue;
    }
    const auto length = Index(at - start);
    choice.longest = std::max(choice.longest, length);
    if (length >= o.context)
      ++choice.too_long;
    else if (length > 0 && !marked)
      ++choice.no_answer;
    else if (length > 0)
      choice.starts.push_back(std::uint32_t(start));
    start = at + 1;
    marked = marks.empty();
  }
  return choice;
}

std::string left_out(const TextOptions& o, const Choice& choice) {
  std::string note;
  const auto add = [&](Index n, const std::string& why) {
    if (n > 0) note += (note.empty() ? "" : "; ") + std::to_string(n) + why;
  };
  const std::string of = " of " + std::to_string(choice.all()) + " lines ";
  add(choice.too_long, of + "are longer than " + std::to_string(o.context - 1) +
                           " tokens (context minus the final newline) and left out; `context` " +
                           std::to_string(choice.longest + 1) + " includes all");
  add(choice.no_answer, of + "have no " + (o.unit == Unit::kWord ? "word that ends in '" : "'") +
                            o.answer_after + "' and are left out");
  return note;
}

// Returns the task `lines`; if `known` is given, that of make_whole_text().
std::unique_ptr<Task> make_lines(const TextOptions& o, const Vocabulary* known = nullptr) {
  check<ValueError>(o.stride == 0, "`stride`",
                    "has no effect on lines, each of which is a sequence: leave it out");
  Corpus corpus = read_corpus(o, known);
  Choice choice = choose_lines(o, corpus);
  std::string note = left_out(o, choice);
  const Index n = std::ssize(choice.starts), fewest = known ? 1 : kFewest;
  check<ValueError>(n >= fewest, "lines", "'", o.path, "' has ", n,
                    n == 1 ? " usable line" : " usable lines",
                    note.empty() ? "" : " (" + note + ")", ": needs at least ", fewest,
                    known ? "" : ", because a tenth is held out");
  const std::string description = "a line of " + o.path + " (" + std::to_string(n) + " lines, " +
                                  std::to_string(known ? n : test_lines(n)) + " held out)";
  if (!corpus.note.empty()) note += (note.empty() ? "" : "; ") + corpus.note;
  return std::make_unique<LinesTask>(o, std::move(corpus), std::move(choice.starts), description,
                                     note);
}

}  // namespace

std::unique_ptr<Task> make_text(const TextOptions& options) {
  if (options.by_line) return make_lines(options);
  return std::make_unique<TextTask>(options, read_corpus(options));
}

std::unique_ptr<Task> make_whole_text(const TextOptions& options, const Vocabulary& vocabulary) {
  TextOptions o = options;
  o.unit = vocabulary.unit();
  o.bigrams = false;  // they are counted on training tokens, and there are none
  if (o.by_line) return make_lines(o, &vocabulary);
  return std::make_unique<TextTask>(o, read_corpus(o, &vocabulary));
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

}  // namespace heed::lab
