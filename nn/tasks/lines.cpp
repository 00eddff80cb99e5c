// The task `lines`: each line of a file is a sequence that starts and ends with `\n`, as in
// Karpathy's makemore.
#include <algorithm>

#include "autograd/base/error.h"
#include "nn/tasks/file_task.h"
#include "nn/tasks/held_out.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr std::int64_t kFewest = 10;

std::int64_t test_lines(std::int64_t all) { return std::min<std::int64_t>(1000, all / 10); }

class LinesTask : public FileTask {
 public:
  // If `first` has a value, the evaluation set is the lines from number `first` on. Otherwise the
  // evaluation set is drawn.
  LinesTask(const TextOptions& o, Corpus&& corpus, std::vector<std::uint32_t> starts,
            const std::string& description, const std::string& note,
            std::optional<std::int64_t> first)
      : FileTask(o, std::move(corpus), description, note),
        starts_(std::move(starts)),
        held_out_(std::ssize(starts_), first ? 0 : test_lines(std::ssize(starts_))),
        first_(first) {}

  std::int64_t evaluation_size() const override {
    return first_ ? std::ssize(starts_) - *first_ : std::ssize(held_out_.list());
  }

 private:
  Sequence draw(Generator& g) const override {
    if (first_ == 0) return FileTask::draw(g);
    return sequence(first_ ? draw_below(*first_, g) : held_out_.draw_other(g));
  }

  std::optional<Sequence> held_out(std::int64_t number) const override {
    return with_ngrams(sequence(first_ ? *first_ + number : held_out_.list()[std::size_t(number)]));
  }

  std::int64_t newline() const { return *info().bos; }

  // Returns the token at index `at`. After the last token of the file it returns a newline, so that
  // the last line also ends with a newline.
  std::int64_t token(std::size_t at) const {
    return at < tokens().size() ? tokens()[at] : newline();
  }

  Sequence sequence(std::int64_t line) const {
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

  bool count_training(NgramModel& model, const std::function<void()>& poll) const override {
    std::int64_t polled = 0;
    for (std::int64_t line = 0; line < first_.value_or(std::ssize(starts_)); ++line) {
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
  std::optional<std::int64_t> first_;  // first held-out line; no value if they are drawn
};

// The lines that are used, and how many lines are left out for each reason.
struct Choice {
  std::vector<std::uint32_t> starts;  // by used line: index of its first token
  std::int64_t too_long = 0, no_answer = 0;
  std::int64_t longest = 0;  // tokens of the longest line, without newline

  std::int64_t all() const { return std::ssize(starts) + too_long + no_answer; }
};

// Chooses among the lines of the tokens `start` to `end` - 1.
Choice choose_lines(const TextOptions& o, const Corpus& corpus, std::size_t start,
                    std::size_t end) {
  const std::vector<bool> marks = answer_marks(o, corpus.vocabulary);
  Choice choice;
  const std::int64_t newline = newline_of(corpus.vocabulary);
  bool marked = marks.empty();
  const TokenArray& tokens = corpus.tokens;
  for (std::size_t at = start; at <= end; ++at) {
    const bool ends = at == end || tokens[at] == newline;
    if (!ends) {
      marked = marked || marks[std::size_t(tokens[at])];
      continue;
    }
    const auto length = std::int64_t(at - start);
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

std::string left_out(const TextOptions& o, const Choice& choice, std::int64_t unknown) {
  std::string note;
  const auto add = [&](std::int64_t n, const std::string& why) {
    if (n > 0) note += (note.empty() ? "" : "; ") + std::to_string(n) + why;
  };
  const std::string of = " of " + std::to_string(choice.all()) + " lines ";
  add(choice.too_long, of + "are longer than " + std::to_string(o.context - 1) +
                           " tokens (context minus the final newline) and left out; `context` " +
                           std::to_string(choice.longest + 1) + " includes all");
  add(choice.no_answer, of + "have no " + (o.unit == Unit::kWord ? "word that ends in '" : "'") +
                            o.answer_after + "' and are left out");
  add(unknown, " words are <unk>; a larger `max-words` includes more");
  return note;
}

}  // namespace

std::unique_ptr<Task> make_lines(const TextOptions& o, const Vocabulary* known) {
  check<ValueError>(o.stride == 0, "`stride`",
                    "has no effect on lines, each of which is a sequence: leave it out");
  Corpus corpus = read_corpus(o, known);
  const auto training = std::size_t(corpus.training);
  Choice choice = choose_lines(o, corpus, 0, known ? corpus.tokens.size() : training);
  std::string note = left_out(o, choice, known ? 0 : corpus.unknown);
  const bool draws = !known && o.val_path.empty();  // the held-out lines are drawn from o.path
  const std::int64_t n = std::ssize(choice.starts), fewest = draws ? kFewest : 1;
  check<ValueError>(n >= fewest, "lines", "'", o.path, "' has ", n,
                    n == 1 ? " usable line" : " usable lines",
                    note.empty() ? "" : " (" + note + ")", ": needs at least ", fewest,
                    draws ? ", because a tenth is held out" : "");
  std::string description = "a line of " + o.path + " (" + std::to_string(n) + " lines";
  std::optional<std::int64_t> first;
  if (known) first = 0;
  if (!known && !o.val_path.empty()) {
    const Choice other = choose_lines(o, corpus, training, corpus.tokens.size());
    const std::string why = left_out(o, other, 0);
    check<ValueError>(!other.starts.empty(), "lines", "'", o.val_path, "' has 0 usable lines",
                      why.empty() ? "" : " (" + why + ")", ": needs at least 1");
    if (!why.empty()) note += (note.empty() ? "" : "; ") + o.val_path + ": " + why;
    description +=
        "), held out: " + o.val_path + " (" + std::to_string(other.starts.size()) + " lines)";
    choice.starts.insert(choice.starts.end(), other.starts.begin(), other.starts.end());
    first = n;
  } else {
    description += ", " + std::to_string(known ? n : test_lines(n)) + " held out)";
  }
  if (!corpus.note.empty()) note += (note.empty() ? "" : "; ") + corpus.note;
  return std::make_unique<LinesTask>(o, std::move(corpus), std::move(choice.starts), description,
                                     note, first);
}

}  // namespace heed::nn
